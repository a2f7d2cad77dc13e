/* nghttp2's callbacks for received frames: requests become stream records, and calls of the owner.
 */
#include "wire/h2/h2_internal.h"

/* The member of the head that holds the field, or NULL. */
static inline struct as_str *named_field(struct as_http_head *head, struct as_str name)
{
    switch (name.n) {
    case 4: /* of a request without :authority; that would have come before */
        return memcmp(name.p, "host", 4) == 0 ? &head->authority : NULL;
    case 5:
        return memcmp(name.p, ":path", 5) == 0 ? &head->path : NULL;
    case 7:
        if (memcmp(name.p, ":method", 7) == 0)
            return &head->method;
        return memcmp(name.p, ":scheme", 7) == 0 ? &head->scheme : NULL;
    case 10:
        return memcmp(name.p, ":authority", 10) == 0 ? &head->authority : NULL;
    default:
        return as_http_head_field(head, name);
    }
}

static bool add_rest(struct as_h2_stream *s, struct as_str name, struct as_str value)
{
    struct as_http_header *rest = (struct as_http_header *)(uintptr_t)s->head.rest;
    struct as_http_header *f;

    if (s->head.n_rest == s->rest_cap) {
        size_t size = sizeof(*rest) * s->rest_cap;

        rest = as_h2_alloc(s, 2 * size, _Alignof(struct as_http_header));
        if (!rest)
            return false;
        memcpy(rest, s->head.rest, size);
        s->head.rest = rest;
        s->rest_cap *= 2;
    }
    f = &rest[s->head.n_rest];
    f->name = as_h2_store(s, name);
    f->value = as_h2_store(s, value);
    s->head.n_rest++;
    return f->name.p && f->value.p;
}

/* Counts a field. False: the fields are above a limit. */
static inline bool count_field(const struct as_h2 *h, struct as_h2_stream *s, struct as_str name,
                               struct as_str value)
{
    s->list_size += name.n + value.n + 32;
    return ++s->n_fields <= h->conf.max_headers && s->list_size <= h->conf.max_header_list;
}

/* Counts a field above the limit, which is not stored; nghttp2 still decodes it, to keep its table
 * right. A small block that decodes to very much (it refers to one large entry of the table again
 * and again) is a breach. */
static void count_excess(struct as_h2 *h, struct as_h2_stream *s, struct as_str name,
                         struct as_str value)
{
    uint32_t most = h->conf.limits.max_header_block;

    s->list_size += name.n + value.n + 32;
    if (most && s->list_size > most && !h->guard.breach) {
        h->guard.breach = AS_H2_HEADERS;
        as_h2_check_guard(h);
    }
}

static void add_field(struct as_h2 *h, struct as_h2_stream *s, struct as_str name,
                      struct as_str value)
{
    struct as_str *to;

    if (s->over_limit || s->no_memory) {
        count_excess(h, s, name, value);
        return;
    }
    if (!count_field(h, s, name, value)) {
        s->over_limit = true;
        return;
    }
    to = named_field(&s->head, name);
    if (to && !to->p) {
        *to = as_h2_store(s, value);
        s->no_memory = !to->p;
    } else { /* a repeated field goes to the rest: the first one counts */
        s->no_memory = !add_rest(s, name, value);
    }
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) { /* trailers: they are counted separately */
        s = as_h2_find_stream(h, frame->hd.stream_id);
        if (s) {
            s->n_fields = 0;
            s->list_size = 0;
        }
        return 0;
    }
    s = as_h2_stream_new(h, (uint32_t)frame->hd.stream_id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    s->began = h->now;
    if (h->request_cache.is_hit)
        as_h2_request_cache_apply(h, s);
    as_h2_guard_request_opened(&h->guard);
    h->last = s;
    return 0;
}

/* Resets a malformed request. The owner, if on_request was called, gets only on_close. Counts as a
 * fault of the client when the frame is sent. */
static void reset_malformed(struct as_h2 *h, struct as_h2_stream *s)
{
    s->answered = true;
    if (nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, (int32_t)s->id,
                                  NGHTTP2_PROTOCOL_ERROR))
        h->dead = true;
}

static int on_header(nghttp2_session *session AS_UNUSED, const nghttp2_frame *frame,
                     const uint8_t *name, size_t n_name, const uint8_t *value, size_t n_value,
                     uint8_t flags AS_UNUSED, void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s = as_h2_find_stream(h, frame->hd.stream_id);
    struct as_str n = {(const char *)name, n_name}, v = {(const char *)value, n_value};

    if (!s)
        return 0;
    if (h->breach)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* nghttp2 skips the rest of the block */
    if (!as_h2_rules_field(&s->rules, n, v, frame->headers.cat != NGHTTP2_HCAT_REQUEST)) {
        reset_malformed(h, s);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        add_field(h, s, n, v);
        return 0;
    }
    if (count_field(h, s, n, v))
        return 0;
    as_h2_reset(h, s->id, NGHTTP2_ENHANCE_YOUR_CALM);
    as_h2_guard_stream_fault(&h->guard, h->now);
    as_h2_check_guard(h);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void end_stream(struct as_h2 *h, struct as_h2_stream *s)
{
    if (!as_h2_rules_end(&s->rules)) {
        reset_malformed(h, s);
        return;
    }
    s->ended = true;
    if (s->early) {
        s->early = false;
        h->n_early--;
    }
    if (s->req && !s->answered)
        h->ops->on_end(h->conn, s->req);
}

static void begin_request(struct as_h2 *h, struct as_h2_stream *s, bool end)
{
    if (!as_h2_rules_head(&s->rules) || (end && !as_h2_rules_end(&s->rules))) {
        reset_malformed(h, s);
        return;
    }
    s->head.end_stream = end;
    s->ended = end;
    if (s->over_limit || s->no_memory) {
        struct as_http_answer a = {.status = s->no_memory ? 503 : 431};

        if (!s->no_memory && h->ops->on_over_limit)
            h->ops->on_over_limit(h->conn, &s->head, &a);
        as_h2_answer(h, s->id, &a);
        return;
    }
    if (h->request_cache.is_learning)
        as_h2_request_cache_learn(h, s);
    s->req = h->ops->on_request(h->conn, s->id, &s->head);
    AS_ASSERT(s->req || s->answered);
    if (end)
        end_stream(h, s);
}

static int on_frame_recv(nghttp2_session *session AS_UNUSED, const nghttp2_frame *frame, void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    bool request = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;

    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        s = as_h2_find_stream(h, frame->hd.stream_id);
        if (s)
            s->cancelled = true;
        return 0;
    }
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        h->response_cache.settings_changed = true;
    if (frame->hd.type > NGHTTP2_HEADERS || (!end && frame->hd.type == NGHTTP2_DATA) || h->breach)
        return 0;
    s = as_h2_find_stream(h, frame->hd.stream_id);
    if (!s)
        return 0;
    if (request)
        begin_request(h, s, end);
    else if (end)
        end_stream(h, s);
    else /* trailers must end the stream (RFC 9113 §8.1) */
        reset_malformed(h, s);
    return 0;
}

static int on_data(nghttp2_session *session AS_UNUSED, uint8_t flags, int32_t id, const uint8_t *p,
                   size_t n, void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s = as_h2_find_stream(h, id);

    if (s && !as_h2_rules_data(&s->rules, n))
        reset_malformed(h, s);
    /* Bytes that nobody waits for must not use up the connection's window. */
    if (!s || !s->req || s->answered || h->breach) {
        h->unreturned += n;
        return 0;
    }
    s->last_frame = flags & NGHTTP2_FLAG_END_STREAM;
    h->ops->on_data(h->conn, s->req, p, n);
    return 0;
}

static int on_stream_close(nghttp2_session *session AS_UNUSED, int32_t id, uint32_t code,
                           void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s = as_h2_find_stream(h, id);

    if (!s) /* there was no memory for its record */
        return 0;
    if (code == NGHTTP2_NO_ERROR && s->ended && !s->cancelled)
        as_h2_guard_call_succeeded(&h->guard);
    if (s->cancelled)
        as_h2_guard_call_cancelled(&h->guard, h->now - s->began);
    s->answered = true;
    if (s->req)
        h->ops->on_close(h->conn, s->req, code);
    as_h2_stream_free(h, s);
    return 0;
}

void as_h2_set_receive_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
}
