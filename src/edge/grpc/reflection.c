#include "edge/grpc/reflection.h"

#include "edge/grpc/stream.h"
#include "wire/grpc/grpc_reflection.h"

static void on_message(struct as_stream *s, struct as_stream_message *m)
{
    enum as_grpc_reflection_set set = s->x->edge->conf.interface == AS_INTERFACE_MANAGEMENT
                                          ? AS_GRPC_REFLECTION_MANAGEMENT
                                          : AS_GRPC_REFLECTION_CLIENTS;
    struct as_buf out = {0};
    int err = as_grpc_reflection_answer(set, m->p, m->n, &out);

    if (err == AS_ENOMEM)
        as_exchange_fail(s->x, err, "no memory for the answer");
    else if (err)
        as_exchange_fail(s->x, AS_EINVALID, "malformed request message");
    else
        as_stream_send(s, &out);
    as_buf_fini(&out);
    as_stream_message_free(m);
    if (!as_stream_has_room(s))
        as_stream_pause(s);
}

static void on_close(struct as_stream *s AS_UNUSED)
{
}

void as_reflection_open(struct as_exchange *x)
{
    static const struct as_stream_ops ops = {
        .on_message = on_message,
        .on_end = as_stream_finish,
        .on_room = as_stream_resume,
        .on_close = on_close,
    };

    as_stream_open(x, &ops, NULL, AS_GRPC_REFLECTION_REQUEST_MAX);
}
