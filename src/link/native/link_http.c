/* Requests of HTTP on a link: the heads of answers, bytes of bodies in both directions, and
 * messages of websockets. docs/protocol/link.md, section 17.
 *
 * Nothing is collected here: each frame is a part (link/fleet/call_stream.h). Bytes that come in
 * frames of their own are read into a blob that the client's connection may refer to.
 */
#include "base/err.h"
#include "link/native/link.h"

#include <string.h>

#define STATUS_ACCEPTED 101u

#define DISCARDED UINT64_MAX /* rx_msg.body_len: what still comes is not delivered */

void as_link_start_http(struct as_link *l, struct as_call *c)
{
    struct as_call_stream *s = c->stream;
    const struct as_frame_window first = {.messages = (int64_t)AS_FRAME_CREDIT_MESSAGES,
                                          .bytes = (int64_t)AS_HTTP_WINDOW};

    s->part_credit = s->input_credit = first;
    s->input_credit.messages = 0; /* only bytes are granted */
    s->owed_credit = (struct as_frame_window){0};
    s->has_head = s->accepted = false;
    s->ws_left = 0;
    if (s->input)
        as_link_send_http_input(l, c);
    else if (s->takes_inputs && s->inputs_over)
        as_link_send_input_end(l, c);
}

/* --- from the worker --- */

static const char *decode(const struct as_call *c, const struct as_frame *f, struct as_arena *a,
                          struct as_part *ret_p)
{
    struct as_http_part *h = &ret_p->http;
    const char *why = "";
    int err;

    ret_p->payload.kind = AS_FRAME_HTTP;
    if (as_frame_http_type(f) == AS_HTTP_WS_MESSAGE) {
        h->type = AS_HTTP_WS_MESSAGE;
        err = as_frame_get_ws_message(f, &h->ws, &why);
        if (!err && !(c->payload.http->flags & AS_HTTP_F_WEBSOCKET))
            return "a message of a websocket in another answer";
    } else {
        h->type = AS_HTTP_HEAD;
        err = as_frame_get_http_head(f, a, &h->head, &why);
    }
    if (err)
        return *why ? why : "out of memory";
    return NULL;
}

/* What this message changes of the stream. NULL, or which rule it breaks. */
static const char *note_message(struct as_call_stream *s, const struct as_http_part *h)
{
    if (s->ws_left)
        return "a message inside the body of another";
    if (h->type == AS_HTTP_HEAD) {
        if (s->has_head)
            return "two heads of one answer";
        s->has_head = true;
        s->accepted =
            h->head.status == STATUS_ACCEPTED && s->call->payload.http->flags & AS_HTTP_F_WEBSOCKET;
        return NULL;
    }
    if (!s->accepted)
        return "a message of a websocket that was not accepted";
    if (h->ws.opcode != AS_WS_CLOSE) {
        if (s->part_credit.bytes <= 0)
            return "a message beyond its stream's window";
        s->part_credit.bytes -= (int64_t)h->ws.cost;
    }
    s->ws_left = h->ws.body ? 0 : h->ws.body_len;
    return NULL;
}

/* For a client on this loop: nothing is copied. */
static const char *deliver_now(struct as_link *l, struct as_call *c, const struct as_frame *f,
                               struct as_model_times *ret_t)
{
    struct as_part p = {.call = c};
    const char *why = decode(c, f, &l->scratch, &p);

    if (!why)
        why = note_message(c->stream, &p.http);
    if (!why) {
        *ret_t = (struct as_model_times){
            p.http.head.service, as_frame_since(p.http.head.ended, as_loop_now(l->up.fleet->loop))};
        c->stream->on_part(c, &p);
    }
    as_arena_reset(&l->scratch);
    return why;
}

/* For a client on another loop: a copy of the frame. */
static const char *deliver_copy(struct as_link *l, struct as_call *c, const struct as_frame *f,
                                struct as_model_times *ret_t)
{
    struct as_part *p = calloc(1, sizeof(*p));
    struct as_frame copy = *f;
    const char *why = "out of memory";
    uint8_t *bytes;

    if (!p)
        return why;
    as_arena_init(&p->arena, NULL, 0);
    bytes = as_arena_alloc(&p->arena, f->n, 8);
    if (bytes) {
        memcpy(bytes, f->p, f->n);
        copy.p = bytes;
        why = decode(c, &copy, &p->arena, p);
    }
    if (!why)
        why = note_message(c->stream, &p->http);
    if (why) {
        as_part_free(p);
        return why;
    }
    *ret_t = (struct as_model_times){
        p->http.head.service, as_frame_since(p->http.head.ended, as_loop_now(l->up.fleet->loop))};
    as_fleet_deliver_part(c, p);
    return NULL;
}

/* The worker finishes what it has. */
static bool is_ending(const struct as_link *l)
{
    return l->up.retiring || l->state == AS_LINK_DRAINING;
}

static void on_message(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    bool end = f->flags & AS_FRAME_F_END, was_accepted = c->stream->accepted;
    struct as_model_times t = {0};
    const char *why;

    c->executing_since = as_loop_now(l->up.fleet->loop); /* its handler does not hang */
    /* nobody waits for it */
    if (c->rx_msg.body_len == DISCARDED || !as_replica_bind(l->up.replica, &c->core)) {
        c->rx_msg.body_len = DISCARDED;
        if (end)
            as_link_finish_call(l, c, t, false);
        return;
    }
    why = c->client->local ? deliver_now(l, c, f, &t) : deliver_copy(l, c, f, &t);
    if (why)
        as_link_protocol_error(l, why);
    else if (end)
        as_link_finish_ok(l, c, t);
    else if (c->stream->accepted && !was_accepted && is_ending(l) && as_call_is_awaited(c))
        as_fleet_deliver_close(c, AS_FLEET_CLOSE_RESTART); /* those before it have been closed */
}

void as_link_on_http_frame(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    uint64_t service;

    if (f->type == AS_FRAME_DATA)
        on_message(l, c, f);
    else if (as_frame_get_end(f, &service))
        as_link_protocol_error(l, "malformed END");
    else if (c->stream->ws_left && c->rx_msg.body_len != DISCARDED)
        as_link_protocol_error(l, "END before the body was complete");
    else
        as_link_finish_ok(l, c, (struct as_model_times){.service = service});
}

/* There is no memory for n bytes: the client is told, and the rest is discarded. */
static void drop_bytes(struct as_link *l, struct as_call *c, uint64_t n)
{
    struct as_part *p = calloc(1, sizeof(*p));

    c->rx_msg.body_len = DISCARDED;
    if (!p) {
        as_link_protocol_error(l, "out of memory");
        return;
    }
    as_arena_init(&p->arena, NULL, 0);
    p->payload.kind = AS_FRAME_HTTP;
    p->dropped = n;
    as_fleet_deliver_part(c, p);
}

const char *as_link_begin_http_bytes(struct as_link *l, struct as_call *c, const struct as_frame *f)
{
    struct as_call_stream *s = c->stream;

    if (!as_call_is_awaited(c))
        c->rx_msg.body_len = DISCARDED;
    if (c->rx_msg.body_len == DISCARDED)
        return NULL;
    if (!s->has_head)
        return "DATA before the head of the answer";
    if (s->ws_left) {
        if (f->n > s->ws_left)
            return "more DATA than the message announced";
        s->ws_left -= f->n;
    } else if (f->n > 0) {
        if (s->accepted)
            return "bytes of a websocket outside of a message";
        if ((int64_t)f->n > s->part_credit.bytes)
            return "DATA beyond its stream's window";
        s->part_credit.bytes -= f->n;
    }
    if (!f->n)
        return NULL;
    if (as_blob_new_charged(c->payer, f->n, &c->outcome.result.blob))
        drop_bytes(l, c, f->n);
    else
        l->rx.reader.sink = c->outcome.result.blob->data;
    return NULL;
}

/* Takes over the reference to b. */
static void deliver_bytes(struct as_link *l, struct as_call *c, struct as_blob *b)
{
    struct as_payload payload = {
        .kind = AS_FRAME_HTTP, .body = {(const char *)b->data, b->n}, .blob = b};
    struct as_part *p;

    if (c->client->local) {
        c->stream->on_part(c, &(struct as_part){.call = c, .payload = payload});
        as_blob_unref(b);
        return;
    }
    p = calloc(1, sizeof(*p));
    if (!p) {
        as_blob_unref(b);
        as_link_protocol_error(l, "out of memory");
        return;
    }
    as_arena_init(&p->arena, NULL, 0);
    p->payload = payload;
    as_fleet_deliver_part(c, p);
}

void as_link_on_http_bytes(struct as_link *l, struct as_call *c)
{
    struct as_blob *b = c->outcome.result.blob;
    bool end = l->rx.sink_end;

    c->outcome.result.blob = NULL;
    c->executing_since = as_loop_now(l->up.fleet->loop);
    if (c->rx_msg.body_len == DISCARDED || !as_call_is_awaited(c)) {
        as_blob_unref(b);
        if (end)
            as_link_finish_call(l, c, (struct as_model_times){0}, false);
        return;
    }
    if (end && c->stream->ws_left) {
        as_blob_unref(b);
        as_link_protocol_error(l, "END before the body was complete");
        return;
    }
    if (b)
        deliver_bytes(l, c, b);
    if (end && l->state != AS_LINK_ENDED)
        as_link_finish_ok(l, c, (struct as_model_times){0});
}

/* --- to the worker --- */

static bool send_ws_message(struct as_link *l, struct as_call *c, struct as_input *in)
{
    struct as_frame_window *w = &c->stream->input_credit;
    const struct as_frame_ws_message *m = in->payload.ws;

    if (m->opcode != AS_WS_CLOSE) {
        if (w->bytes <= 0)
            return false;
        w->bytes -= (int64_t)AS_WS_COST(m->body_len);
    }
    as_frame_put_ws_message(&l->out, c->core.stream, m, in->payload.blob);
    return true;
}

/* True: all of it was sent. */
static bool send_bytes(struct as_link *l, struct as_call *c, struct as_input *in)
{
    struct as_frame_window *w = &c->stream->input_credit;
    size_t n = (size_t)AS_MIN((int64_t)(in->payload.body.n - in->sent), AS_MAX(w->bytes, 0));

    as_frame_put_http_data(&l->out, c->core.stream, (const uint8_t *)in->payload.body.p + in->sent,
                           n, false, in->payload.blob);
    in->sent += n;
    w->bytes -= (int64_t)n;
    return in->sent == in->payload.body.n;
}

void as_link_send_http_input(struct as_link *l, struct as_call *c)
{
    struct as_input *in = c->stream->input;
    size_t had = l->out.bytes;
    bool sent;

    if (!in)
        return;
    if (c->core.recalled) { /* its worker may give it back */
        l->holds_inputs = true;
        return;
    }
    sent = in->payload.ws ? send_ws_message(l, c, in) : send_bytes(l, c, in);
    if (l->out.bytes > had) {
        /* bound to this worker: another one would get only the later bytes */
        as_replica_bind(l->up.replica, &c->core);
        as_link_schedule_flush(l);
    }
    if (sent)
        as_call_release_input(c->stream);
}

uint32_t as_link_collect_held(struct as_link *l, uint64_t ids[AS_FRAME_IDS])
{
    uint32_t n = 0;

    for (uint32_t i = 0; l->holds_inputs && i < l->cap_calls; i++) {
        const struct as_call *c = l->calls[i];

        if (c && c->core.recalled && c->payload.kind == AS_FRAME_HTTP && c->stream->input) {
            AS_ASSERT(n < AS_FRAME_IDS); /* of one RECALL */
            ids[n++] = c->core.stream;
        }
    }
    l->holds_inputs = false;
    return n;
}

void as_link_send_held(struct as_link *l, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct as_call *c = as_link_find_call(l, ids[i]);

        if (c && as_call_is_awaited(c))
            as_link_send_http_input(l, c);
    }
}
