/* Specification of wire/h1/h1_client: requests as bytes; answers in every framing and cut anywhere;
 * connections that stay open or end; and servers that break the rules.
 */
#include "unit.h"
#include "wire/h1/h1_client.h"

#include "base/buf.h"
#include "base/err.h"

static const struct as_h1_client_conf conf = {
    .max_line = 64, .max_header_bytes = 200, .max_headers = 4, .max_chunk_ext = 8};

struct call {
    struct as_buf told; /* "name=value;" of fields, then "|" and trailers */
    struct as_buf body;
    unsigned n_close;
    uint32_t code;
    bool whole;
};

struct world {
    struct as_h1_client *h;
    struct as_outq q;
    struct call call, next;
    uint32_t stream;
    bool chain; /* the end of `call` starts `next` */
    int chain_rc;
};

static int start(struct world *w, struct call *c, const char *method, const struct as_str *body,
                 uint32_t n_body)
{
    const struct as_http_header fields[] = {{AS_STR(":method"), as_str_of(method)},
                                            {AS_STR(":scheme"), AS_STR("http")},
                                            {AS_STR(":path"), AS_STR("/v2/models/m/infer")},
                                            {AS_STR(":authority"), AS_STR("host:1")},
                                            {AS_STR("x-key"), AS_STR("value")}};
    struct as_http_client_request r = {fields, AS_COUNT(fields), body, n_body, 0};

    return as_h1_client_request(w->h, &r, c, &w->stream);
}

static void on_field(void *conn AS_UNUSED, void *call, struct as_str name, struct as_str value,
                     bool trailer)
{
    struct call *c = call;

    assert_int_equal(c->n_close, 0);
    as_buf_printf(&c->told, "%s%.*s=%.*s;", trailer ? "|" : "", AS_STR_FMT(name),
                  AS_STR_FMT(value));
}

static void on_data(void *conn AS_UNUSED, void *call, const uint8_t *p, size_t n)
{
    struct call *c = call;

    assert_int_equal(c->n_close, 0);
    as_buf_add(&c->body, p, n);
}

static void on_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct world *w = conn;
    struct call *c = call;

    c->n_close++;
    c->code = code;
    c->whole = whole;
    if (w->chain && c == &w->call)
        w->chain_rc = start(w, &w->next, "GET", NULL, 0);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static void open_world(struct world *w)
{
    *w = (struct world){.chain_rc = 1};
    as_outq_init(&w->q);
    assert_int_equal(as_h1_client_new(&w->h, &conf, &ops, w), 0);
}

static void close_world(struct world *w)
{
    as_h1_client_free(w->h);
    as_outq_fini(&w->q);
    as_buf_fini(&w->call.told);
    as_buf_fini(&w->call.body);
    as_buf_fini(&w->next.told);
    as_buf_fini(&w->next.body);
}

/* The bytes that are to be sent, as one text; at most max bytes are queued at a time. */
static char *sent(struct world *w, size_t max)
{
    static char text[4096];
    size_t n = 0;

    do {
        struct iovec v[8];
        int k;

        assert_int_equal(as_h1_client_send(w->h, &w->q, max), 0);
        k = as_outq_iov(&w->q, v, 8);
        for (int i = 0; i < k; i++) {
            assert_true(n + v[i].iov_len < sizeof(text));
            memcpy(text + n, v[i].iov_base, v[i].iov_len);
            n += v[i].iov_len;
        }
        as_outq_drop(&w->q, w->q.bytes);
    } while (as_h1_client_wants_write(w->h));
    text[n] = 0;
    return text;
}

static int feed(struct world *w, const char *bytes, size_t slice)
{
    size_t n = strlen(bytes);
    int rc = 0;

    for (size_t at = 0; at < n && !rc; at += slice)
        rc = as_h1_client_recv(w->h, (const uint8_t *)bytes + at, AS_MIN(slice, n - at));
    return rc;
}

static const char *told(struct call *c)
{
    as_buf_add(&c->told, "", 1);
    c->told.n--;
    return (const char *)c->told.p;
}

static const char *body_of(struct call *c)
{
    as_buf_add(&c->body, "", 1);
    c->body.n--;
    return (const char *)c->body.p;
}

/* --- requests --- */

static void a_request_is_written_with_its_length(void **state AS_UNUSED)
{
    const struct as_str body[] = {AS_STR("{}"), {NULL, 0}, AS_STR("tail")};
    struct world w;

    for (size_t max = 1; max < 300; max += 7) {
        open_world(&w);
        assert_int_equal(start(&w, &w.call, "POST", body, 3), 0);
        assert_true(as_h1_client_wants_write(w.h));
        assert_string_equal(sent(&w, max), "POST /v2/models/m/infer HTTP/1.1\r\n"
                                           "host: host:1\r\nx-key: value\r\n"
                                           "content-length: 6\r\n\r\n{}tail");
        assert_false(as_h1_client_wants_write(w.h));
        close_world(&w);
    }
}

static void content_length_is_sent_if_the_method_has_a_body(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    assert_null(strstr(sent(&w, 4096), "content-length"));
    close_world(&w);
    open_world(&w);
    assert_int_equal(start(&w, &w.call, "POST", NULL, 0), 0);
    assert_non_null(strstr(sent(&w, 4096), "content-length: 0\r\n\r\n"));
    close_world(&w);
}

static void one_request_at_a_time(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    assert_true(as_h1_client_usable(w.h));
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    assert_false(as_h1_client_usable(w.h));
    assert_int_equal(start(&w, &w.next, "GET", NULL, 0), AS_EAGAIN);
    close_world(&w);
    assert_int_equal(w.call.n_close, 1);
    assert_int_equal(w.call.code, 8);
    assert_int_equal(w.next.n_close, 0);
}

static void invalid_headers_are_refused(void **state AS_UNUSED)
{
    static const struct as_http_header bad[] = {{{"x", 1}, {"a\r\nb: c", 7}},
                                                {{"x", 1}, {"a\nb", 3}},
                                                {{"x", 1}, {"\0", 1}},
                                                {{"x y", 3}, {"a", 1}},
                                                {{"", 0}, {"a", 1}},
                                                {{"x:", 2}, {"a", 1}},
                                                {{":path", 5}, {"/a b", 4}},
                                                {{":path", 5}, {"/a\r\n", 4}},
                                                {{":path", 5}, {"http://h/", 9}},
                                                {{":method", 7}, {"GE T", 4}}};
    struct world w;

    open_world(&w);
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        struct as_http_header f[] = {{AS_STR(":method"), AS_STR("GET")},
                                     {AS_STR(":path"), AS_STR("/")},
                                     {AS_STR("x"), AS_STR("y")}};
        struct as_http_client_request r = {f, 3, NULL, 0, 0};

        f[bad[i].name.p[0] == ':' ? bad[i].name.p[1] == 'm' ? 0 : 1 : 2] = bad[i];
        assert_int_equal(as_h1_client_request(w.h, &r, &w.call, &w.stream), AS_EINVALID);
        assert_string_equal(sent(&w, 4096), "");
    }
    assert_true(as_h1_client_usable(w.h));
    close_world(&w);
    assert_int_equal(w.call.n_close, 0);
}

/* --- answers --- */

static const struct {
    const char *bytes, *told, *body;
    bool stays, eof; /* the connection; ended by its end */
} good[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b c \t\r\n\r\nhello",
     ":status=200;content-length=5;x-a=b c;", "hello", true, false},
    {"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", ":status=200;content-length=0;", "", true, false},
    {"HTTP/1.1 404 Not Found, caf\xe9\r\ncontent-length:2\r\n\r\nno",
     ":status=404;content-length=2;", "no", true, false},
    {"HTTP/1.1 204 \r\n\r\n", ":status=204;", "", true, false},
    {"HTTP/1.1 304 \r\ncontent-length: 9\r\n\r\n", ":status=304;content-length=9;", "", true,
     false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4;a=b\r\nwiki\r\n00A\r\n0123456789\r\n"
     "0\r\n\r\n",
     ":status=200;transfer-encoding=Chunked;", "wiki0123456789", true, false},
    {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: v\r\n\r\n",
     ":status=200;transfer-encoding=chunked;|x-t=v;", "a", true, false},
    {"HTTP/1.1 100 Continue\r\nx: y\r\n\r\nHTTP/1.1 103 \r\n\r\nHTTP/1.1 200 OK\r\n"
     "content-length: 1\r\n\r\nz",
     ":status=200;content-length=1;", "z", true, false},
    {"HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: x, Close\r\n\r\nz",
     ":status=200;content-length=1;connection=x, Close;", "z", false, false},
    {"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nz", ":status=200;content-length=1;", "z", false,
     false},
    {"HTTP/1.1 200 OK\r\n\r\nuntil the end", ":status=200;", "until the end", false, true},
};

static void every_framing_however_cut(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_COUNT(good); i++) {
        for (size_t slice = 1; slice < strlen(good[i].bytes) + 1; slice++) {
            struct world w;

            open_world(&w);
            assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
            sent(&w, 4096);
            assert_int_equal(feed(&w, good[i].bytes, slice), 0);
            assert_int_equal(w.call.n_close, !good[i].eof);
            as_h1_client_eof(w.h);
            assert_int_equal(w.call.n_close, 1);
            assert_true(w.call.whole);
            assert_int_equal(w.call.code, 0);
            assert_string_equal(told(&w.call), good[i].told);
            assert_string_equal(body_of(&w.call), good[i].body);
            assert_int_equal(as_h1_client_usable(w.h), good[i].stays);
            assert_int_equal(as_h1_client_done(w.h), !good[i].stays);
            assert_int_equal(as_h1_client_why(w.h) != NULL, !good[i].stays);
            assert_true(as_h1_client_ready(w.h));
            close_world(&w);
            assert_int_equal(w.call.n_close, 1);
        }
    }
}

static void head_has_no_body(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    assert_int_equal(start(&w, &w.call, "HEAD", NULL, 0), 0);
    sent(&w, 4096);
    assert_int_equal(feed(&w, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 1000), 0);
    assert_true(w.call.whole && as_h1_client_usable(w.h));
    close_world(&w);
}

static void the_end_of_one_call_starts_the_next(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    w.chain = true;
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    sent(&w, 4096);
    assert_int_equal(feed(&w, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na", 1000), 0);
    assert_int_equal(w.chain_rc, 0);
    assert_non_null(strstr(sent(&w, 4096), "GET /v2/models/m/infer HTTP/1.1\r\n"));
    assert_int_equal(feed(&w, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb", 1000), 0);
    assert_string_equal(body_of(&w.call), "a");
    assert_string_equal(body_of(&w.next), "b");
    assert_true(w.next.whole);
    close_world(&w);
}

/* What a server sends before it has the complete request may be an answer, but it is not known how
 * the server reads the rest. */
static void an_early_answer_ends_the_connection(void **state AS_UNUSED)
{
    const struct as_str body[] = {AS_STR("0123456789")};
    struct world w;

    open_world(&w);
    assert_int_equal(start(&w, &w.call, "POST", body, 1), 0);
    assert_int_equal(as_h1_client_send(w.h, &w.q, 1), 0); /* the head is out, the body is not */
    assert_int_equal(feed(&w, "HTTP/1.1 413 no\r\ncontent-length: 0\r\n\r\n", 1000), 0);
    assert_true(w.call.whole);
    assert_true(as_h1_client_done(w.h));
    assert_false(as_h1_client_wants_write(w.h));
    assert_int_equal(start(&w, &w.next, "GET", NULL, 0), AS_EUNAVAILABLE);
    close_world(&w);
}

static void truncated_answers(void **state AS_UNUSED)
{
    static const char *const starts[] = {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nx: y\r\n",
                                         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na",
                                         "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                                         "1\r\na\r\n0\r\n"};

    for (size_t i = 0; i < AS_COUNT(starts); i++) {
        struct world w;

        open_world(&w);
        assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
        sent(&w, 4096);
        assert_int_equal(feed(&w, starts[i], 1000), 0);
        as_h1_client_eof(w.h);
        assert_int_equal(w.call.n_close, 0); /* the owner closes: */
        close_world(&w);
        assert_int_equal(w.call.n_close, 1);
        assert_false(w.call.whole);
        assert_int_equal(w.call.code, 8);
    }
}

/* --- servers that break the rules --- */

#define OK "HTTP/1.1 200 OK\r\n"

#define BEHIND 2u /* at the end: bytes after a valid answer */

static const char *const bad[] = {
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.2 200 OK\r\n\r\n",
    "http/1.1 200 OK\r\n\r\n",
    " HTTP/1.1 200 OK\r\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1  200 OK\r\n\r\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 OK\r\n\r\n",
    "HTTP/1.1 600 OK\r\n\r\n",
    "HTTP/1.1 +20 OK\r\n\r\n",
    "HTTP/1.1 200 O\001K\r\n\r\n",
    "HTTP/1.1 200 OK\n\r\n",
    "HTTP/1.1 101 Switching\r\n\r\n",
    OK "x: y\n\r\n",
    OK "x: y\r\n\n",
    OK "x: a\rb\r\n\r\n",
    OK "x: a\001b\r\n\r\n",
    OK " x: y\r\n\r\n",
    OK "x: y\r\n folded\r\n\r\n",
    OK "x : y\r\n\r\n",
    OK ": y\r\n\r\n",
    OK "x\r\n\r\n",
    OK "x(: y\r\n\r\n",
    OK "x\xe9: y\r\n\r\n",
    OK "content-length: 1\r\ncontent-length: 1\r\n\r\na",
    OK "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    OK "transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n0\r\n\r\n",
    OK "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    OK "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    OK "transfer-encoding: identity\r\n\r\n",
    "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    OK "content-length: -1\r\n\r\n",
    OK "content-length: +1\r\n\r\n",
    OK "content-length: 1, 1\r\n\r\n",
    OK "content-length: 0x1\r\n\r\n",
    OK "content-length:\r\n\r\n",
    OK "content-length: 18446744073709551616\r\n\r\n",
    "HTTP/1.1 100 Continue\r\ncontent-length: 1\r\n\r\n",
    "HTTP/1.0 100 Continue\r\n\r\n",
    OK "transfer-encoding: chunked\r\n\r\n\r\n",
    OK "transfer-encoding: chunked\r\n\r\ng\r\n",
    OK "transfer-encoding: chunked\r\n\r\n-1\r\n",
    OK "transfer-encoding: chunked\r\n\r\n0x1\r\n",
    OK "transfer-encoding: chunked\r\n\r\n1 \r\na\r\n",
    OK "transfer-encoding: chunked\r\n\r\n10000000000000000\r\n",
    OK "transfer-encoding: chunked\r\n\r\n1\na\r\n",
    OK "transfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
    OK "transfer-encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n",
    OK "transfer-encoding: chunked\r\n\r\n1;a\rb\r\na\r\n0\r\n\r\n",
    OK "transfer-encoding: chunked\r\n\r\n0\r\n x: y\r\n\r\n",
    OK "content-length: 1\r\n\r\nab",
    OK "content-length: 1\r\n\r\na" OK,
};

static void ambiguous_answers_end_the_connection(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        for (size_t slice = 1; slice < 100; slice += 33) {
            bool behind = i >= AS_COUNT(bad) - BEHIND;
            struct world w;

            open_world(&w);
            assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
            sent(&w, 4096);
            if (feed(&w, bad[i], slice) != AS_EPROTO)
                fail_msg("taken: %s", bad[i]);
            assert_int_equal(w.call.n_close, 1);
            assert_int_equal(w.call.whole,
                             behind); /* an answer that was complete before stays valid */
            assert_true(behind || w.call.code == 1);
            assert_non_null(as_h1_client_why(w.h));
            assert_true(as_h1_client_done(w.h));
            assert_int_equal(as_h1_client_recv(w.h, (const uint8_t *)"x", 1), AS_EPROTO);
            assert_int_equal(as_h1_client_send(w.h, &w.q, 10), AS_EPROTO);
            assert_int_equal(start(&w, &w.next, "GET", NULL, 0), AS_EUNAVAILABLE);
            close_world(&w);
            assert_int_equal(w.call.n_close, 1);
        }
    }
}

static void bytes_before_any_request(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    assert_int_equal(feed(&w, "H", 1), AS_EPROTO);
    assert_string_equal(as_h1_client_why(w.h), "the server sent bytes without a request");
    close_world(&w);
}

/* An answer of `line` bytes of status line, one header of value bytes and n more. */
static int sized(size_t line, size_t value, unsigned n, size_t ext, unsigned interim)
{
    struct as_buf b;
    struct world w;
    int rc;

    as_buf_init(&b);
    for (unsigned i = 0; i < interim; i++)
        as_buf_str(&b, "HTTP/1.1 102 \r\n\r\n");
    as_buf_printf(&b, "HTTP/1.1 200 %*s\r\n", (int)(line - 13), "");
    if (value)
        as_buf_printf(&b, "x: %0*d\r\n", (int)value, 1);
    for (unsigned i = 0; i < n; i++)
        as_buf_str(&b, "y: z\r\n");
    as_buf_printf(&b, "transfer-encoding: chunked\r\n\r\n0%.*s\r\n", (int)ext, ";aaaaaaaaaaaaaaa");
    as_buf_add(&b, "\r\n", 3);
    open_world(&w);
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    sent(&w, 4096);
    rc = feed(&w, (const char *)b.p, 1000);
    assert_int_equal(w.call.whole, rc == 0);
    close_world(&w);
    as_buf_fini(&b);
    return rc;
}

static void limits_at_n_and_one_more(void **state AS_UNUSED)
{
    const size_t other = strlen("transfer-encoding") + strlen("chunked") + 32;

    assert_int_equal(sized(conf.max_line, 0, 0, 0, 0), 0);
    assert_int_equal(sized(conf.max_line + 1, 0, 0, 0, 0), AS_EPROTO);
    assert_int_equal(sized(20, conf.max_header_bytes - other - 33, 0, 0, 0), 0);
    assert_int_equal(sized(20, conf.max_header_bytes - other - 32, 0, 0, 0), AS_EPROTO);
    assert_int_equal(sized(20, 0, conf.max_headers - 1, 0, 0), 0);
    assert_int_equal(sized(20, 0, conf.max_headers, 0, 0), AS_EPROTO);
    assert_int_equal(sized(20, 0, 0, conf.max_chunk_ext, 0), 0);
    assert_int_equal(sized(20, 0, 0, conf.max_chunk_ext + 1, 0), AS_EPROTO);
    assert_int_equal(sized(20, 0, 0, 0, AS_H1_CLIENT_INTERIM_MAX), 0);
    assert_int_equal(sized(20, 0, 0, 0, AS_H1_CLIENT_INTERIM_MAX + 1), AS_EPROTO);
}

/* --- giving up --- */

static void a_reset_ends_the_connection(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    sent(&w, 4096);
    assert_int_equal(feed(&w, OK "content-length: 3\r\n\r\na", 1000), 0);
    as_h1_client_reset(w.h, w.stream, 7);
    assert_int_equal(w.call.n_close, 0);
    assert_true(as_h1_client_wants_write(w.h));
    assert_int_equal(feed(&w, "b", 1000), 0); /* no longer reported */
    assert_string_equal(body_of(&w.call), "a");
    assert_int_equal(as_h1_client_send(w.h, &w.q, 4096), 0);
    assert_int_equal(w.call.n_close, 1);
    assert_int_equal(w.call.code, 7);
    assert_false(w.call.whole);
    assert_true(as_h1_client_done(w.h));
    assert_string_equal(as_h1_client_why(w.h), "the request was given up");
    close_world(&w);
    assert_int_equal(w.call.n_close, 1);
}

static void a_reset_of_a_closed_request_does_nothing(void **state AS_UNUSED)
{
    struct world w;

    open_world(&w);
    as_h1_client_reset(w.h, 1, 8);
    assert_int_equal(start(&w, &w.call, "GET", NULL, 0), 0);
    as_h1_client_reset(w.h, w.stream + 1, 8);
    sent(&w, 4096);
    assert_int_equal(feed(&w, OK "content-length: 0\r\n\r\n", 1000), 0);
    assert_true(w.call.whole);
    as_h1_client_reset(w.h, w.stream, 8);
    assert_true(as_h1_client_usable(w.h));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_written_with_its_length),
        cmocka_unit_test(content_length_is_sent_if_the_method_has_a_body),
        cmocka_unit_test(one_request_at_a_time),
        cmocka_unit_test(invalid_headers_are_refused),
        cmocka_unit_test(every_framing_however_cut),
        cmocka_unit_test(head_has_no_body),
        cmocka_unit_test(the_end_of_one_call_starts_the_next),
        cmocka_unit_test(an_early_answer_ends_the_connection),
        cmocka_unit_test(truncated_answers),
        cmocka_unit_test(ambiguous_answers_end_the_connection),
        cmocka_unit_test(bytes_before_any_request),
        cmocka_unit_test(limits_at_n_and_one_more),
        cmocka_unit_test(a_reset_ends_the_connection),
        cmocka_unit_test(a_reset_of_a_closed_request_does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
