/* tests/unit/support/h2_client_frames.h — a client of wire/h2/h2_client and a server whose bytes
 * are written by hand; what the client sends is decoded. */
#ifndef AS_TESTS_H2_CLIENT_FRAMES_H
#define AS_TESTS_H2_CLIENT_FRAMES_H

#include "unit.h"
#include "wire/h2/h2_client.h"

#include "base/be.h"
#include "base/buf.h"
#include "base/err.h"

#include <nghttp2/nghttp2.h>

#define CALLS 600

struct call {
    uint32_t stream;
    struct as_buf text; /* fields as "name=value;", trailers after "|", data in brackets */
    bool in_trailers;
    unsigned n_close;
    uint32_t code;
    bool whole;
};

struct world {
    struct as_h2_client *h;
    struct call call[CALLS];
    uint32_t n_started;
    struct as_buf in;   /* what the server sends next */
    struct as_buf sent; /* what the client has sent, as text: one frame in each line */
    nghttp2_hd_inflater *inflater;
    bool is_open; /* the preface is read */
};

static AS_UNUSED void on_field(void *conn AS_UNUSED, void *call, struct as_str name,
                               struct as_str value, bool trailer)
{
    struct call *c = call;

    assert_int_equal(c->n_close, 0);
    if (trailer && !c->in_trailers)
        as_buf_str(&c->text, "|");
    c->in_trailers = trailer;
    as_buf_printf(&c->text, "%.*s=%.*s;", AS_STR_FMT(name), AS_STR_FMT(value));
}

static AS_UNUSED void on_data(void *conn AS_UNUSED, void *call, const uint8_t *p, size_t n)
{
    as_buf_printf(&((struct call *)call)->text, "[%.*s]", (int)n, (const char *)p);
}

static AS_UNUSED void on_close(void *conn AS_UNUSED, void *call, uint32_t code, bool whole)
{
    struct call *c = call;

    c->n_close++;
    c->code = code;
    c->whole = whole;
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static const char *text(struct as_buf *b)
{
    as_buf_reserve(b, 1)[0] = 0;
    return (const char *)b->p;
}

/* --- what the client sends --- */

static AS_UNUSED void put_block(struct world *w, const uint8_t *p, size_t n)
{
    int flags = 0;

    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        ssize_t used;

        flags = 0;
        used = nghttp2_hd_inflate_hd2(w->inflater, &nv, &flags, p, n, 1);
        assert_true(used >= 0);
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            as_buf_printf(&w->sent, " %.*s=%.*s", (int)nv.namelen, (const char *)nv.name,
                          (int)nv.valuelen, (const char *)nv.value);
    }
    nghttp2_hd_inflate_end_headers(w->inflater);
}

static AS_UNUSED void put_frame(struct world *w, const uint8_t *p, size_t n)
{
    static const char *const names[] = {"DATA", "HEADERS", "PRIORITY", "RST_STREAM",   "SETTINGS",
                                        "PUSH", "PING",    "GOAWAY",   "WINDOW_UPDATE"};

    assert_true(p[3] < AS_COUNT(names));
    as_buf_printf(&w->sent, "%s %u%s%s", names[p[3]], as_be_get32(p + 5), p[4] & 1 ? " end" : "",
                  p[4] & 4 ? " whole" : "");
    if (p[3] == NGHTTP2_HEADERS)
        put_block(w, p + 9, n);
    else if (p[3] == NGHTTP2_DATA)
        as_buf_printf(&w->sent, " %zu", n);
    else if (p[3] == NGHTTP2_RST_STREAM || p[3] == NGHTTP2_WINDOW_UPDATE)
        as_buf_printf(&w->sent, " %u", as_be_get32(p + 9));
    else if (p[3] == NGHTTP2_GOAWAY)
        as_buf_printf(&w->sent, " %u", as_be_get32(p + 13));
    as_buf_str(&w->sent, "\n");
}

/* What the client has to send now. */
static const char *sent(struct world *w)
{
    struct as_outq q;
    struct as_buf b = {0};
    size_t at = 0;

    as_outq_init(&q);
    as_h2_client_send(w->h, &q, SIZE_MAX);
    as_outq_peek(&q, &b);
    as_outq_fini(&q);
    w->sent.n = 0;
    if (!w->is_open && b.n) {
        assert_memory_equal(b.p, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        at = NGHTTP2_CLIENT_MAGIC_LEN;
        w->is_open = true;
    }
    while (at < b.n) {
        size_t n = as_be_get32(b.p + at) >> 8;

        put_frame(w, b.p + at, n);
        at += 9 + n;
    }
    assert_int_equal(at, b.n);
    as_buf_fini(&b);
    return text(&w->sent);
}

/* --- what the server sends --- */

static AS_UNUSED void frame(struct world *w, uint8_t type, uint8_t flags, uint32_t id,
                            const void *p, size_t n)
{
    uint8_t head[9] = {0, (uint8_t)(n >> 8), (uint8_t)n, type, flags};

    as_be_put32(head + 5, id);
    as_buf_add(&w->in, head, 9);
    as_buf_add(&w->in, p, n);
}

static AS_UNUSED void headers(struct world *w, uint8_t flags, uint32_t id, const char *block,
                              size_t n)
{
    frame(w, NGHTTP2_HEADERS, flags, id, block, n);
}
#define HEADERS(w, flags, id, block) headers(w, flags, id, block, sizeof(block) - 1)

static AS_UNUSED void window(struct world *w, uint32_t id, uint32_t more)
{
    uint8_t p[4];

    as_be_put32(p, more);
    frame(w, NGHTTP2_WINDOW_UPDATE, 0, id, p, 4);
}

static AS_UNUSED void setting(struct world *w, uint16_t key, uint32_t value)
{
    uint8_t p[6] = {(uint8_t)(key >> 8), (uint8_t)key};

    as_be_put32(p + 2, value);
    frame(w, NGHTTP2_SETTINGS, 0, 0, p, 6);
}

static AS_UNUSED int receive(struct world *w)
{
    int rc = as_h2_client_recv(w->h, w->in.p, w->in.n);

    w->in.n = 0;
    return rc;
}

/* --- the world --- */

static AS_UNUSED int start(struct world *w, const struct as_str *body, uint32_t head_id)
{
    static const struct as_http_header fields[] = {
        {{":method", 7}, {"POST", 4}}, {{":path", 5}, {"/m", 2}}, {{"te", 2}, {"trailers", 8}}};
    struct as_http_client_request r = {.headers = fields,
                                       .n_headers = AS_COUNT(fields),
                                       .body = body,
                                       .n_body = body ? 1 : 0,
                                       .head_id = head_id};
    struct call *c = &w->call[w->n_started++];

    return as_h2_client_request(w->h, &r, c, &c->stream);
}

static AS_UNUSED struct world *world_new(void)
{
    static const struct as_h2_client_conf conf = {
        .stream_window = 65535, .conn_window = 1 << 20, .max_header_list = 4096};
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_h2_client_new(&w->h, &conf, &ops, w), 0);
    assert_int_equal(nghttp2_hd_inflate_new(&w->inflater), 0);
    assert_string_equal(sent(w), "SETTINGS 0\nWINDOW_UPDATE 0 983041\n");
    frame(w, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    assert_int_equal(receive(w), 0);
    assert_string_equal(sent(w), "SETTINGS 0 end\n");
    return w;
}

static AS_UNUSED void world_free(struct world *w)
{
    as_h2_client_free(w->h);
    for (uint32_t i = 0; i < w->n_started; i++) {
        assert_int_equal(w->call[i].n_close, 1);
        as_buf_fini(&w->call[i].text);
    }
    as_buf_fini(&w->in);
    as_buf_fini(&w->sent);
    nghttp2_hd_inflate_del(w->inflater);
    free(w);
}

#endif
