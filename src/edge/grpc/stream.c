#include "edge/grpc/stream.h"

#include "edge/exchange/client_timeouts.h"

/* True: the call was answered, or the client has gone. */
static bool is_over(const struct as_stream *s)
{
    return s->x->state == AS_EXCHANGE_ANSWERED || !s->x->conn;
}

void as_stream_message_free(struct as_stream_message *m)
{
    as_blob_unref(m->blob);
    *m = (struct as_stream_message){0};
}

/* --- in --- */

static void fail_too_big(struct as_stream *s, uint64_t len)
{
    as_exchange_fail(s->x, AS_ETOOBIG, "message of %lu bytes is over the limit of this method, %lu",
                     (unsigned long)len, (unsigned long)s->max_message);
}

static void deliver_message(struct as_stream *s)
{
    struct as_exchange *x = s->x;
    struct as_stream_message m = {x->body.p, x->body.len, x->body.blob};

    x->body.p = NULL;
    x->body.blob = NULL;
    s->in_turn++;
    if (is_over(s)) { /* it ended while the message was inflated */
        as_stream_message_free(&m);
        return;
    }
    if (m.n > s->max_message) {
        fail_too_big(s, m.n);
        as_stream_message_free(&m);
        return;
    }
    s->ops->on_message(s, &m);
}

static void resume_reading(struct as_stream *s);

static void on_inflated(struct as_exchange *x)
{
    deliver_message(x->streaming);
    resume_reading(x->streaming);
}

static void complete_message(struct as_stream *s)
{
    if (s->x->body.is_compressed)
        as_exchange_inflate(s->x, on_inflated); /* may call back before it returns */
    else
        deliver_message(s);
}

static void begin_message(struct as_stream *s, uint64_t len, bool compressed)
{
    struct as_exchange *x = s->x;

    if (len > s->max_message)
        fail_too_big(s, len);
    else if (as_exchange_begin_message(x, len, compressed, true) && !len)
        complete_message(s);
}

static bool may_read(struct as_stream *s)
{
    if (is_over(s) || s->paused || s->x->pending.compress)
        return false;
    if (s->in_turn < AS_STREAM_TURN_MESSAGES)
        return true;
    as_loop_defer_next_turn(s->x->edge->loop, &s->x->edge->stream_turn);
    return false;
}

/* Reads messages from *p, *n until the owner pauses; both advance. */
static void read_messages(struct as_stream *s, const uint8_t **p, size_t *n)
{
    struct as_exchange *x = s->x;
    const uint8_t *bytes;
    uint64_t len;
    bool compressed;

    while (may_read(s)) {
        switch (as_grpc_read(&x->body.reader, p, n, &bytes, &len, &compressed)) {
        case AS_GRPC_MESSAGE:
            begin_message(s, len, compressed);
            break;
        case AS_GRPC_BYTES:
            if (as_exchange_append(x, bytes, (size_t)len) && x->body.filled == x->body.len)
                complete_message(s);
            break;
        case AS_GRPC_BAD:
            as_exchange_fail(x, AS_EINTERNAL,
                             "malformed gRPC frame: compression flag is not 0 or 1");
            break;
        case AS_GRPC_MORE:
            return;
        }
    }
}

static void report_end(struct as_stream *s)
{
    if (!s->half_closed || s->end_reported || s->unread.n > s->unread_at || !may_read(s))
        return;
    s->end_reported = true;
    if (as_grpc_at_boundary(&s->x->body.reader))
        s->ops->on_end(s);
    else
        as_exchange_fail(s->x, AS_EINTERNAL, "the request ended inside a message");
}

static void consume(struct as_stream *s, size_t n)
{
    as_conn_consume(s->x->conn, s->x->stream, n);
    if (n)
        as_conn_schedule_flush(s->x->conn);
}

static size_t unread_bytes(const struct as_stream *s)
{
    return s->unread.n - s->unread_at;
}

/* Removes the first n unread bytes. */
static void drop_unread(struct as_stream *s, size_t n)
{
    if (!n)
        return;
    as_account_uncharge(s->x->budget.requests, n);
    s->unread_at += n;
    if (s->unread_at > s->unread.n / 2) { /* not for every message: it moves the rest */
        as_buf_drop(&s->unread, s->unread_at);
        s->unread_at = 0;
    }
    consume(s, n);
}

/* Reads the unread bytes, and reports the end after them. */
static void resume_reading(struct as_stream *s)
{
    if (s->reading)
        return;
    s->reading = true;
    if (unread_bytes(s) && may_read(s)) {
        const uint8_t *p = s->unread.p + s->unread_at;
        size_t n = unread_bytes(s), had = n;

        read_messages(s, &p, &n);
        drop_unread(s, had - n);
    }
    if (is_over(s))
        drop_unread(s, unread_bytes(s));
    report_end(s);
    s->reading = false;
}

/* Stores bytes until they can be read. False: no room; the call was failed. */
static bool store_unread(struct as_stream *s, const uint8_t *p, size_t n)
{
    struct as_exchange *x = s->x;

    if (!as_account_try_charge(x->budget.requests, n)) {
        as_exchange_fail_room(x, AS_EFULL, "unread input", n);
        return false;
    }
    if (!as_buf_try_reserve(&s->unread, n)) {
        as_account_uncharge(x->budget.requests, n);
        as_exchange_fail_room(x, AS_ENOMEM, "", n);
        return false;
    }
    as_buf_add(&s->unread, p, n);
    return true;
}

static void receive(struct as_exchange *x, const uint8_t *p, size_t n)
{
    struct as_stream *s = x->streaming;
    size_t had = n;

    if (!unread_bytes(s) && !s->reading) {
        s->reading = true;
        read_messages(s, &p, &n);
        s->reading = false;
    }
    if (is_over(s))
        n = 0;
    consume(s, had - n);
    if (!n)
        return;
    if (!store_unread(s, p, n)) {
        consume(s, n);
        resume_reading(s);
    }
}

static void end(struct as_exchange *x)
{
    x->streaming->half_closed = true;
    resume_reading(x->streaming);
}

void as_stream_pause(struct as_stream *s)
{
    s->paused = true;
}

void as_stream_resume(struct as_stream *s)
{
    s->paused = false;
    resume_reading(s);
}

/* --- out --- */

bool as_stream_has_room(struct as_stream *s)
{
    if (is_over(s) || as_conn_unsent(s->x->conn, s->x->stream) < AS_STREAM_HIGH_WATER)
        return true;
    s->wants_room = true;
    return false;
}

static void on_drained(struct as_exchange *x)
{
    struct as_stream *s = x->streaming;

    if (!s->wants_room || is_over(s))
        return;
    s->wants_room = false;
    if (s->ops->on_room)
        s->ops->on_room(s);
}

/* Headers are sent with the first message: until then a client may retry after an error. */
static void send_headers(struct as_stream *s)
{
    static const struct as_http_header headers[] = {
        {{"content-type", 12}, {"application/grpc", 16}},
        {{"grpc-accept-encoding", 20}, {AS_GZIP_GRPC_ACCEPT, sizeof(AS_GZIP_GRPC_ACCEPT) - 1}},
    };
    struct as_http_answer a = {.status = 200, .headers = headers, .n_headers = AS_COUNT(headers)};

    if (s->x->answer.headers_sent)
        return;
    s->x->answer.headers_sent = true;
    as_conn_begin(s->x->conn, s->x->stream, &a);
    as_client_timeouts_start_answer(s->x);
}

static void send_pieces(struct as_stream *s, const struct as_http_piece *pieces, uint32_t n)
{
    size_t len = 0;

    if (is_over(s))
        return;
    for (uint32_t i = 0; i < n; i++)
        len += pieces[i].n;
    as_grpc_prefix((uint8_t *)(uintptr_t)pieces[0].p, (uint32_t)(len - AS_GRPC_PREFIX));
    as_stream_send_framed(s, pieces, n);
}

void as_stream_send_framed(struct as_stream *s, const struct as_http_piece *pieces, uint32_t n)
{
    if (is_over(s))
        return;
    send_headers(s);
    for (uint32_t i = 0; i < n; i++)
        as_conn_write(s->x->conn, s->x->stream, &pieces[i]);
    as_conn_schedule_flush(s->x->conn);
}

void as_stream_send(struct as_stream *s, const struct as_buf *message)
{
    struct as_http_piece piece = {.n = AS_GRPC_PREFIX + message->n};

    if (is_over(s))
        return;
    piece.owner = as_exchange_answer_blob(s->x, piece.n);
    if (!piece.owner)
        return;
    piece.p = piece.owner->data;
    if (message->n)
        memcpy(piece.owner->data + AS_GRPC_PREFIX, message->p, message->n);
    send_pieces(s, &piece, 1);
    as_blob_unref(piece.owner);
}

void as_stream_finish(struct as_stream *s)
{
    static const struct as_http_header ok[] = {{{"grpc-status", 11}, {"0", 1}}};

    if (!as_exchange_mark_answered(s->x, 0))
        return;
    send_headers(s);
    as_conn_finish(s->x->conn, s->x->stream, ok, AS_COUNT(ok));
}

/* --- the end --- */

static void on_gone(struct as_exchange *x)
{
    struct as_stream *s = x->streaming;

    /* no flush is scheduled: the connection may be closing */
    as_conn_consume(x->conn, x->stream, unread_bytes(s));
    as_account_uncharge(x->budget.requests, unread_bytes(s));
    as_list_remove(&s->node);
    s->ops->on_close(s);
    as_buf_fini(&s->unread);
    x->streaming = NULL;
    free(s);
}

/* --- open --- */

static const struct as_exchange_kind stream_of_grpc = {
    .receive = receive,
    .end = end,
    .count = as_exchange_count_grpc,
    .fail = as_exchange_fail_grpc,
};
static const struct as_exchange_answer_ops answer_ops = {.drained = on_drained, .gone = on_gone};

bool as_stream_open(struct as_exchange *x, const struct as_stream_ops *ops, void *owner,
                    uint64_t max_message)
{
    struct as_stream *s = calloc(1, sizeof(*s));

    if (!s) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the request");
        return false;
    }
    s->x = x;
    s->ops = ops;
    s->owner = owner;
    s->max_message = max_message;
    as_buf_init(&s->unread);
    as_list_push(&x->edge->streams, &s->node);
    x->streaming = s;
    x->kind = &stream_of_grpc;
    x->answer.ops = &answer_ops;
    return true;
}

/* --- all streams of a loop --- */

/* The next turn: streams that had used up their share continue. */
static void on_turn(struct as_task *t)
{
    struct as_edge *e = AS_CONTAINER(t, struct as_edge, stream_turn);

    AS_LIST_EACH_ENTRY(s, struct as_stream, node, &e->streams) {
        bool used_share = s->in_turn >= AS_STREAM_TURN_MESSAGES;

        s->in_turn = 0;
        if (used_share)
            resume_reading(s);
    }
}

void as_stream_init_all(struct as_edge *e)
{
    as_list_init(&e->streams);
    as_task_init(&e->stream_turn, on_turn);
}

void as_stream_fini_all(struct as_edge *e)
{
    AS_ASSERT(as_list_empty(&e->streams));
    as_task_cancel(&e->stream_turn);
}

void as_stream_notify_all(struct as_edge *e)
{
    AS_LIST_EACH_ENTRY(s, struct as_stream, node, &e->streams) {
        if (s->ops->on_change && !is_over(s))
            s->ops->on_change(s);
    }
}

void as_stream_drain_all(struct as_edge *e)
{
    AS_LIST_EACH_ENTRY(s, struct as_stream, node, &e->streams) {
        if (is_over(s))
            continue;
        if (s->ops->on_drain)
            s->ops->on_drain(s);
        else
            as_exchange_fail(s->x, AS_EUNAVAILABLE, "the server is ending");
    }
}

/* True: a part of a message was received, and the rest is up to the client. */
static bool is_incomplete(const struct as_stream *s)
{
    const struct as_exchange *x = s->x;

    return x->body.p && x->body.filled < x->body.len && !s->paused && !is_over(s);
}

/* A message that is being received holds memory and budget, so it must make progress like the body
 * of a unary call. */
static void check_progress(struct as_stream *s, as_ns now)
{
    struct as_exchange *x = s->x;
    const struct as_edge_conf *conf = &x->edge->conf;
    bool is_known = is_incomplete(s) && x->body.reader.messages == s->checked_message;

    if (is_known && x->edge->short_of_requests && as_account_is_greedy(x->budget.requests) &&
        as_client_timeouts_is_slow(x->edge, now - s->checked_at, x->body.received - s->mark,
                                   x->body.len - x->body.filled, conf->body_timeout)) {
        as_client_timeouts_evict_upload(x);
        return;
    }
    if (is_known && (!conf->body_timeout || now - s->checked_at < conf->body_timeout))
        return;
    if (is_known && x->body.received - s->mark < conf->min_progress) {
        as_client_timeouts_expire_upload(x);
        return;
    }
    s->checked_message = x->body.reader.messages;
    s->checked_at = now;
    s->mark = x->body.received;
}

void as_stream_expire_all(struct as_edge *e, as_ns now)
{
    AS_LIST_EACH_ENTRY(s, struct as_stream, node, &e->streams) {
        if (s->x->deadline <= now)
            as_exchange_fail(s->x, AS_EDEADLINE, "deadline exceeded");
        else
            check_progress(s, now);
    }
}
