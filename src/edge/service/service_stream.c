/* Methods with any number of messages in one direction, or in both.
 *
 * A client that sends one message: the call begins when that is complete. One that sends many: the
 * call begins with its head, and each message is an input of it (link/fleet/call_stream.h), one at
 * a time, so the client is read only as fast as the handler takes them. Answers come as parts; the
 * last one has the status.
 */
#include "edge/grpc/stream.h"
#include "edge/service/service.h"

/* Lies in the exchange's arena: it outlives the stream if the fleet still uses the call. */
struct service {
    struct as_exchange *x;
    struct as_stream *s; /* NULL: the client has gone, or has its whole answer */
    const struct as_service_method *method;
    struct as_body body; /* of the call */
    struct as_call_stream parts;
    struct as_stream_message message; /* the one of the request; or the input that is under way */
    bool has_message;
    struct as_body input_body;
    struct as_input input;
    bool input_under_way, ended, end_sent;
    struct as_frame_window uncredited; /* parts that the client has not taken */
};

static struct service *service_of(struct as_call *c)
{
    return AS_CONTAINER(c->stream, struct service, parts);
}

/* --- the answer --- */

static void return_credit(struct service *v)
{
    struct as_frame_window w = v->uncredited;

    v->uncredited = (struct as_frame_window){0};
    if (v->x->in_fleet && w.messages)
        as_fleet_client_credit(&v->x->edge->client, &v->x->call, (uint32_t)w.messages,
                               (uint64_t)w.bytes);
}

/* Large messages are sent from where they lie. */
static bool send_message(struct service *v, struct as_str message, struct as_blob *owner)
{
    bool refer = owner && message.n > AS_COPY_MAX;
    struct as_blob *b = as_exchange_answer_blob(v->x, AS_GRPC_PREFIX + (refer ? 0 : message.n));
    struct as_http_piece pieces[2];

    if (!b)
        return false;
    as_grpc_prefix(b->data, (uint32_t)message.n);
    if (!refer && message.n)
        memcpy(b->data + AS_GRPC_PREFIX, message.p, message.n);
    pieces[0] = (struct as_http_piece){b->data, b->n, b};
    pieces[1] = (struct as_http_piece){(const uint8_t *)message.p, message.n, owner};
    as_stream_send_framed(v->s, pieces, refer ? 2 : 1);
    as_blob_unref(b);
    return true;
}

static void on_part(struct as_call *c, struct as_part *p)
{
    struct service *v = service_of(c);
    struct as_exchange *x = v->x;
    struct as_service_answer a;

    if (!v->s || x->state == AS_EXCHANGE_ANSWERED)
        return;
    if (p->dropped) {
        as_exchange_fail_answer(x, AS_EUNTAKEN, p->dropped);
        as_exchange_cancel(x);
        return;
    }
    if (!as_service_read_answer(x, &p->payload, &a) ||
        (!a.has_status && !send_message(v, a.message, p->payload.blob))) {
        as_exchange_cancel(x);
        return;
    }
    v->uncredited.messages++;
    v->uncredited.bytes += (int64_t)p->cost;
    if (a.has_status)
        as_exchange_send_status(x, a.status, a.trailers, a.n_trailers);
    else if (as_stream_has_room(v->s))
        return_credit(v);
}

static void on_answer(struct as_call *c)
{
    struct service *v = service_of(c);

    if (c->outcome.err)
        as_service_send_error(v->x);
    else if (v->s) /* a no-op after the status */
        as_stream_finish(v->s);
}

static void on_release(struct as_call *c)
{
    as_exchange_released(AS_CONTAINER(c, struct as_exchange, call));
}

/* --- the request --- */

static void submit(struct service *v)
{
    struct as_exchange *x = v->x;
    struct as_call *c = &x->call;

    v->parts = (struct as_call_stream){.on_part = on_part, .takes_inputs = v->method->takes_inputs};
    c->stream = &v->parts;
    c->arena = &x->dispatch_arena;
    x->answer.in_dispatch_arena = true;
    c->payload.call_flags = AS_CALL_F_STREAM | (v->method->takes_inputs ? AS_CALL_F_INPUTS : 0);
    c->on_answer = on_answer;
    c->on_release = on_release;
    as_service_submit(x);
}

static void send_end(struct service *v)
{
    if (!v->ended || v->end_sent || v->input_under_way || !v->x->in_fleet)
        return;
    v->end_sent = true;
    as_fleet_client_input_end(&v->x->edge->client, &v->x->call);
}

static void on_input_release(struct as_input *in)
{
    struct service *v = in->owner;

    v->input_under_way = false;
    as_stream_message_free(&v->message);
    send_end(v);
    if (v->s)
        as_stream_resume(v->s);
}

static void send_input(struct service *v)
{
    struct as_str data = {(const char *)v->message.p, v->message.n};

    v->input_body = (struct as_body){.codec = AS_BODY_BYTES, .data = data};
    v->input = (struct as_input){.payload = {.kind = AS_FRAME_CALL,
                                             .pieces = &v->input_body,
                                             .body = data,
                                             .blob = v->message.blob},
                                 .on_release = on_input_release,
                                 .owner = v};
    v->input_under_way = true;
    as_stream_pause(v->s);
    as_fleet_client_input(&v->x->edge->client, &v->x->call, &v->input);
}

static void on_message(struct as_stream *s, struct as_stream_message *m)
{
    struct service *v = s->owner;

    if (v->method->takes_inputs && v->x->in_fleet) {
        v->message = *m;
        send_input(v);
    } else if (v->method->takes_inputs || v->has_message) {
        as_stream_message_free(m);
        if (v->has_message)
            as_exchange_fail(v->x, AS_EUNIMPLEMENTED, "more than one message on a unary call");
    } else {
        v->message = *m;
        v->has_message = true;
    }
}

static void on_end(struct as_stream *s)
{
    struct service *v = s->owner;

    v->ended = true;
    if (v->method->takes_inputs) {
        send_end(v);
        return;
    }
    if (!v->has_message) {
        as_exchange_fail(v->x, AS_EUNIMPLEMENTED, "a unary call needs one message, got none");
        return;
    }
    v->body.data = (struct as_str){(const char *)v->message.p, v->message.n};
    v->x->call.payload.body = v->body.data;
    v->x->call.payload.blob = v->message.blob;
    v->x->body.blob = v->message.blob; /* freed with the exchange */
    v->message.blob = NULL;
    submit(v);
}

static void on_room(struct as_stream *s)
{
    return_credit(s->owner);
}

/* Calls in progress are finished; those that the drain does not await fail at its end. */
static void on_drain(struct as_stream *s AS_UNUSED)
{
}

static void on_close(struct as_stream *s)
{
    struct service *v = s->owner;

    v->s = NULL;
    if (!v->input_under_way)
        as_stream_message_free(&v->message);
}

void as_service_open(struct as_exchange *x)
{
    static const struct as_stream_ops ops = {
        .on_message = on_message,
        .on_end = on_end,
        .on_room = on_room,
        .on_drain = on_drain,
        .on_close = on_close,
    };
    struct service *v = as_exchange_alloc(x, sizeof(*v), 8, "the request");

    if (!v)
        return;
    *v = (struct service){.x = x};
    if (!as_service_prepare(x, &v->body, &v->method))
        return;
    if (!as_stream_open(x, &ops, v, x->edge->conf.max_message))
        return;
    v->s = x->streaming;
    if (v->method->takes_inputs)
        submit(v);
}
