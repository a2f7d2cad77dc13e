/* tests/unit/support/h2_pair.h — an as_h2 server and a real nghttp2 client, connected in memory.
 *
 * The server records the events of each request and answers according to `mode`; the client records
 * the frames of each stream as a string of letters: h HEADERS, d DATA, r RST_STREAM, in upper case
 * if END_STREAM is set.
 */
#ifndef AS_TESTS_H2_PAIR_H
#define AS_TESTS_H2_PAIR_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/h2/h2.h"

#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define PAIR_STREAMS 1024

enum pair_mode {
    PAIR_ECHO,          /* on_end: status 200, the body, trailers */
    PAIR_HOLD,          /* no answer from callbacks */
    PAIR_EARLY,         /* on_request: trailers-only */
    PAIR_RESET,         /* on_request: as_h2_reset(CANCEL) */
    PAIR_EARLY_ON_DATA, /* first on_data: an answer with a body */
};

struct pair_req {
    uint32_t stream;
    const struct as_http_head *head;
    struct as_buf text; /* the head as lines */
    struct as_buf body;
    unsigned n_data, n_end, n_close;
    uint32_t code;
    bool end_stream;
};

struct pair_reply {
    struct as_buf headers; /* "name: value\n", trailers too */
    struct as_buf body;
    char frames[64];
    unsigned n_frames, n_data;
    size_t biggest; /* DATA payload */
    bool closed;
    uint32_t code;
};

struct pair {
    struct as_h2 *h;
    struct as_outq q;
    nghttp2_session *client;
    enum pair_mode mode;
    bool no_consume;
    size_t slice;    /* bytes per as_h2_recv; 0: all at once */
    size_t send_max; /* of as_h2_send */
    int recv_rc, send_rc;
    as_ns now;
    struct pair_req *req[PAIR_STREAMS]; /* by (stream id - 1) / 2 */
    struct pair_reply reply[PAIR_STREAMS];
    unsigned n_req, n_close, n_drained;
    void (*more)(struct pair *t, struct pair_req *r); /* called by on_drained */
    int goaway_last; /* of the newest GOAWAY that the client got; -1: none */
    uint32_t goaway_code;
};

#define PAIR_H(n, v) ((struct as_http_header){AS_STR(n), AS_STR(v)})

static const struct as_http_header pair_headers[] = {
    {{"content-type", 12}, {"application/grpc", 16}},
};
static const struct as_http_header pair_trailers[] = {{{"grpc-status", 11}, {"0", 1}}};

/* ---- server ---- */

static void pair_answer(struct pair *t, uint32_t stream, const struct as_http_piece *body,
                        uint32_t n_body, bool trailers)
{
    struct as_http_answer a = {.status = 200,
                               .headers = pair_headers,
                               .n_headers = 1,
                               .body = body,
                               .n_body = n_body,
                               .trailers = pair_trailers,
                               .n_trailers = trailers};

    as_h2_answer(t->h, stream, &a);
}

static void pair_trailers_only(struct pair *t, uint32_t stream)
{
    const struct as_http_header h[] = {PAIR_H("content-type", "application/grpc"),
                                       PAIR_H("grpc-status", "12")};

    as_h2_answer(t->h, stream,
                 &(struct as_http_answer){.status = 200, .headers = h, .n_headers = 2});
}

static void pair_print(struct as_buf *b, const struct as_http_head *head)
{
    const struct as_str known[] = {head->method,       head->path,         head->scheme,
                                   head->authority,    head->content_type, head->te,
                                   head->grpc_timeout, head->grpc_encoding};

    for (size_t i = 0; i < AS_COUNT(known); i++)
        as_buf_printf(b, "%.*s|", AS_STR_FMT(known[i]));
    for (uint32_t i = 0; i < head->n_rest; i++)
        as_buf_printf(b, "\n%.*s: %.*s", AS_STR_FMT(head->rest[i].name),
                      AS_STR_FMT(head->rest[i].value));
    as_buf_add(b, "", 1);
}

static void *pair_on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct pair *t = conn;
    struct pair_req *r = as_xalloc(sizeof(*r));

    r->stream = stream;
    r->head = head;
    r->end_stream = head->end_stream;
    pair_print(&r->text, head);
    assert_null(t->req[(stream - 1) / 2]);
    t->req[(stream - 1) / 2] = r;
    t->n_req++;
    if (t->mode == PAIR_EARLY)
        pair_trailers_only(t, stream);
    if (t->mode == PAIR_RESET)
        as_h2_reset(t->h, stream, NGHTTP2_CANCEL);
    return r;
}

static void pair_on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct pair *t = conn;
    struct pair_req *r = req;

    assert_int_equal(r->n_end + r->n_close, 0);
    as_buf_add(&r->body, p, n);
    r->n_data++;
    if (!t->no_consume)
        as_h2_consume(t->h, r->stream, n);
    if (t->mode == PAIR_EARLY_ON_DATA)
        pair_answer(t, r->stream, &(struct as_http_piece){(const uint8_t *)"early", 5, NULL}, 1,
                    true);
}

static void pair_on_end(void *conn, void *req)
{
    struct pair *t = conn;
    struct pair_req *r = req;

    assert_int_equal(r->n_end + r->n_close, 0);
    r->n_end++;
    if (t->mode == PAIR_ECHO)
        pair_answer(t, r->stream, &(struct as_http_piece){r->body.p, r->body.n, NULL}, 1, true);
}

static void pair_on_close(void *conn, void *req, uint32_t code)
{
    struct pair *t = conn;
    struct pair_req *r = req;
    struct as_buf now = {0};

    assert_int_equal(r->n_close, 0);
    pair_print(&now, r->head); /* the head is valid until here */
    assert_string_equal(now.p, r->text.p);
    as_buf_fini(&now);
    r->n_close++;
    r->code = code;
    t->n_close++;
}

static void pair_on_drained(void *conn, void *req)
{
    struct pair *t = conn;

    assert_int_equal(((struct pair_req *)req)->n_close, 0);
    t->n_drained++;
    if (t->more)
        t->more(t, req);
}

static const struct as_http_ops pair_ops = {.on_request = pair_on_request,
                                            .on_data = pair_on_data,
                                            .on_end = pair_on_end,
                                            .on_close = pair_on_close,
                                            .on_drained = pair_on_drained};

/* ---- client ---- */

static struct pair_reply *pair_reply_of(struct pair *t, int32_t stream)
{
    assert_true(stream > 0 && stream < 2 * PAIR_STREAMS);
    return &t->reply[(stream - 1) / 2];
}

static int pair_on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                          size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags,
                          void *user)
{
    (void)s;
    (void)flags;
    as_buf_printf(&pair_reply_of(user, frame->hd.stream_id)->headers, "%.*s: %.*s\n", (int)n_name,
                  (const char *)name, (int)n_value, (const char *)value);
    return 0;
}

static int pair_on_chunk(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                         void *user)
{
    (void)s;
    (void)flags;
    as_buf_add(&pair_reply_of(user, id)->body, p, n);
    return 0;
}

static int pair_on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *user)
{
    struct pair *t = user;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct pair_reply *r;
    char c;

    (void)s;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        t->goaway_last = frame->goaway.last_stream_id;
        t->goaway_code = frame->goaway.error_code;
    }
    if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS &&
        frame->hd.type != NGHTTP2_RST_STREAM)
        return 0;
    r = pair_reply_of(t, frame->hd.stream_id);
    c = frame->hd.type == NGHTTP2_DATA ? 'd' : frame->hd.type == NGHTTP2_HEADERS ? 'h' : 'r';
    if (r->n_frames < sizeof(r->frames) - 1)
        r->frames[r->n_frames++] = end && c != 'r' ? (char)(c - 32) : c;
    if (c == 'd') {
        r->n_data++;
        r->biggest = AS_MAX(r->biggest, frame->hd.length);
    }
    return 0;
}

static int pair_on_stream_close(nghttp2_session *s, int32_t id, uint32_t code, void *user)
{
    struct pair_reply *r = pair_reply_of(user, id);

    (void)s;
    r->closed = true;
    r->code = code;
    return 0;
}

/* A request body: `left` bytes 'x' and then END_STREAM, unless `open`. */
struct pair_upload {
    size_t left;
    bool open;
};

static ssize_t pair_read(nghttp2_session *s, int32_t id, uint8_t *buf, size_t max, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct pair_upload *u = source->ptr;
    size_t n = AS_MIN(max, u->left);

    (void)s;
    (void)id;
    (void)user;
    if (!n && u->open)
        return NGHTTP2_ERR_DEFERRED;
    memset(buf, 'x', n);
    u->left -= n;
    if (!u->left && !u->open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_nv pair_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* POST /m with `extra` fields after the four pseudo-headers; u NULL: no body. */
AS_UNUSED static int32_t pair_request(struct pair *t, struct pair_upload *u,
                                      const nghttp2_nv *extra, size_t n_extra)
{
    nghttp2_nv nv[300] = {pair_nv(":method", "POST"), pair_nv(":scheme", "http"),
                          pair_nv(":path", "/m"), pair_nv(":authority", "host")};
    nghttp2_data_provider body = {.source = {.ptr = u}, .read_callback = pair_read};
    int32_t id;

    assert_true(n_extra + 4 <= AS_COUNT(nv));
    for (size_t i = 0; i < n_extra; i++)
        nv[4 + i] = extra[i];
    id = nghttp2_submit_request(t->client, NULL, nv, 4 + n_extra, u ? &body : NULL, NULL);
    assert_true(id > 0);
    return id;
}

/* ---- the wire between them ---- */

static void pair_feed(struct pair *t, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n && !t->recv_rc) {
        size_t take = t->slice ? AS_MIN(n, t->slice) : n;
        uint8_t *exact = malloc(take); /* a sanitizer finds a read beyond it */

        assert_non_null(exact);
        memcpy(exact, p, take);
        t->recv_rc = as_h2_recv(t->h, exact, take, t->now, &take);
        free(exact);
        p += take;
        n -= take;
    }
}

static bool pair_to_server(struct pair *t)
{
    const uint8_t *p;
    ssize_t n;
    bool any = false;

    while ((n = nghttp2_session_mem_send(t->client, &p)) > 0) {
        pair_feed(t, p, (size_t)n);
        any = true;
    }
    return any;
}

static bool pair_to_client(struct pair *t)
{
    struct iovec iov[16];
    bool any = false;
    int k;

    if (!t->send_rc)
        t->send_rc = as_h2_send(t->h, &t->q, t->send_max);
    while ((k = as_outq_iov(&t->q, iov, 16)) > 0) {
        for (int i = 0; i < k; i++) {
            assert_true(nghttp2_session_mem_recv(t->client, iov[i].iov_base, iov[i].iov_len) >= 0);
            as_outq_drop(&t->q, iov[i].iov_len);
        }
        any = true;
    }
    return any;
}

static void pair_pump(struct pair *t)
{
    bool more = true;

    while (more) {
        more = pair_to_server(t);
        more = pair_to_client(t) || more;
    }
}

static const struct as_h2_conf pair_conf = {.max_streams = 200,
                                            .stream_window = 65535,
                                            .conn_window = 1 << 20,
                                            .max_header_list = 8192,
                                            .max_headers = 100,
                                            .limits = {.resets = {50, 10},
                                                       .reset_patience = AS_SEC,
                                                       .faults = {20, 10},
                                                       .control = {100, 10},
                                                       .empty = {10, 10},
                                                       .window = {30, 10},
                                                       .max_continuations = 8,
                                                       .max_header_block = 32768,
                                                       .ping_interval = 300 * AS_SEC,
                                                       .idle_ping_interval = 7200 * AS_SEC,
                                                       .ping_strikes = 2}};

static struct pair *pair_new_with(const struct as_h2_conf *conf, uint32_t window, uint32_t frame)
{
    struct pair *t = as_xalloc(sizeof(*t));
    nghttp2_settings_entry iv[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
                                   {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, frame}};
    nghttp2_session_callbacks *cb;
    nghttp2_option *opt;

    t->send_max = 1 << 20;
    t->goaway_last = -1;
    as_outq_init(&t->q);
    assert_int_equal(as_h2_new(&t->h, conf, &pair_ops, t, 0), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    nghttp2_session_callbacks_set_on_header_callback(cb, pair_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, pair_on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, pair_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, pair_on_stream_close);
    assert_int_equal(nghttp2_option_new(&opt), 0);
    nghttp2_option_set_no_auto_window_update(opt, 1);
    assert_int_equal(nghttp2_session_client_new2(&t->client, cb, t, opt), 0);
    nghttp2_option_del(opt);
    nghttp2_session_callbacks_del(cb);
    assert_int_equal(nghttp2_submit_settings(t->client, NGHTTP2_FLAG_NONE, iv, 2), 0);
    return t;
}

static struct pair *pair_new(void)
{
    return pair_new_with(&pair_conf, 65535, 16384);
}

static void pair_free(struct pair *t)
{
    as_h2_free(t->h);
    assert_int_equal(t->n_close, t->n_req);
    nghttp2_session_del(t->client);
    as_outq_fini(&t->q);
    for (size_t i = 0; i < PAIR_STREAMS; i++) {
        if (t->req[i]) {
            as_buf_fini(&t->req[i]->text);
            as_buf_fini(&t->req[i]->body);
            free(t->req[i]);
        }
        as_buf_fini(&t->reply[i].headers);
        as_buf_fini(&t->reply[i].body);
    }
    free(t);
}

AS_UNUSED static const char *pair_text(struct as_buf *b)
{
    as_buf_reserve(b, 1)[0] = 0;
    return (const char *)b->p;
}

#endif
