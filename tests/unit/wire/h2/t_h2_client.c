/* Specification of wire/h2/h2_client: requests and answers against the real server session, both
 * ways of flow control, refusals, resets, GOAWAY, and servers that break the rules. */
#include "unit.h"
#include "wire/h2/h2.h"
#include "wire/h2/h2_client.h"

#include "base/buf.h"
#include "base/err.h"

#include <nghttp2/nghttp2.h>

#define CALLS 64

struct call { /* one request as both sides see it */
    uint32_t stream;
    struct as_buf fields, trailers, body;
    unsigned n_close;
    uint32_t code;
    bool whole;
    struct as_buf asked; /* what the server got */
    uint32_t server_stream;
};

enum answer { ECHO, HOLD, ONLY_TRAILERS, RESET };

struct world {
    struct as_h2_client *client;
    struct as_h2 *server;
    struct as_outq up, down;
    struct call call[CALLS];
    uint32_t n_asked;
    enum answer answer;
    size_t slice; /* bytes per recv; 0: all */
    int client_rc, server_rc;
    bool chain; /* on_close starts the next call */
    uint32_t n_started;
};

static const struct as_http_header fields[] = {{{":method", 7}, {"POST", 4}},
                                               {{":scheme", 7}, {"http", 4}},
                                               {{":path", 5}, {"/m", 2}},
                                               {{":authority", 10}, {"host", 4}},
                                               {{"x-key", 5}, {"value", 5}}};

static int start(struct world *w, const struct as_str *body, uint32_t n_body)
{
    struct as_http_client_request r = {fields, AS_COUNT(fields), body, n_body, 0};
    struct call *c = &w->call[w->n_started];
    int rc = as_h2_client_request(w->client, &r, c, &c->stream);

    w->n_started += rc == 0;
    return rc;
}

/* --- the client's events --- */

static void on_field(void *conn, void *call, struct as_str name, struct as_str value, bool trailer)
{
    struct call *c = call;

    (void)conn;
    assert_int_equal(c->n_close, 0);
    as_buf_printf(trailer ? &c->trailers : &c->fields, "%.*s=%.*s;", AS_STR_FMT(name),
                  AS_STR_FMT(value));
}

static void on_data(void *conn, void *call, const uint8_t *p, size_t n)
{
    struct call *c = call;

    (void)conn;
    as_buf_add(&c->body, p, n);
}

static void on_client_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct world *w = conn;
    struct call *c = call;

    c->n_close++;
    c->code = code;
    c->whole = whole;
    if (w->chain && w->n_started < CALLS)
        assert_int_equal(start(w, NULL, 0), 0);
}

static const struct as_http_client_ops client_ops = {on_field, on_data, on_client_close};

/* --- the server --- */

static void answer(struct world *w, struct call *c, bool body)
{
    static const struct as_http_header head = {{"content-type", 12}, {"application/grpc", 16}};
    static const struct as_http_header tail = {{"grpc-status", 11}, {"0", 1}};
    struct as_http_piece piece = {c->asked.p, c->asked.n, NULL};

    as_h2_answer(w->server, c->server_stream,
                 &(struct as_http_answer){.status = 200,
                                          .headers = &head,
                                          .n_headers = 1,
                                          .body = &piece,
                                          .n_body = body && piece.n,
                                          .trailers = &tail,
                                          .n_trailers = body});
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct world *w = conn;
    struct call *c = &w->call[w->n_asked++];

    c->server_stream = stream;
    assert_true(as_str_eq(head->path, AS_STR("/m")));
    assert_true(as_str_eq(head->authority, AS_STR("host")));
    if (w->answer == ONLY_TRAILERS)
        answer(w, c, false);
    if (w->answer == RESET)
        as_h2_reset(w->server, stream, NGHTTP2_REFUSED_STREAM);
    return c;
}

static void on_request_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct world *w = conn;
    struct call *c = req;

    as_buf_add(&c->asked, p, n);
    as_h2_consume(w->server, c->server_stream, n);
}

static void on_end(void *conn, void *req)
{
    struct world *w = conn;

    if (w->answer == ECHO)
        answer(w, req, true);
}

static void on_server_close(void *conn, void *req, uint32_t code)
{
    (void)conn;
    (void)req;
    (void)code;
}

static const struct as_http_ops server_ops = {.on_request = on_request,
                                              .on_data = on_request_data,
                                              .on_end = on_end,
                                              .on_close = on_server_close};

/* --- between them --- */

/* Moves what is queued, in slices; returns whether anything moved. */
static bool move(struct world *w, struct as_outq *q, bool to_server)
{
    bool any = q->bytes > 0;

    while (q->bytes) {
        struct iovec v;
        size_t n;
        uint8_t *exact;

        assert_int_equal(as_outq_iov(q, &v, 1), 1);
        n = w->slice ? AS_MIN(w->slice, v.iov_len) : v.iov_len;
        exact = malloc(n); /* a block of its own, so that a sanitizer finds a read beyond its end */
        memcpy(exact, v.iov_base, n);
        if (to_server) { /* the server may consume only a part: the rest is passed after answers
                            were sent */
            w->server_rc = as_h2_recv(w->server, exact, n, 0, &n);
            as_h2_send(w->server, &w->down, 1 << 20);
        } else {
            w->client_rc = as_h2_client_recv(w->client, exact, n);
        }
        free(exact);
        as_outq_drop(q, n);
    }
    return any;
}

static void pump(struct world *w)
{
    bool more = true;

    while (more) {
        as_h2_client_send(w->client, &w->up, 1 << 20);
        as_h2_send(w->server, &w->down, 1 << 20);
        more = move(w, &w->up, true);
        more = move(w, &w->down, false) || more;
    }
}

static struct world *world_new(uint32_t max_streams)
{
    static const struct as_h2_client_conf conf = {
        .stream_window = 65535, .conn_window = 65535, .max_header_list = 4096};
    const struct as_h2_conf server = {.max_streams = max_streams,
                                      .stream_window = 65535,
                                      .conn_window = 65535,
                                      .max_header_list = 8192,
                                      .max_headers = 100};
    struct world *w = as_xalloc(sizeof(*w));

    as_outq_init(&w->up);
    as_outq_init(&w->down);
    assert_int_equal(as_h2_client_new(&w->client, &conf, &client_ops, w), 0);
    assert_int_equal(as_h2_new(&w->server, &server, &server_ops, w, 0), 0);
    return w;
}

static void world_free(struct world *w)
{
    w->chain = false;
    as_h2_client_free(w->client);
    as_h2_free(w->server);
    for (uint32_t i = 0; i < CALLS; i++) {
        assert_int_equal(w->call[i].n_close, i < w->n_started);
        as_buf_fini(&w->call[i].fields);
        as_buf_fini(&w->call[i].trailers);
        as_buf_fini(&w->call[i].body);
        as_buf_fini(&w->call[i].asked);
    }
    as_outq_fini(&w->up);
    as_outq_fini(&w->down);
    free(w);
}

static const char *text(struct as_buf *b)
{
    as_buf_reserve(b, 1)[0] = 0;
    return (const char *)b->p;
}

/* --- the specification --- */

static void a_request_is_answered(void **state AS_UNUSED)
{
    static const struct as_str body[] = {{"one ", 4}, {NULL, 0}, {"two", 3}, {NULL, 0}};

    for (size_t slice = 0; slice < 3; slice++) {
        struct world *w = world_new(10);

        w->slice = slice;
        assert_int_equal(start(w, body, AS_COUNT(body)), 0);
        assert_false(as_h2_client_ready(w->client));
        pump(w);
        assert_true(as_h2_client_ready(w->client));
        assert_string_equal(text(&w->call[0].fields), ":status=200;content-type=application/grpc;");
        assert_string_equal(text(&w->call[0].trailers), "grpc-status=0;");
        assert_string_equal(text(&w->call[0].body), "one two");
        assert_int_equal(w->call[0].n_close, 1);
        assert_true(w->call[0].whole);
        assert_int_equal(w->call[0].code, 0);
        world_free(w);
    }
}

static void an_answer_may_be_trailers_only(void **state AS_UNUSED)
{
    struct world *w = world_new(10);

    w->answer = ONLY_TRAILERS;
    assert_int_equal(start(w, NULL, 0), 0);
    pump(w);
    assert_string_equal(text(&w->call[0].fields), ":status=200;content-type=application/grpc;");
    assert_int_equal(w->call[0].trailers.n, 0);
    assert_true(w->call[0].whole);
    world_free(w);
}

static void bodies_above_the_windows_flow_both_ways(void **state AS_UNUSED)
{
    size_t n = 1 << 20;
    char *big = as_xalloc(n);
    struct as_str body[] = {{big, n / 3}, {big + n / 3, n - n / 3}};
    struct world *w = world_new(10);

    for (size_t i = 0; i < n; i++)
        big[i] = (char)(i * 7 + (i >> 10));
    for (int i = 0; i < 3; i++)
        assert_int_equal(start(w, body, 2), 0);
    pump(w);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w->call[i].body.n, n);
        assert_memory_equal(w->call[i].body.p, big, n);
        assert_true(w->call[i].whole);
    }
    world_free(w);
    free(big);
}

static void requests_over_the_servers_limit_wait(void **state AS_UNUSED)
{
    struct world *w = world_new(2);

    pump(w); /* the limit is known */
    w->answer = HOLD;
    for (int i = 0; i < 5; i++)
        assert_int_equal(start(w, NULL, 0), 0);
    pump(w);
    assert_int_equal(w->n_asked, 2);
    w->answer = ECHO;
    answer(w, &w->call[0], true);
    pump(w);
    assert_int_equal(w->n_asked, 5);
    assert_int_equal(w->call[4].n_close, 1);
    assert_int_equal(w->call[1].n_close, 0);
    world_free(w); /* and the one that is open is closed with the connection */
}

static void a_closed_call_may_start_the_next(void **state AS_UNUSED)
{
    struct world *w = world_new(10);

    w->chain = true;
    assert_int_equal(start(w, NULL, 0), 0);
    pump(w);
    assert_int_equal(w->n_started, CALLS);
    world_free(w);
}

static void a_reset_ends_a_call(void **state AS_UNUSED)
{
    struct world *w = world_new(10);

    w->answer = RESET;
    assert_int_equal(start(w, NULL, 0), 0);
    pump(w);
    assert_false(w->call[0].whole);
    assert_int_equal(w->call[0].code, NGHTTP2_REFUSED_STREAM);
    world_free(w);
}

static void the_owner_may_reset_a_call(void **state AS_UNUSED)
{
    static const struct as_str body = {"x", 1};
    struct world *w = world_new(1);

    pump(w);
    w->answer = HOLD;
    assert_int_equal(start(w, &body, 1), 0); /* sent */
    assert_int_equal(start(w, &body, 1), 0); /* waits inside */
    pump(w);
    as_h2_client_reset(w->client, w->call[1].stream, NGHTTP2_CANCEL);
    as_h2_client_reset(w->client, w->call[0].stream, NGHTTP2_CANCEL);
    as_h2_client_reset(w->client, w->call[0].stream, NGHTTP2_CANCEL); /* twice changes nothing */
    answer(w, &w->call[0], true);                                     /* crosses the reset */
    pump(w);
    assert_int_equal(w->n_asked, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w->call[i].n_close, 1);
        assert_false(w->call[i].whole);
        assert_int_equal(w->call[i].fields.n, 0);
    }
    assert_true(as_h2_client_usable(w->client));
    world_free(w);
}

static void after_goaway_nothing_new_is_sent(void **state AS_UNUSED)
{
    struct world *w = world_new(1);

    pump(w);
    w->answer = HOLD;
    assert_int_equal(start(w, NULL, 0), 0);
    assert_int_equal(start(w, NULL, 0), 0);
    pump(w);
    as_h2_shutdown_final(w->server);
    pump(w);
    assert_false(as_h2_client_usable(w->client));
    assert_int_equal(start(w, NULL, 0), AS_EUNAVAILABLE);
    w->answer = ECHO;
    answer(w, &w->call[0], true);
    pump(w);
    assert_true(w->call[0].whole); /* what was taken is answered */
    assert_int_equal(w->call[1].n_close, 1);
    assert_int_equal(w->call[1].code, NGHTTP2_REFUSED_STREAM);
    assert_true(as_h2_client_done(w->client));
    world_free(w);
}

static void fields_that_cannot_be_sent_close_the_call(void **state AS_UNUSED)
{
    struct world *w = world_new(10);
    char *big = as_xalloc(70000);
    struct as_http_header with[5];
    struct as_http_client_request r = {with, 5, NULL, 0, 0};

    memset(big, 'x', 70000);
    memcpy(with, fields, sizeof(with));
    with[4].value = (struct as_str){big, 70000};
    assert_int_equal(as_h2_client_request(w->client, &r, &w->call[0], &w->call[0].stream), 0);
    w->n_started = 1;
    pump(w);
    assert_int_equal(w->call[0].n_close, 1);
    assert_false(w->call[0].whole);
    assert_int_equal(w->n_asked, 0);
    world_free(w);
    free(big);
}

/* --- hostile servers: bytes by hand --- */

static void frame(struct as_buf *b, uint8_t type, uint8_t flags, uint32_t id, const void *p,
                  size_t n)
{
    uint8_t head[9] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, type, flags, 0, 0,
                       (uint8_t)(id >> 8), (uint8_t)id};

    as_buf_add(b, head, 9);
    as_buf_add(b, p, n);
}

/* Passes the bytes to the client, and sends what it answers. */
static int feed(struct world *w, struct as_buf *b)
{
    int rc = as_h2_client_recv(w->client, b->p, b->n), sent;

    as_buf_fini(b);
    sent = as_h2_client_send(w->client, &w->up, 1 << 20);
    return rc ? rc : sent;
}

static struct world *world_asked(struct as_buf *b)
{
    struct world *w = world_new(10);

    assert_int_equal(start(w, NULL, 0), 0);
    as_h2_client_send(w->client, &w->up, 1 << 20);
    as_buf_init(b);
    frame(b, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    return w;
}

static void what_is_not_http2_ends_the_connection(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                        "\x00\x00\x04\x08\x00\x00\x00\x00\x00"
                                        "abcd"};

    for (size_t i = 0; i < AS_COUNT(wrong); i++) {
        struct world *w = world_new(1);
        struct as_buf b = {0};

        as_buf_str(&b, wrong[i]);
        as_buf_add(&b, "\0\0\0\0\0\0\0\0\0\0", 10);
        assert_int_equal(start(w, NULL, 0), 0);
        assert_int_equal(feed(w, &b), AS_EPROTO);
        assert_false(as_h2_client_ready(w->client));
        world_free(w);
    }
}

static void interim_answers_are_skipped(void **state AS_UNUSED)
{
    struct as_buf b;
    struct world *w = world_asked(&b);

    frame(&b, NGHTTP2_HEADERS, 4, 1,
          "\x08\x03"
          "103",
          5); /* :status 103, literal */
    frame(&b, NGHTTP2_HEADERS, 4, 1, "\x88", 1);
    frame(&b, NGHTTP2_HEADERS, 5, 1,
          "\x00\x01"
          "t\x01"
          "v",
          5);
    assert_int_equal(feed(w, &b), 0);
    assert_string_equal(text(&w->call[0].fields), ":status=200;");
    assert_string_equal(text(&w->call[0].trailers), "t=v;");
    assert_true(w->call[0].whole);
    world_free(w);
}

static void fields_are_bounded(void **state AS_UNUSED)
{
    uint8_t block[4096] = {0x88, 0x00, 0x01, 'x', 0x7f};
    size_t most = 4096 - (7 + 3 + 32) - (1 + 32); /* what is left for the value of "x" */

    for (size_t over = 0; over < 2; over++) {
        size_t n = most + over;
        struct as_buf b;
        struct world *w = world_asked(&b);

        block[5] = (uint8_t)(((n - 127) & 127) | 128);
        block[6] = (uint8_t)((n - 127) >> 7);
        memset(block + 7, 'v', n);
        frame(&b, NGHTTP2_HEADERS, 5, 1, block, 7 + n);
        assert_int_equal(feed(w, &b), 0);
        assert_int_equal(w->call[0].n_close, 1);
        assert_int_equal(w->call[0].whole, !over);
        world_free(w);
    }
}

static void pushes_and_unknown_streams_are_refused(void **state AS_UNUSED)
{
    struct as_buf b;
    struct world *w = world_asked(&b);

    frame(&b, NGHTTP2_SETTINGS, 1, 0, NULL, 0); /* push is off */
    frame(&b, NGHTTP2_PUSH_PROMISE, 4, 1, "\x00\x00\x00\x02\x82", 5);
    assert_int_equal(feed(w, &b), AS_EPROTO);
    world_free(w);
    w = world_asked(&b);
    frame(&b, NGHTTP2_HEADERS, 4, 3, "\x88", 1); /* a stream that was never opened */
    assert_int_equal(feed(w, &b), AS_EPROTO);
    world_free(w);
}

static void truncated_answers_are_not_complete(void **state AS_UNUSED)
{
    struct as_buf whole;
    struct world *w = world_asked(&whole);

    world_free(w);
    frame(&whole, NGHTTP2_HEADERS, 4, 1, "\x88", 1);
    frame(&whole, NGHTTP2_DATA, 0, 1, "data", 4);
    frame(&whole, NGHTTP2_HEADERS, 5, 1,
          "\x00\x01"
          "t\x01"
          "v",
          5);
    for (size_t n = 0; n <= whole.n; n++) {
        struct as_buf part;

        w = world_asked(&part);
        part.n = 0;
        as_buf_add(&part, whole.p, n);
        assert_int_equal(feed(w, &part), 0);
        assert_int_equal(w->call[0].whole, n == whole.n);
        world_free(w);
    }
    as_buf_fini(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered),
        cmocka_unit_test(an_answer_may_be_trailers_only),
        cmocka_unit_test(bodies_above_the_windows_flow_both_ways),
        cmocka_unit_test(requests_over_the_servers_limit_wait),
        cmocka_unit_test(a_closed_call_may_start_the_next),
        cmocka_unit_test(a_reset_ends_a_call),
        cmocka_unit_test(the_owner_may_reset_a_call),
        cmocka_unit_test(after_goaway_nothing_new_is_sent),
        cmocka_unit_test(fields_that_cannot_be_sent_close_the_call),
        cmocka_unit_test(what_is_not_http2_ends_the_connection),
        cmocka_unit_test(interim_answers_are_skipped),
        cmocka_unit_test(fields_are_bounded),
        cmocka_unit_test(pushes_and_unknown_streams_are_refused),
        cmocka_unit_test(truncated_answers_are_not_complete),
    };

    return cmocka_run_group_tests_name("h2_client", tests, NULL, NULL);
}
