/* Receiving on a link: reads, frames, and bodies of large answers, which are read into place. */
#include "base/err.h"
#include "link/native/link.h"

#include <string.h>
#include <unistd.h>

static as_ns now_of(const struct as_link *l)
{
    return as_loop_now(l->up.fleet->loop);
}

/* --- answers --- */

/* The worker ended the stream with this outcome; the call's outcome fields are set. Every stream
 * ends here, in as_link_end or in on_returned. The table forgets it first, so that a second answer
 * finds nothing. */
void as_link_finish_call(struct as_link *l, struct as_call *c, struct as_model_times t, bool retry)
{
    as_link_remove_call(l, c);
    as_fleet_finish_call(&l->up, c, t, retry);
}

void as_link_finish_ok(struct as_link *l, struct as_call *c, struct as_model_times t)
{
    if (as_call_is_awaited(c)) {
        as_outcome_set(&c->outcome, 0);
        c->outcome.result.msg = (struct as_msg){0};
    }
    as_link_finish_call(l, c, t, false);
}

static void deliver_result(struct as_link *l, struct as_call *c, const struct as_frame_msg *m)
{
    const struct as_model_times t = {m->service, as_frame_since(m->ended, now_of(l))};

    as_outcome_set(&c->outcome, 0);
    as_link_finish_call(l, c, t, false);
}

/* The answer was dropped, and its bytes have been discarded. */
static void deliver_dropped(struct as_link *l, struct as_call *c)
{
    as_outcome_set(&c->outcome, c->outcome.err);
    as_link_finish_call(l, c, (struct as_model_times){0}, false);
}

/* --- answers --- */

/* There is no memory for the answer. Its bytes are read and discarded, since other answers follow
 * on the link and must not wait for this client. */
static void drop_answer(struct as_link *l, struct as_call *c, int err, uint64_t n)
{
    as_link_discard_answer(l, c);
    c->rx_msg.body_len = UINT64_MAX;
    c->outcome.dropped = n;
    c->outcome.err = err == AS_EFULL ? AS_EUNTAKEN : err;
}

/* A message whose body follows in DATA frames: copies its head, and allocates the first piece of
 * the body. */
static const char *begin_large(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_frame copy = *f;
    struct as_frame_msg m;
    const char *why;
    uint8_t *p;
    int err;

    if (f->flags & AS_FRAME_F_END)
        return "a message without its body has END";
    /* the head must outlive the read buffer, since the body comes in later reads */
    p = as_arena_alloc(c->arena, f->n, 8);
    if (!p)
        return "out of memory";
    memcpy(p, f->p, f->n);
    copy.p = p;
    why = as_link_decode(c, &copy, c->arena, &m, &c->outcome.result);
    if (why)
        return why;
    if (m.body || !m.body_len)
        return "message without END";
    /* checked before memory is allocated, since the worker chose the size */
    if (m.body_len > l->up.fleet->conf.max_message)
        return "an answer over the limit of max_message";
    err = as_blob_new_growing(c->payer, (size_t)m.body_len, &c->outcome.result.blob);
    if (err) {
        drop_answer(l, c, err, m.body_len);
        return NULL;
    }
    c->rx_msg = m;
    c->body_received = 0;
    return NULL;
}

static const char *begin_small(struct as_link *l, struct as_call *c, const struct as_frame *f,
                               struct as_frame_msg *m)
{
    struct as_frame copy = *f;
    int err;

    if (!c->client->local) { /* the read buffer is used again */
        copy.p = as_call_copy_answer(c, f->p, f->n, &c->outcome.result.blob, &err);
        if (!copy.p) {
            drop_answer(l, c, err, f->n);
            return NULL;
        }
    }
    return as_link_decode(c, &copy, c->arena, m, &c->outcome.result);
}

static void on_message(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_frame_msg m;
    const char *why;

    if (as_call_receives(c) || c->rx_msg.body_len) {
        as_link_protocol_error(l, "two messages on a unary stream");
        return;
    }
    if (!as_call_is_awaited(c) && !(f->flags & AS_FRAME_F_END)) {
        c->rx_msg.body_len = UINT64_MAX; /* its DATA is discarded until END */
        return;
    }
    /* nobody waits for it: only the slot matters, so it is not decoded */
    if (!as_call_is_awaited(c)) {
        as_link_finish_call(l, c, (struct as_model_times){0}, false);
        return;
    }
    if (f->flags & AS_FRAME_F_END) {
        why = begin_small(l, c, f, &m);
        if (!why && c->outcome.dropped) {
            deliver_dropped(l, c);
            return;
        }
        if (!why && m.body_len && !m.body)
            why = "END before the body";
        if (why)
            as_link_protocol_error(l, why);
        else
            deliver_result(l, c, &m);
        return;
    }
    why = begin_large(l, c, f);
    if (why)
        as_link_protocol_error(l, why);
}

static void on_error(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_model_times t = {0};
    struct as_frame_error e;
    bool retry;

    if (as_frame_get_error(f, &e) || !e.code || e.code > 16) {
        as_link_protocol_error(l, "malformed ERROR");
        return;
    }
    t.service = e.service;
    if (c->core.batch && !(e.flags & AS_ERROR_F_STARTED))
        c->core.batch->items -= c->core.items; /* the handler got only the others */
    /* its outcome may be on its way to the home loop: it must not be changed any more */
    if (!as_call_is_awaited(c)) {
        as_link_finish_call(l, c, t, false);
        return;
    }
    as_link_discard_answer(l, c);
    /* of "started" and "retry" the worse counts: it was started */
    retry = (e.flags & AS_ERROR_F_RETRY) && !(e.flags & AS_ERROR_F_STARTED);
    as_call_set_outcome(c, AS_EHANDLER, e.code, e.message);
    c->outcome.started = e.flags & AS_ERROR_F_STARTED;
    as_link_finish_call(l, c, t, retry);
}

/* The payload of a continuation frame is complete. */
static void on_body_complete(struct as_link *l)
{
    struct as_call *c = as_link_find_call(l, l->rx.sink_stream);
    const char *why;

    if (c && c->payload.kind == AS_FRAME_HTTP) {
        as_link_on_http_bytes(l, c);
        return;
    }
    if (c && c->stream) {
        as_link_on_part_body(l, c);
        return;
    }
    if (!c || !l->rx.sink_end)
        return;
    if (!as_call_is_awaited(c)) {
        as_link_finish_call(l, c, (struct as_model_times){0}, false);
        return;
    }
    if (c->outcome.dropped) {
        deliver_dropped(l, c);
        return;
    }
    if (c->body_received != c->rx_msg.body_len) {
        as_link_protocol_error(l, "END before the body was complete");
        return;
    }
    why = as_link_set_body(c, &c->outcome.result, c->outcome.result.blob->data);
    if (why)
        as_link_protocol_error(l, why);
    else
        deliver_result(l, c, &c->rx_msg);
}

/* Makes room for `need` bytes of the body. False: there is none, and the answer was dropped. */
static bool make_room_for_body(struct as_link *l, struct as_call *c, size_t need)
{
    uint64_t len = c->rx_msg.body_len;
    int err = need > as_blob_grow_at(c->outcome.result.blob, (size_t)len)
                  ? as_blob_grow(&c->outcome.result.blob, as_blob_grow_to(need, (size_t)len))
                  : 0;

    if (!err)
        return true;
    if (c->stream)
        as_link_drop_part(l, c, len);
    else
        drop_answer(l, c, err, len);
    return false;
}

/* Starts a continuation frame as soon as its header is here. NULL, or what is wrong with it. */
static const char *begin_body(struct as_link *l, const struct as_frame *f)
{
    struct as_call *c = as_link_find_call(l, f->stream);

    if (!c)
        return "DATA on a stream that is not open";
    l->rx.sink_stream = f->stream;
    l->rx.sink_end = f->flags & AS_FRAME_F_END;
    if (c->payload.kind == AS_FRAME_HTTP)
        return as_link_begin_http_bytes(l, c, f);
    if (!as_call_receives(c)) /* nobody waits for it: discarded */
        return c->rx_msg.body_len == UINT64_MAX ? NULL : "DATA before its message";
    if (f->n > c->rx_msg.body_len - c->body_received)
        return "more DATA than the message announced";
    if (!make_room_for_body(l, c, c->body_received + f->n))
        return NULL;
    l->rx.reader.sink = c->outcome.result.blob->data + c->body_received;
    c->body_received += f->n;
    return NULL;
}

/* --- other frames --- */

static void on_returned(struct as_link *l, const struct as_frame *f)
{
    uint64_t ids[AS_FRAME_IDS];
    uint32_t n;

    if (as_frame_get_ids(f, ids, AS_FRAME_IDS, &n)) {
        as_link_protocol_error(l, "malformed RETURNED");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct as_call *c = as_link_find_call(l, ids[i]);

        /* a request whose answer has begun was started, so it cannot be returned */
        if (!c || !c->core.recalled || c->core.bound || as_call_receives(c) || c->rx_msg.body_len) {
            as_link_protocol_error(l, "RETURNED for a stream that was not recalled");
            return;
        }
        as_link_remove_call(l, c);
        as_fleet_note_ended(&l->up, c);
        as_replica_returned(l->up.replica, &c->core, now_of(l));
    }
    n = as_link_collect_held(l, ids); /* the worker keeps those that it has not returned */
    as_replica_recall_done(l->up.replica, now_of(l));
    as_link_send_held(l, ids, n);
    as_upstream_check_retired(&l->up);
}

static void on_drain(struct as_link *l)
{
    struct as_fleet *f = l->up.fleet;

    if (l->state != AS_LINK_READY)
        return;
    as_link_move(l, AS_LINK_DRAINING);
    as_fleet_close_websockets(&l->up);
    if (l->up.process && !l->up.retiring && !f->draining)
        f->ops.on_leaves(f->ctx, as_str_of(l->up.name), as_str_of(l->up.process->token));
}

static void on_link_frame(struct as_link *l, const struct as_frame *f)
{
    size_t had = l->out.bytes;
    uint64_t opaque;

    switch (f->type) {
    case AS_FRAME_RETURNED:
        on_returned(l, f);
        break;
    case AS_FRAME_PING:
        if (as_frame_get_ping(f, &opaque)) {
            as_link_protocol_error(l, "malformed PING");
            break;
        }
        as_frame_put_ping(&l->out, AS_FRAME_PONG, opaque);
        as_link_count_reply(l, had);
        as_link_schedule_flush(l);
        break;
    case AS_FRAME_PONG:
        if (as_frame_get_ping(f, &opaque) || !l->ping_sent || opaque != l->ping_sent)
            as_link_protocol_error(l, "PONG without its PING");
        else
            l->ping_sent = 0;
        break;
    case AS_FRAME_CONTROL:
        as_link_on_control(l, f);
        break;
    case AS_FRAME_DRAIN:
        on_drain(l);
        break;
    case AS_FRAME_GOODBYE:
        if (l->state == AS_LINK_READY || l->state == AS_LINK_DRAINING)
            as_link_move(l, AS_LINK_LEAVING);
        break;
    case AS_FRAME_STARTED: /* a hint only; the status page is authoritative */
        break;
    default:
        as_link_protocol_error(l, as_frame_handling_of(f) == AS_FRAME_REFUSE
                                      ? "unknown mandatory frame"
                                      : "frame that a worker may not send");
    }
}

static void on_stream_frame(struct as_link *l, const struct as_frame *f)
{
    struct as_call *c = as_link_find_call(l, f->stream);

    if (!c) {
        as_link_protocol_error(l, "frame on a stream that is not open");
        return;
    }
    if (f->type == AS_FRAME_ERROR)
        on_error(l, c, f);
    else if (c->stream)
        as_link_on_part_frame(l, c, f);
    else if (f->type == AS_FRAME_DATA)
        on_message(l, c, f);
    else
        as_link_protocol_error(l, "END without an answer");
}

static bool is_of_caller(const struct as_frame *f)
{
    return f->stream && !(f->stream & 1) && f->type != AS_FRAME_CONTROL;
}

/* Frames that need no slots, but the capability CALLS. */
static void on_caller_frame(struct as_link *l, const struct as_frame *f)
{
    if (!(l->capabilities & AS_CAP_CALLS))
        as_link_protocol_error(l, "frame of a caller without the capability CALLS");
    else if (f->type == AS_FRAME_TARGET)
        as_caller_on_target(l, f);
    else if (f->type == AS_FRAME_REPORT)
        as_link_on_report(l, f);
    else
        as_caller_on_frame(l, f);
}

/* A driver serves nothing. It sends DRAIN when its further calls go to another dispatcher. */
static void on_driver_frame(struct as_link *l, const struct as_frame *f)
{
    if (f->type == AS_FRAME_DRAIN)
        as_link_note_moved(l);
    else if (f->type == AS_FRAME_GOODBYE)
        as_link_end(l, "said goodbye", AS_LOSS_KILLED);
    else if (f->type == AS_FRAME_PING || f->type == AS_FRAME_PONG)
        on_link_frame(l, f);
    else
        as_link_protocol_error(l, "frame that a driver may not send");
}

static void on_frame(struct as_link *l, const struct as_frame *f)
{
    if (as_frame_handling_of(f) == AS_FRAME_SKIP)
        return;
    if (f->type == AS_FRAME_HELLO)
        as_link_on_hello(l, f);
    else if (is_of_caller(f) || f->type == AS_FRAME_TARGET || f->type == AS_FRAME_REPORT)
        on_caller_frame(l, f);
    else if (l->state == AS_LINK_DRIVER)
        on_driver_frame(l, f);
    else if (f->type == AS_FRAME_REGISTER)
        as_link_on_register(l, f);
    else if (f->type == AS_FRAME_OPTIONS)
        as_link_on_options(l, f);
    else if (f->type == AS_FRAME_TRAFFIC)
        as_link_on_traffic(l, f);
    else if (f->type == AS_FRAME_ROUTER)
        as_link_on_router(l, f);
    else if (f->type == AS_FRAME_SERVICES)
        as_link_on_services(l, f);
    else if (f->type == AS_FRAME_POLICY)
        as_link_on_policy(l, f);
    else if (f->type == AS_FRAME_CREDIT && f->stream && l->up.replica)
        as_link_on_stream_credit(l, f);
    else if (f->type == AS_FRAME_CREDIT)
        as_link_on_credit(l, f);
    else if (!l->up.replica)
        as_link_protocol_error(l, "frame before slots were granted");
    else if (f->type == AS_FRAME_DATA || f->type == AS_FRAME_ERROR || f->type == AS_FRAME_END)
        on_stream_frame(l, f);
    else
        on_link_frame(l, f);
}

/* --- bytes --- */

/* Handles what comes next in the buffer. False: more bytes are needed, or the link has ended. */
static bool parse_frame(struct as_link *l)
{
    const char *why = NULL;
    struct as_frame f;

    switch (as_frame_reader_next(&l->rx.reader, &f)) {
    case AS_FRAME_READ_MORE:
        return false;
    case AS_FRAME_READ_FRAME:
        on_frame(l, &f);
        break;
    case AS_FRAME_READ_BODY:
        if (is_of_caller(&f))
            why = as_caller_begin_body(l, &f); /* nothing is open without CALLS */
        else
            why = l->up.replica ? begin_body(l, &f) : "frame before slots were granted";
        break;
    case AS_FRAME_READ_BODY_END:
        if (l->rx.sink_stream & 1)
            on_body_complete(l);
        else
            as_caller_on_body(l);
        break;
    case AS_FRAME_READ_BAD:
        why = "malformed frame header";
    }
    if (why)
        as_link_protocol_error(l, why);
    return l->state != AS_LINK_ENDED;
}

/* Makes room for the next read, and moves an incomplete frame to an aligned offset. A frame that is
 * larger than the buffer makes that grow, up to the bound that as_frame_peek enforces. False: out
 * of memory. */
static bool make_room(struct as_frame_reader *r)
{
    size_t rest = r->end - r->at, to = as_frame_reader_offset(r);

    if (r->need > r->cap) {
        uint8_t *p = aligned_alloc(AS_FRAME_ALIGN, AS_ALIGN(r->need, (size_t)4096));

        if (!p)
            return false;
        memcpy(p, r->p + r->at, rest);
        free(r->p);
        r->p = p;
        r->cap = AS_ALIGN(r->need, (size_t)4096);
    } else if (rest && r->at) {
        memmove(r->p, r->p + r->at, rest);
    }
    r->at = to;
    r->end = to + rest;
    return true;
}

static int64_t read_transport(struct as_link *l)
{
    struct as_frame_reader *r = &l->rx.reader;
    struct iovec iov[2];
    int64_t n;
    int fd = -1;

    if (!make_room(r))
        return AS_ENOMEM;
    /* descriptors are accepted only before HELLO; the kernel closes later ones */
    n = l->transport->ops->read(l->transport, iov, as_frame_reader_iov(r, iov),
                                l->state == AS_LINK_HELLO ? &fd : NULL);
    if (fd >= 0) {
        if (l->rx.fd >= 0)
            close(l->rx.fd);
        l->rx.fd = fd;
    }
    if (n > 0)
        as_frame_reader_received(r, (size_t)n);
    return n;
}

int as_link_read(struct as_link *l)
{
    int64_t n;

    if (l->state == AS_LINK_ENDED || !as_transport_is_open(l->transport))
        return -1;
    if (l->reply_backlog.before + l->reply_backlog.behind > AS_LINK_REPLY_BACKLOG_MAX) {
        as_link_protocol_error(l, "does not read the replies to its own frames");
        return -1;
    }
    /* One read per event, so that a link that floods does not starve the others.
     * Level-triggered polling brings us back. */
    n = read_transport(l);
    if (n == AS_EAGAIN)
        return 0;
    if (n <= 0) {
        as_link_on_broken(l);
        return -1;
    }
    l->received += (size_t)n;
    while (parse_frame(l))
        ;
    return as_transport_is_open(l->transport) ? 1 : -1;
}
