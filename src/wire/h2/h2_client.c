#include "wire/h2/h2_client.h"

#include "base/err.h"
#include "wire/h2/h2_internal.h"

#define NO_COPY (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

struct stream {
    struct as_list node; /* in as_h2_client.open */
    void *call;
    uint32_t id;
    const struct as_str *body;
    uint32_t n_body;
    uint32_t piece;      /* the piece that is being sent */
    size_t piece_offset; /* bytes of that piece that are sent */
    size_t list_size;    /* size of the answer's fields so far */
    bool interim;        /* the block that is being read belongs to a 1xx answer */
    bool has_head;       /* the head of the final answer is complete: what follows are trailers */
    bool whole;          /* END_STREAM came */
    bool is_reset;       /* the owner has reset it */
};

struct as_h2_client {
    nghttp2_session *session;
    struct as_h2_client_conf conf;
    const struct as_http_client_ops *ops;
    void *conn;
    struct as_list open;
    struct stream *spare; /* one record, kept for the next request */
    bool ready;
    bool dead; /* the session must not be used any more */
    bool over; /* a GOAWAY with an error was sent */
    struct as_h2_memory memory;
};

static struct stream *find_stream(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static void drop_stream(struct as_h2_client *h, struct stream *s)
{
    as_list_remove(&s->node);
    if (h->spare || !AS_H2_RECYCLE)
        free(s);
    else
        h->spare = s;
}

/* --- receiving --- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct stream *s = find_stream(session, frame->hd.stream_id);

    (void)user;
    if (s)
        s->interim = false;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags, void *user)
{
    struct as_h2_client *h = user;
    struct stream *s = find_stream(session, frame->hd.stream_id);
    struct as_str n = {(const char *)name, n_name}, v = {(const char *)value, n_value};

    (void)flags;
    if (frame->hd.type != NGHTTP2_HEADERS || !s || s->is_reset)
        return 0;
    s->list_size += n_name + n_value + 32;
    if (s->list_size > h->conf.max_header_list) {
        as_h2_client_reset(h, s->id, NGHTTP2_ENHANCE_YOUR_CALM);
        return 0;
    }
    /* nghttp2 has checked that :status comes first and has three digits */
    if (!s->has_head && as_str_eq(n, AS_STR(":status")))
        s->interim = n_value == 3 && value[0] == '1';
    if (!s->interim)
        h->ops->on_field(h->conn, s->call, n, v, s->has_head);
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct as_h2_client *h = user;
    struct stream *s;

    h->ready = h->ready || frame->hd.type == NGHTTP2_SETTINGS;
    if (frame->hd.type > NGHTTP2_HEADERS)
        return 0;
    s = find_stream(session, frame->hd.stream_id);
    if (!s)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && !s->interim)
        s->has_head = true;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        s->whole = true;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *user)
{
    struct as_h2_client *h = user;
    struct stream *s = find_stream(session, id);

    (void)flags;
    if (s && !s->is_reset)
        h->ops->on_data(h->conn, s->call, p, n);
    return 0;
}

/* Also for a request that nghttp2 could not send (after a GOAWAY: REFUSED_STREAM). */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct as_h2_client *h = user;
    struct stream *s = find_stream(session, id);
    void *call;
    bool whole;

    if (!s)
        return 0;
    call = s->call;
    whole = s->whole && !s->is_reset;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    drop_stream(h, s);
    h->ops->on_close(h->conn, call, code, whole);
    return 0;
}

/* --- sending --- */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct stream *s = source->ptr;
    size_t n = 0;

    (void)session;
    (void)id;
    (void)user;
    while (n < length && s->piece < s->n_body) {
        const struct as_str *piece = &s->body[s->piece];
        size_t take = AS_MIN(length - n, piece->n - s->piece_offset);

        if (take)
            memcpy(buf + n, piece->p + s->piece_offset, take);
        n += take;
        s->piece_offset += take;
        if (s->piece_offset == piece->n) {
            s->piece++;
            s->piece_offset = 0;
        }
    }
    while (s->piece < s->n_body && !s->body[s->piece].n)
        s->piece++; /* skips empty pieces, so that the last byte is known as the last one */
    if (s->piece == s->n_body)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct as_h2_client *h = user;

    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        h->over = true;
    return 0;
}

/* --- the connection --- */

static int new_session(struct as_h2_client *h)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *opt = NULL;
    int rc = nghttp2_session_callbacks_new(&cb);

    if (!rc)
        rc = nghttp2_option_new(&opt);
    if (!rc) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
        nghttp2_option_set_no_closed_streams(opt, 1);
        rc = nghttp2_session_client_new3(&h->session, cb, h, opt, &h->memory.mem);
    }
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(opt);
    return rc;
}

static int submit_settings(struct as_h2_client *h)
{
    const struct as_h2_client_conf *c = &h->conf;
    nghttp2_settings_entry iv[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, c->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, c->max_header_list},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    int rc = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, iv, AS_COUNT(iv));

    if (!rc)
        rc = nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                   (int32_t)c->conn_window);
    return rc;
}

int as_h2_client_new(struct as_h2_client **ret_h, const struct as_h2_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn)
{
    struct as_h2_client *h = malloc(sizeof(*h));

    AS_ASSERT(conf->stream_window <= INT32_MAX && conf->conn_window <= INT32_MAX);
    if (!h)
        return AS_ENOMEM;
    *h = (struct as_h2_client){.conf = *conf, .ops = ops, .conn = conn};
    as_list_init(&h->open);
    as_h2_memory_init(&h->memory);
    if (new_session(h) || submit_settings(h)) {
        as_h2_client_free(h);
        return AS_ENOMEM;
    }
    *ret_h = h;
    return 0;
}

void as_h2_client_free(struct as_h2_client *h)
{
    struct as_list *n;

    if (!h)
        return;
    h->dead = true;
    while ((n = as_list_pop(&h->open))) {
        struct stream *s = AS_LIST_ENTRY(n, struct stream, node);

        h->ops->on_close(h->conn, s->call, NGHTTP2_CANCEL, false);
        free(s);
    }
    nghttp2_session_del(h->session);
    as_h2_memory_fini(&h->memory);
    free(h->spare);
    free(h);
}

int as_h2_client_recv(struct as_h2_client *h, const uint8_t *p, size_t n)
{
    if (!h->dead && nghttp2_session_mem_recv(h->session, p, n) < 0)
        h->dead = true;
    return h->dead ? AS_EPROTO : 0;
}

int as_h2_client_send(struct as_h2_client *h, struct as_outq *q, size_t max)
{
    const uint8_t *p;
    ssize_t n = 0;

    while (!h->dead && q->bytes < max && (n = nghttp2_session_mem_send(h->session, &p)) != 0) {
        if (n > 0)
            as_outq_copy(q, p, (size_t)n);
        else
            h->dead = true;
    }
    return h->dead || h->over ? AS_EPROTO : 0;
}

bool as_h2_client_wants_write(const struct as_h2_client *h)
{
    return !h->dead && nghttp2_session_want_write(h->session);
}

bool as_h2_client_ready(const struct as_h2_client *h)
{
    return h->ready;
}

bool as_h2_client_done(const struct as_h2_client *h)
{
    return h->dead ||
           (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session));
}

bool as_h2_client_usable(const struct as_h2_client *h)
{
    return !h->dead && !h->over && nghttp2_session_check_request_allowed(h->session);
}

int as_h2_client_request(struct as_h2_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream)
{
    nghttp2_nv nv[AS_HTTP_CLIENT_HEADERS];
    nghttp2_data_provider body = {.read_callback = read_body};
    struct stream *s = h->spare;
    int32_t id;

    AS_ASSERT(r->n_headers <= AS_HTTP_CLIENT_HEADERS);
    if (!as_h2_client_usable(h))
        return AS_EUNAVAILABLE;
    h->spare = NULL;
    if (!s && !(s = malloc(sizeof(*s))))
        return AS_ENOMEM;
    *s = (struct stream){.call = call, .body = r->body, .n_body = r->n_body};
    for (uint32_t i = 0; i < r->n_headers; i++) {
        const struct as_http_header *f = &r->headers[i];

        nv[i] = (nghttp2_nv){(uint8_t *)(uintptr_t)f->name.p, (uint8_t *)(uintptr_t)f->value.p,
                             f->name.n, f->value.n, NO_COPY};
    }
    body.source.ptr = s;
    id = nghttp2_submit_request(h->session, NULL, nv, r->n_headers, r->n_body ? &body : NULL, s);
    if (id < 0) {
        free(s);
        return id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE ? AS_EUNAVAILABLE : AS_ENOMEM;
    }
    s->id = (uint32_t)id;
    as_list_push(&h->open, &s->node);
    *ret_stream = s->id;
    return 0;
}

void as_h2_client_reset(struct as_h2_client *h, uint32_t stream, uint32_t code)
{
    struct stream *s = h->dead ? NULL : find_stream(h->session, (int32_t)stream);

    if (!s) {
        /* nghttp2 has no stream for a request that is still waiting to be sent */
        AS_LIST_EACH(n, &h->open)
        {
            s = AS_LIST_ENTRY(n, struct stream, node);
            if (s->id == stream)
                break;
            s = NULL;
        }
    }
    if (!s || s->is_reset)
        return;
    s->is_reset = true;
    nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, (int32_t)stream, code);
}
