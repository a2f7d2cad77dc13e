/* Frames of even streams: the answers of calls that this program has opened. */
#include "link/worker/worker_internal.h"
#include "wire/frame/body.h"

/* NULL: the link has ended, since the stream is not that of an open call. */
static struct as_worker_out *find_call(struct as_worker *w, struct as_worker_link *l,
                                       const struct as_frame *f)
{
    struct as_worker_out *o = as_worker_out_find(l, f->stream);

    if (!o)
        as_worker_close_link(w, l, "the dispatcher answered a call that is not open");
    return o;
}

void as_worker_on_call_credit(struct as_worker *w, struct as_worker_link *l,
                              const struct as_frame *f)
{
    struct as_frame_credit c;

    if (as_frame_get_credit(f, &c) || c.slots || c.prefetch || !c.messages || !c.bytes ||
        c.bytes > INT64_MAX) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed CREDIT");
        return;
    }
    l->calls.limit = (struct as_frame_window){c.messages, (int64_t)c.bytes};
    l->calls.granted = true;
    as_worker_send_calls(w, l);
}

/* --- bodies --- */

int as_worker_view_body(struct as_worker_req *q, bool answer, const char **ret_why)
{
    int err = as_body_get(q->call_bytes, q->body_len, answer, &q->arena, &q->call_body, ret_why);

    if (err == AS_ENOMEM)
        *ret_why = "out of memory for the body of a call";
    return err;
}

/* A body was received whole. */
static void finish_answer(struct as_worker *w, struct as_worker_link *l, struct as_worker_out *o,
                          struct as_worker_req *in, bool last)
{
    const char *why = "the dispatcher sent two messages for a call that takes one";
    bool streams = o->flags & AS_CALL_F_STREAM;

    if ((!streams && !last) || as_worker_view_body(in, true, &why)) {
        as_worker_req_put(w, in);
        o->partial = NULL;
        as_worker_close_link(w, l, why);
        return;
    }
    as_worker_out_deliver(w, o, in, last);
}

void as_worker_on_answer(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                         struct as_blob *buf)
{
    struct as_worker_out *o = find_call(w, l, f);
    bool last = f->flags & AS_FRAME_F_END;
    struct as_worker_req *in;
    const char *why = "the dispatcher sent a message beyond its credit, or inside another";
    int err;

    if (!o)
        return;
    if (o->dropped) {
        if (last)
            as_worker_out_closed(w, o);
        return;
    }
    if (o->partial || ((o->flags & AS_CALL_F_STREAM) && !as_frame_window_is_open(&o->credit))) {
        as_worker_close_link(w, l, why);
        return;
    }
    in = as_worker_req_get(w, l);
    err = in ? as_worker_decode(w, in, f, buf, &why) : AS_ENOMEM;
    if (!err && !in->is_call) {
        why = "the dispatcher answered a call with tensors";
        err = AS_EPROTO;
    }
    if (err) {
        if (in)
            as_worker_req_put(w, in);
        as_worker_close_link(w, l, err == AS_ENOMEM ? "out of memory for an answer" : why);
        return;
    }
    in->out = o;
    in->stream = o->stream;
    if (o->flags & AS_CALL_F_STREAM)
        as_frame_window_consume(&o->credit, in->cost);
    if (in->complete)
        finish_answer(w, l, o, in, last);
    else
        o->partial = in;
}

bool as_worker_begin_answer(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                            struct as_worker_req **ret_q)
{
    struct as_worker_out *o = find_call(w, l, f);
    bool last = f->flags & AS_FRAME_F_END;
    struct as_worker_req *in;

    if (!o)
        return false;
    if (o->dropped) {
        if (last)
            as_worker_out_closed(w, o);
        return false;
    }
    in = o->partial;
    if (!in || f->n > in->body_len - in->body_received ||
        (last && in->body_received + f->n != in->body_len)) {
        as_worker_close_link(w, l, "the dispatcher sent DATA that does not fit its stream");
        return false;
    }
    in->inputs_over = last;
    *ret_q = in;
    return true;
}

void as_worker_on_answer_bytes(struct as_worker *w, struct as_worker_req *in)
{
    struct as_worker_out *o = in->out;

    if (in->orphan) { /* its call was cancelled meanwhile */
        bool last = in->inputs_over;

        as_worker_req_put(w, in);
        if (last)
            as_worker_out_closed(w, o);
    } else if (in->complete) {
        finish_answer(w, in->link, o, in, in->inputs_over);
    }
}

/* --- the end --- */

void as_worker_on_answer_end(struct as_worker *w, struct as_worker_link *l,
                             const struct as_frame *f)
{
    struct as_worker_out *o = find_call(w, l, f);
    uint64_t service;

    if (!o)
        return;
    if (as_frame_get_end(f, &service) ||
        (!o->dropped && (o->partial || !(o->flags & AS_CALL_F_STREAM)))) {
        as_worker_close_link(w, l, "the dispatcher sent an END that its stream does not take");
        return;
    }
    as_worker_out_end(w, o, 0, 0, (struct as_str){0}, false);
    as_worker_out_closed(w, o);
}

void as_worker_on_answer_error(struct as_worker *w, struct as_worker_link *l,
                               const struct as_frame *f)
{
    struct as_worker_out *o = f->stream && !(f->stream & 1) ? find_call(w, l, f) : NULL;
    struct as_frame_error e;

    if (!o && as_transport_is_open(l->transport))
        as_worker_close_link(w, l, "the dispatcher sent an ERROR for a stream of its own");
    if (!o)
        return;
    if (as_frame_get_error(f, &e)) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed ERROR");
        return;
    }
    as_worker_out_drop_partial(w, o);
    as_worker_out_end(w, o, e.code, e.flags & AS_ERROR_F_STARTED ? AS_WORKER_OUT_STARTED : 0,
                      e.message, true);
    as_worker_out_closed(w, o);
}
