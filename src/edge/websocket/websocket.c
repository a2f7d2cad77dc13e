#include "edge/websocket/websocket.h"

#include "base/counter.h"
#include "base/memory/slab.h"
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/key_access.h"
#include "wire/ws/ws.h"
#include "wire/ws/ws_handshake.h"

#define CODE_NORMAL   1000u
#define CODE_POLICY   1008u
#define CODE_INTERNAL 1011u
#define CODE_RESTART  1012u
/* Credit is returned in steps of so many bytes: a letter per message would cost more. */
#define CREDIT_STEP (AS_HTTP_WINDOW / 4)

struct as_websocket {
    struct as_exchange *x;
    struct as_list node; /* in as_edge.websockets while the client is connected */
    /* of the request that opened it; both are called in their turn */
    void (*release)(struct as_call *c);
    const struct as_exchange_answer_ops *ops;
    struct as_ws *session; /* NULL: the client has gone */
    /* --- from the client --- */
    struct as_input input; /* what is under way to the fleet, … */
    struct as_frame_ws_message message;
    struct as_blob *message_blob; /* … whose bytes it holds, or NULL */
    bool input_busy;
    bool reading;
    struct as_buf unread; /* bytes that the session has not taken, from unread_at on; charged */
    size_t unread_at;
    bool close_due, close_sent; /* the last message to the worker */
    uint16_t close_code;
    uint32_t close_n;
    char close_reason[AS_WS_REASON];
    /* --- to the client --- */
    uint64_t left;         /* bytes that are missing of the message that is being written … */
    bool dropped;          /* … which the client does not get, since it is closing */
    struct as_buf control; /* control frames that wait for its end */
    uint64_t cost, owed;   /* of that message; what may be credited to the worker */
    bool wants_room;       /* the client must read first */
    bool worker_ended;     /* the worker's answer has ended */
    bool finished;         /* nothing more is written */
    as_ns pinged, closing; /* when the client got the ping that it has not answered, and the close;
                            * 0: none */
};

static struct as_websocket *of(struct as_exchange *x)
{
    return x->websocket;
}

static struct as_fleet_client *fleet_of(const struct as_websocket *ws)
{
    return &ws->x->edge->client;
}

static as_ns now_of(const struct as_websocket *ws)
{
    return as_loop_now(ws->x->edge->loop);
}

/* --- bytes to the client --- */

/* A part of a message was written, and the rest is missing. */
static bool is_inside_message(const struct as_websocket *ws)
{
    return ws->left && !ws->dropped;
}

/* Ends the connection, or the stream, when everything is sent. */
static void finish(struct as_websocket *ws)
{
    struct as_exchange *x = ws->x;

    if (ws->finished || !ws->session)
        return;
    ws->finished = true;
    if (is_inside_message(ws)) /* the client must not take a part of a message for the whole */
        as_conn_reset(x->conn, x->stream);
    else
        as_conn_finish(x->conn, x->stream, NULL, 0);
    as_conn_schedule_flush(x->conn);
}

/* There is no memory for what must be written. */
static void abort_client(struct as_websocket *ws)
{
    ws->finished = true;
    as_conn_reset(ws->x->conn, ws->x->stream);
    as_conn_schedule_flush(ws->x->conn);
}

static void write_piece(struct as_websocket *ws, const uint8_t *p, size_t n, struct as_blob *owner)
{
    struct as_http_piece piece = {p, n, owner};

    as_conn_write(ws->x->conn, ws->x->stream, &piece);
    as_conn_schedule_flush(ws->x->conn);
}

/* Copies two slices into one piece. */
static void write_copy(struct as_websocket *ws, const uint8_t *head, size_t n_head,
                       const uint8_t *p, size_t n)
{
    struct as_blob *b;

    if (ws->finished)
        return;
    if (as_blob_new_charged(ws->x->budget.answers, n_head + n, &b)) {
        abort_client(ws);
        return;
    }
    memcpy(b->data, head, n_head);
    if (n)
        memcpy(b->data + n_head, p, n);
    write_piece(ws, b->data, n_head + n, b);
    as_blob_unref(b);
}

/* A control frame of the session. Inside of a message it waits; not every ping needs its pong (RFC
 * 6455 §5.5.3), but a close, which is the last frame, is sent. */
static void on_control(void *owner, const uint8_t *p, size_t n)
{
    struct as_websocket *ws = owner;

    if (!is_inside_message(ws))
        write_copy(ws, p, n, NULL, 0);
    else if (ws->control.n <= AS_WS_CONTROL || as_ws_is_closing(ws->session))
        as_buf_add(&ws->control, p, n);
}

static void end_message(struct as_websocket *ws)
{
    if (!ws->control.n)
        return;
    write_copy(ws, ws->control.p, ws->control.n, NULL, 0);
    as_buf_fini(&ws->control);
}

/* --- messages to the worker --- */

static void read_unread(struct as_websocket *ws);

static void on_input_released(struct as_input *in)
{
    struct as_websocket *ws = in->owner;

    as_blob_unref(ws->message_blob);
    ws->message_blob = NULL;
    ws->input_busy = false;
    if (ws->session)
        as_ws_pause(ws->session, false);
    read_unread(ws);
}

static void send_input(struct as_websocket *ws)
{
    ws->input = (struct as_input){
        .payload = {.kind = AS_FRAME_HTTP, .ws = &ws->message, .blob = ws->message_blob},
        .on_release = on_input_released,
        .owner = ws};
    ws->input_busy = true;
    as_fleet_client_input(fleet_of(ws), &ws->x->call, &ws->input);
}

static bool may_send_input(const struct as_websocket *ws)
{
    return ws->x->in_fleet && !ws->worker_ended;
}

static void send_close_if_due(struct as_websocket *ws)
{
    if (!ws->close_due || ws->input_busy || !may_send_input(ws))
        return;
    ws->close_due = false;
    ws->message = (struct as_frame_ws_message){.opcode = AS_WS_CLOSE,
                                               .code = ws->close_code,
                                               .end = true,
                                               .body_len = ws->close_n,
                                               .body = (const uint8_t *)ws->close_reason};
    send_input(ws);
}

/* The worker gets a close as its last message, unless it has got one or has closed itself. */
static void close_worker(struct as_websocket *ws, uint32_t code, struct as_str reason)
{
    if (ws->close_sent)
        return;
    ws->close_sent = ws->close_due = true;
    ws->close_code = code == AS_WS_NO_CODE ? 0 : (uint16_t)code;
    ws->close_n = (uint32_t)AS_MIN(reason.n, sizeof(ws->close_reason));
    if (ws->close_n)
        memcpy(ws->close_reason, reason.p, ws->close_n);
    send_close_if_due(ws);
}

static void on_message(void *owner, const struct as_ws_message *m)
{
    struct as_websocket *ws = owner;

    as_counter_add(&ws->x->edge->stat.ws_received, 1);
    if (!may_send_input(ws) || ws->close_sent)
        return;
    ws->message = (struct as_frame_ws_message){.opcode = m->opcode, .body_len = m->n, .body = m->p};
    if (m->blob)
        ws->message_blob = as_blob_ref(m->blob);
    as_ws_pause(ws->session, true);
    send_input(ws);
}

static void on_close(void *owner, uint32_t code, struct as_str reason, const char *fault)
{
    struct as_websocket *ws = owner;
    struct as_edge *e = ws->x->edge;
    char id[600];
    uint64_t skipped;

    if (fault && as_edge_may_log(e, AS_EDGE_LOG_WEBSOCKET, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "websocket_fault",
                     "request_id=%s code=%u reason=\"%s\" skipped=%lu",
                     as_log_quote(id, sizeof(id), ws->x->request_id), code, fault, skipped);
    close_worker(ws, code, reason);
}

/* --- bytes of the client --- */

static size_t unread_bytes(const struct as_websocket *ws)
{
    return ws->unread.n - ws->unread_at;
}

static void drop_unread(struct as_websocket *ws, size_t n)
{
    if (!n)
        return;
    as_account_uncharge(ws->x->budget.requests, n);
    ws->unread_at += n;
    if (ws->unread_at == ws->unread.n) {
        as_buf_fini(&ws->unread);
        ws->unread_at = 0;
    } else if (2 * ws->unread_at >= ws->unread.n) { /* moves fewer bytes than were read */
        as_buf_drop(&ws->unread, ws->unread_at);
        ws->unread_at = 0;
    }
    if (!ws->session)
        return;
    as_conn_consume(ws->x->conn, ws->x->stream, n);
    as_conn_schedule_flush(ws->x->conn);
}

/* What follows from what the session has read. */
static void after_reading(struct as_websocket *ws)
{
    if (as_ws_is_closed(ws->session))
        finish(ws);
}

static void read_unread(struct as_websocket *ws)
{
    send_close_if_due(ws);
    if (ws->reading || !ws->session)
        return;
    ws->reading = true;
    if (unread_bytes(ws))
        drop_unread(ws, as_ws_recv(ws->session, ws->unread.p + ws->unread_at, unread_bytes(ws)));
    ws->reading = false;
    after_reading(ws);
}

static void receive(struct as_exchange *x, const uint8_t *p, size_t n)
{
    struct as_websocket *ws = of(x);
    size_t taken = n;

    ws->pinged = 0;
    if (!ws->finished && unread_bytes(ws))
        taken = 0;
    else if (!ws->finished) {
        ws->reading = true;
        taken = as_ws_recv(ws->session, p, n);
        ws->reading = false;
        after_reading(ws);
    }
    as_conn_consume(x->conn, x->stream, taken);
    if (taken == n)
        return;
    if (!as_account_try_charge(x->budget.requests, n - taken)) {
        as_ws_close(ws->session, 1013, AS_STR("there is no room for the message"));
        close_worker(ws, 1013, (struct as_str){0});
        finish(ws);
        as_conn_consume(x->conn, x->stream, n - taken);
        return;
    }
    as_buf_add(&ws->unread, p + taken, n - taken);
}

/* --- parts of the worker's answer --- */

static void return_credit(struct as_websocket *ws)
{
    struct as_exchange *x = ws->x;

    if (ws->session && !ws->finished &&
        as_conn_unsent(x->conn, x->stream) >= AS_WEBSOCKET_HIGH_WATER) {
        ws->wants_room = true;
        return;
    }
    ws->wants_room = false;
    if (ws->owed < CREDIT_STEP || !may_send_input(ws))
        return;
    as_fleet_client_credit(fleet_of(ws), &x->call, 0, ws->owed);
    ws->owed = 0;
}

/* Closes the client's side; what the session has sent closes the worker's. */
static void close_client(struct as_websocket *ws, uint32_t code, struct as_str reason)
{
    if (!ws->session)
        return;
    if (is_inside_message(ws) && ws->worker_ended) { /* the rest of the message will not come */
        finish(ws);
        return;
    }
    if (!ws->closing)
        ws->closing = now_of(ws);
    as_ws_close(ws->session, code, reason);
    if (as_ws_is_closed(ws->session))
        finish(ws);
}

static void on_text(struct as_websocket *ws, const struct as_frame_ws_message *m)
{
    uint8_t head[AS_WS_HEAD];
    size_t n_head = as_ws_put_head(head, m->opcode, m->body_len);
    bool is_inline = m->body || !m->body_len;

    ws->dropped = !ws->session || ws->finished || as_ws_is_closing(ws->session);
    ws->cost = m->cost;
    if (!ws->dropped) {
        as_counter_add(&ws->x->edge->stat.ws_sent, 1);
        write_copy(ws, head, n_head, m->body, is_inline ? (size_t)m->body_len : 0);
    }
    ws->left = is_inline ? 0 : m->body_len;
    if (is_inline)
        ws->owed += ws->cost;
}

static void on_bytes(struct as_websocket *ws, const struct as_part *p)
{
    size_t n = p->payload.body.n;

    if (!ws->dropped && ws->session && !ws->finished)
        write_piece(ws, (const uint8_t *)p->payload.body.p, n, p->payload.blob);
    ws->left -= AS_MIN((uint64_t)n, ws->left);
    if (ws->left)
        return;
    ws->owed += ws->cost;
    if (ws->session)
        end_message(ws);
}

static void on_part(struct as_call *c, struct as_part *p)
{
    struct as_websocket *ws = of(AS_CONTAINER(c, struct as_exchange, call));
    const struct as_frame_ws_message *m = &p->http.ws;

    if (p->dropped) { /* no memory for a part of a message */
        if (ws->session && !ws->finished)
            abort_client(ws);
        close_worker(ws, AS_WS_ABNORMAL, (struct as_str){0});
    } else if (p->http.type == AS_HTTP_WS_MESSAGE && m->opcode == AS_WS_CLOSE && !m->end) {
        close_client(ws, m->code, (struct as_str){0});
        close_worker(ws, m->code, (struct as_str){0});
    } else if (p->http.type == AS_HTTP_WS_MESSAGE && m->opcode == AS_WS_CLOSE) {
        ws->close_sent = true; /* it needs none */
        close_client(ws, m->code ? m->code : AS_WS_NO_CODE,
                     (struct as_str){(const char *)m->body, m->body ? (size_t)m->body_len : 0});
    } else if (p->http.type == AS_HTTP_WS_MESSAGE) {
        on_text(ws, m);
    } else {
        on_bytes(ws, p);
    }
    return_credit(ws);
}

static void on_answer(struct as_call *c)
{
    struct as_websocket *ws = of(AS_CONTAINER(c, struct as_exchange, call));
    bool failed = c->outcome.err;

    as_blob_unref(c->outcome.result.blob);
    c->outcome.result.blob = NULL;
    ws->worker_ended = true;
    if (!failed)
        close_client(ws, CODE_NORMAL, (struct as_str){0});
    else if (ws->x->edge->draining)
        close_client(ws, CODE_RESTART, (struct as_str){0});
    else
        close_client(ws, CODE_INTERNAL, (struct as_str){0});
}

/* --- the end --- */

static void free_websocket(struct as_websocket *ws)
{
    as_blob_unref(ws->message_blob);
    as_buf_fini(&ws->unread);
    as_buf_fini(&ws->control);
    as_slab_put(ws);
}

static void on_release(struct as_call *c)
{
    struct as_websocket *ws = of(AS_CONTAINER(c, struct as_exchange, call));
    void (*release)(struct as_call * c) = ws->release;

    ws->worker_ended = true;
    if (!ws->session)
        free_websocket(ws);
    release(c); /* may free the exchange */
}

/* The client's stream is closed. The worker is told by a close, not by a cancel: its handler ends
 * by itself, as it does when the client closes. */
static void on_gone(struct as_exchange *x)
{
    struct as_websocket *ws = of(x);
    const struct as_exchange_answer_ops *ops = ws->ops;
    size_t unread = unread_bytes(ws);

    as_list_remove(&ws->node);
    as_counter_sub(&x->edge->stat.websockets, 1);
    as_ws_free(ws->session);
    ws->session = NULL;
    drop_unread(ws, unread);
    close_worker(ws, AS_WS_ABNORMAL, (struct as_str){0});
    return_credit(ws);
    x->cancelled = x->in_fleet;
    if (!x->in_fleet)
        free_websocket(ws);
    ops->gone(x);
}

static void on_drained(struct as_exchange *x)
{
    if (of(x)->wants_room)
        return_credit(of(x));
}

/* --- the handshake --- */

static void no_end(struct as_exchange *x AS_UNUSED)
{
}

/* After the answer has begun no error can be sent. */
static void no_fail(struct as_exchange *x AS_UNUSED, uint32_t status AS_UNUSED,
                    struct as_str message AS_UNUSED, const struct as_http_header *extra AS_UNUSED,
                    uint32_t n_extra AS_UNUSED)
{
}

static void no_count(struct as_exchange *x AS_UNUSED, uint32_t status AS_UNUSED)
{
}

static const struct as_exchange_kind websocket_kind = {
    .streams = true, .receive = receive, .end = no_end, .count = no_count, .fail = no_fail};

static struct as_websocket *new_websocket(struct as_exchange *x)
{
    static const struct as_ws_ops ops = {on_message, on_close, on_control};
    struct as_websocket *ws = as_slab_get(sizeof(*ws));

    if (!ws)
        return NULL;
    *ws = (struct as_websocket){.x = x, .release = x->call.on_release, .ops = x->answer.ops};
    if (as_ws_new(&ws->session, &x->edge->conf.websocket.session, &ops, ws, x->budget.requests)) {
        as_slab_put(ws);
        return NULL;
    }
    return ws;
}

bool as_websocket_accept(struct as_exchange *x, const struct as_http_header *fields,
                         uint32_t n_fields)
{
    static const struct as_exchange_answer_ops answer_ops = {on_drained, on_gone};
    struct as_edge *e = x->edge;
    struct as_http_header *h =
        as_exchange_alloc(x, (n_fields + AS_WEBSOCKET_EXTRA) * sizeof(*h), 8, "the answer");
    struct as_http_answer a = {.status = 200, .headers = h};
    char accept[AS_WS_ACCEPT];
    struct as_websocket *ws;

    if (!h)
        return false;
    if (as_ws_handshake_accept(x->head, accept)) { /* HTTP/1.1 */
        a.status = 101;
        h[a.n_headers++] =
            (struct as_http_header){AS_STR("sec-websocket-accept"), {accept, sizeof(accept)}};
    }
    if (!as_websocket_put_fields(x, fields, n_fields, h, &a.n_headers)) {
        as_exchange_fail(x, AS_EHANDLER,
                         "the handler chose a subprotocol that the client has not offered");
        return false;
    }
    ws = new_websocket(x);
    if (!ws) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for a websocket");
        return false;
    }
    if (!as_exchange_mark_answered(x, a.status)) {
        as_ws_free(ws->session);
        as_slab_put(ws);
        return false;
    }
    x->kind = &websocket_kind;
    x->websocket = ws;
    x->answer.ops = &answer_ops;
    x->call.stream->on_part = on_part;
    x->call.on_answer = on_answer;
    x->call.on_release = on_release;
    as_list_push(&e->websockets, &ws->node);
    as_counter_add(&e->stat.websockets, 1);
    as_conn_begin(x->conn, x->stream, &a);
    if (e->websockets_drained) {
        close_client(ws, CODE_RESTART, (struct as_str){0});
        close_worker(ws, CODE_RESTART, (struct as_str){0});
    }
    return true;
}

/* --- all of the edge --- */

/* Closes both sides with a close of the server. */
static void close_both(struct as_websocket *ws, uint32_t code, struct as_str reason)
{
    close_client(ws, code, reason);
    close_worker(ws, code, reason);
}

static void sweep(struct as_websocket *ws, as_ns now)
{
    as_ns interval = ws->x->edge->conf.websocket.ping_interval;
    as_ns timeout = ws->x->edge->conf.websocket.ping_timeout;

    if (ws->finished)
        return;
    if (ws->closing) {
        if (now - ws->closing >= timeout)
            finish(ws);
    } else if (!as_key_access_is_valid(ws->x)) {
        close_both(ws, CODE_POLICY, AS_STR("the API key is no longer valid"));
    } else if (ws->input_busy) { /* the worker is slow: the client is not read */
        ws->pinged = 0;
    } else if (!ws->pinged && interval && now - ws->x->conn->last_received >= interval) {
        ws->pinged = now;
        as_ws_ping(ws->session);
    } else if (ws->pinged && now - ws->pinged >= timeout) {
        as_ws_close(ws->session, CODE_INTERNAL, AS_STR("a ping was not answered"));
        close_worker(ws, AS_WS_ABNORMAL, (struct as_str){0});
        finish(ws);
    }
}

void as_websocket_sweep_all(struct as_edge *e, as_ns now)
{
    AS_LIST_EACH_ENTRY(ws, struct as_websocket, node, &e->websockets)
        sweep(ws, now);
}

void as_websocket_drain_all(struct as_edge *e)
{
    e->websockets_drained = true;
    AS_LIST_EACH_ENTRY(ws, struct as_websocket, node, &e->websockets)
        close_both(ws, CODE_RESTART, (struct as_str){0});
}
