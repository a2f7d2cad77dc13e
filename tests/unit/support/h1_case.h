/* tests/unit/support/h1_case.h — a connection of wire/h1/h1 whose owner records all events.
 *
 * seen: "POST /p host=h a=b {" for on_request, the bytes of on_data, "}" for on_end, "~" for
 * on_close ("~1" with a code). sent: everything that as_h1_send gave. The owner answers 200 "ok"
 * when the request has ended, unless the test configures something else.
 */
#ifndef AS_TESTS_H1_CASE_H
#define AS_TESTS_H1_CASE_H

#include "base/buf.h"
#include "base/err.h"
#include "wire/h1/h1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define H1_CONF                                                                                    \
    {                                                                                              \
        .max_line = 64, .max_header_bytes = 1024, .max_headers = 8, .max_chunk_ext = 8,            \
        .max_unread = 100                                                                          \
    }

struct h1_case {
    struct as_h1 *h;
    struct as_buf seen, sent;
    struct as_outq q;
    uint32_t stream;          /* of the last request */
    bool ends_answer_nothing; /* the test gives the answer itself */
    bool keeps;               /* bytes are not consumed */
    bool null_request;        /* on_request answers and returns NULL */
    uint8_t *place;           /* on_request makes this the buffer of the body */
    size_t place_n;
    uint64_t place_at;
    void (*on_request)(struct h1_case *c, const struct as_http_head *head);
    unsigned drained;
    struct as_http_head head; /* of the last request */
};

static inline void h1_ok(struct h1_case *c)
{
    struct as_http_piece ok = {(const uint8_t *)"ok", 2, NULL};

    as_h1_answer(c->h, c->stream,
                 &(struct as_http_answer){.status = 200, .body = &ok, .n_body = 1});
}

static inline void *h1_on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct h1_case *c = conn;

    assert_int_equal(stream, c->stream + 1);
    c->stream = stream;
    c->head = *head;
    as_buf_printf(&c->seen, "%.*s %.*s host=%.*s", AS_STR_FMT(head->method), AS_STR_FMT(head->path),
                  AS_STR_FMT(head->authority));
    if (head->content_type.p)
        as_buf_printf(&c->seen, " type=%.*s", AS_STR_FMT(head->content_type));
    for (uint32_t i = 0; i < head->n_rest; i++)
        as_buf_printf(&c->seen, " %.*s=%.*s", AS_STR_FMT(head->rest[i].name),
                      AS_STR_FMT(head->rest[i].value));
    as_buf_str(&c->seen, " {");
    if (c->place)
        as_h1_set_body_buffer(c->h, stream, c->place, c->place_n);
    if (c->on_request)
        c->on_request(c, head);
    if (!c->null_request)
        return c;
    h1_ok(c);
    return NULL;
}

static inline void h1_on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct h1_case *c = conn;

    assert_ptr_equal(req, c);
    assert_true(n > 0);
    if (c->place && c->place_at < c->place_n) {
        assert_ptr_equal(p, c->place + c->place_at);
        c->place_at += n;
    }
    as_buf_add(&c->seen, p, n);
    if (!c->keeps)
        as_h1_consume(c->h, c->stream, n);
}

static inline void h1_on_end(void *conn, void *req)
{
    struct h1_case *c = conn;

    assert_ptr_equal(req, c);
    as_buf_str(&c->seen, "}");
    if (!c->ends_answer_nothing)
        h1_ok(c);
}

static inline void h1_on_close(void *conn, void *req, uint32_t code)
{
    struct h1_case *c = conn;

    assert_ptr_equal(req, c);
    if (code)
        as_buf_printf(&c->seen, "~%u", code);
    else
        as_buf_str(&c->seen, "~");
}

static inline void h1_on_drained(void *conn, void *req)
{
    struct h1_case *c = conn;

    assert_ptr_equal(req, c);
    c->drained++;
}

static inline void h1_open_with(struct h1_case *c, const struct as_h1_conf *conf)
{
    static const struct as_http_ops ops = {.on_request = h1_on_request,
                                           .on_data = h1_on_data,
                                           .on_end = h1_on_end,
                                           .on_close = h1_on_close,
                                           .on_drained = h1_on_drained};

    as_outq_init(&c->q);
    assert_int_equal(as_h1_new(&c->h, conf, &ops, c), 0);
}

static inline void h1_open(struct h1_case *c)
{
    static const struct as_h1_conf conf = H1_CONF;

    h1_open_with(c, &conf);
}

static inline void h1_close(struct h1_case *c)
{
    as_h1_free(c->h);
    as_buf_fini(&c->seen);
    as_buf_fini(&c->sent);
    as_outq_fini(&c->q);
}

/* Appends what is ready to `sent`, at most `max` bytes; returns the result of as_h1_send. */
static inline int h1_take(struct h1_case *c, size_t max)
{
    int err = as_h1_send(c->h, &c->q, max);

    while (c->q.bytes) {
        struct iovec iov;

        assert_int_equal(as_outq_iov(&c->q, &iov, 1), 1);
        as_buf_add(&c->sent, iov.iov_base, iov.iov_len);
        as_outq_drop(&c->q, iov.iov_len);
    }
    return err;
}

/* Passes all bytes to the connection, in steps; answers are sent in between, as on a socket.
 * Returns how many were consumed. Each step is in a block of its own, so that a sanitizer finds a
 * read beyond its end. */
static inline size_t h1_feed(struct h1_case *c, const void *bytes, size_t n, size_t step)
{
    size_t at = 0;

    while (at < n && as_h1_wants_read(c->h)) {
        size_t k = AS_MIN(step, n - at), taken;
        uint8_t *exact = as_xalloc(k);

        memcpy(exact, (const uint8_t *)bytes + at, k);
        as_h1_recv(c->h, exact, k, AS_SEC, &taken);
        assert_true(taken <= k);
        at += taken;
        free(exact);
        h1_take(c, SIZE_MAX);
    }
    h1_take(c, SIZE_MAX);
    return at;
}

static inline const char *h1_text(struct as_buf *b)
{
    as_buf_add(b, "", 1);
    b->n--;
    return (const char *)b->p;
}

#define GET     "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define POST(n) "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " #n "\r\n\r\n"

static inline size_t h1_say(struct h1_case *c, const char *z)
{
    return h1_feed(c, z, strlen(z), strlen(z));
}

static inline void h1_check_sent(struct h1_case *c, const char *want)
{
    assert_string_equal(h1_text(&c->sent), want);
    c->sent.n = 0;
}

static inline void h1_check_seen(struct h1_case *c, const char *want)
{
    assert_string_equal(h1_text(&c->seen), want);
    c->seen.n = 0;
}

static inline struct as_blob *h1_blob(const char *z, size_t n)
{
    struct as_blob *b = as_blob_new(n);

    assert_non_null(b);
    memcpy(b->data, z, n);
    return b;
}

#endif
