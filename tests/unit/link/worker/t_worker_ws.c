/* The worker library: websockets: accepting, messages in both directions, their windows, their end.
 */
#include "call_pair.h"
#include "wire/frame/frame_http.h"

static struct as_worker_req *start(struct calls *c, uint64_t stream)
{
    struct as_meta field = {AS_STR("sec-websocket-protocol"), AS_STR("v1")};
    struct as_frame_http_open o = {.version = 11,
                                   .target = CALLEE,
                                   .flags = AS_HTTP_F_WEBSOCKET,
                                   .method = AS_STR("GET"),
                                   .path = AS_STR("/ws"),
                                   .meta = &field,
                                   .n_meta = 1};
    struct as_worker_req *q;

    assert_int_equal(as_frame_put_http_open(&c->d.out, stream, &o, NULL), 0);
    fake_send(&c->d);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    assert_true(as_worker_req_http(q)->websocket);
    return q;
}

static struct as_worker_req *accepted(struct calls *c, uint64_t stream)
{
    struct as_worker_req *q = start(c, stream);

    assert_int_equal(as_worker_http_answer(c->w, q, 101, NULL, 0, AS_STR(""), false), 0);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_DATA);
    assert_int_equal(as_frame_http_type(&c->d.f), AS_HTTP_HEAD);
    assert_false(c->d.f.flags & AS_FRAME_F_END);
    return q;
}

static void send_message(struct calls *c, uint64_t stream, enum as_ws_opcode opcode, const void *p,
                         size_t n, uint16_t code)
{
    struct as_frame_ws_message m = {
        .opcode = opcode, .code = code, .end = opcode == AS_WS_CLOSE, .body_len = n, .body = p};

    assert_int_equal(as_frame_put_ws_message(&c->d.out, stream, &m, NULL), 0);
    calls_sync(c);
}

static void read_message(struct calls *c, struct as_worker_req *q, unsigned opcode,
                         struct as_str bytes, uint32_t code)
{
    struct as_worker_ws_message m;
    void *hold;

    assert_int_equal(as_worker_ws_read(c->w, q, &m, &hold), 0);
    assert_int_equal(m.opcode, opcode);
    assert_int_equal(m.code, code);
    assert_true(as_str_eq(m.bytes, bytes));
    as_worker_release_hold(hold);
}

static int read_nothing(struct calls *c, struct as_worker_req *q)
{
    struct as_worker_ws_message m;
    void *hold;

    return as_worker_ws_read(c->w, q, &m, &hold);
}

static int ws_send(struct calls *c, struct as_worker_req *q, unsigned opcode, struct as_str bytes,
                   uint32_t code)
{
    struct as_worker_ws_message m = {(enum as_worker_ws_opcode)opcode, code, bytes};

    return as_worker_ws_send(c->w, q, &m);
}

static void expect_message(struct calls *c, unsigned opcode, uint32_t code, uint64_t n, bool end)
{
    struct as_frame_ws_message m;
    const char *why;

    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_DATA);
    assert_int_equal(as_frame_get_ws_message(&c->d.f, &m, &why), 0);
    assert_int_equal(m.opcode, opcode);
    assert_int_equal(m.code, code);
    assert_int_equal(m.body_len, n);
    assert_int_equal(m.end, end);
}

static void messages_in_both_directions(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = accepted(c, 1);
    size_t n = 100000;
    char *large = malloc(n);

    memset(large, 'x', n);
    assert_int_equal(read_nothing(c, q), AS_EAGAIN);
    send_message(c, 1, AS_WS_TEXT, "hello", 5, 0);
    send_message(c, 1, AS_WS_BINARY, "", 0, 0);
    send_message(c, 1, AS_WS_BINARY, large, n, 0); /* in frames of its own */
    read_message(c, q, AS_WORKER_WS_TEXT, AS_STR("hello"), 0);
    read_message(c, q, AS_WORKER_WS_BINARY, AS_STR(""), 0);
    read_message(c, q, AS_WORKER_WS_BINARY, (struct as_str){large, n}, 0);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("back"), 0), 0);
    expect_message(c, AS_WS_TEXT, 0, 4, false);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_CLOSE, AS_STR("bye"), 4000), 0);
    expect_message(c, AS_WS_CLOSE, 4000, 3, true);
    calls_answer(c, calls_start(c, 3, 0)); /* the slot is free */
    free(large);
}

static void the_close_of_the_client_is_the_last_message(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = accepted(c, 1);

    send_message(c, 1, AS_WS_TEXT, "x", 1, 0);
    send_message(c, 1, AS_WS_CLOSE, "gone", 4, 1001);
    read_message(c, q, AS_WORKER_WS_TEXT, AS_STR("x"), 0);
    read_message(c, q, AS_WORKER_WS_CLOSE, AS_STR("gone"), 1001);
    assert_int_equal(read_nothing(c, q), AS_EOF);
    as_worker_finish(c->w, q);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_END);
}

/* A message may begin while the window is above 0; a close needs none. */
static void messages_wait_for_room(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = accepted(c, 1);
    struct as_frame_credit credit = {.bytes = 65};
    size_t n = AS_HTTP_WINDOW - 64 - 1;
    char *large = calloc(1, n);

    assert_int_equal(ws_send(c, q, AS_WORKER_WS_BINARY, (struct as_str){large, n}, 0), 0);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("last"), 0), 0); /* 1 byte was left */
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("more"), 0), AS_EAGAIN);
    as_frame_put_credit(&c->d.out, 1, &credit);
    calls_sync(c);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("more"), 0), AS_EAGAIN);
    credit.bytes = 3;
    as_frame_put_credit(&c->d.out, 1, &credit);
    calls_sync(c);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("more"), 0), 0);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("x"), 0), AS_EAGAIN);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_CLOSE, AS_STR(""), 0), 0);
    free(large);
}

static void wrong_messages_are_refused_and_the_request_stays(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1);
    char reason[124] = {0};

    assert_int_equal(ws_send(c, q, AS_WORKER_WS_TEXT, AS_STR("early"), 0), AS_EINVALID);
    assert_int_equal(read_nothing(c, q), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 101, NULL, 0, AS_STR("body"), false),
                     AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 101, NULL, 0, AS_STR(""), true), AS_EINVALID);
    assert_int_equal(as_worker_http_answer(c->w, q, 101, NULL, 0, AS_STR(""), false), 0);
    assert_int_equal(as_worker_http_write(c->w, q, AS_STR("body"), false), AS_EINVALID);
    assert_int_equal(ws_send(c, q, 3, AS_STR("x"), 0), AS_EINVALID);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_CLOSE, AS_STR("x"), 65536), AS_EINVALID);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_CLOSE, (struct as_str){reason, 124}, 1000),
                     AS_ETOOBIG);
    assert_int_equal(ws_send(c, q, AS_WORKER_WS_CLOSE, (struct as_str){reason, 123}, 1000), 0);
}

static void a_denial_is_an_ordinary_answer(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *q = start(c, 1);

    assert_int_equal(as_worker_http_answer(c->w, q, 403, NULL, 0, AS_STR("no"), true), 2);
    as_worker_flush(c->w);
    fake_expect(&c->d, AS_FRAME_DATA);
    assert_true(c->d.f.flags & AS_FRAME_F_END);
}

/* What the dispatcher may not send ends the link. */
static void ends(struct calls *c, struct as_worker_req *q, const char *why)
{
    fake_send(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    assert_non_null(strstr(as_worker_error(c->w), why));
    as_worker_fail(c->w, q, 1, AS_STR(""));
}

static void a_message_before_the_handshake_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_frame_ws_message m = {.opcode = AS_WS_TEXT};
    struct as_worker_req *q = start(c, 1);

    assert_int_equal(as_frame_put_ws_message(&c->d.out, 1, &m, NULL), 0);
    ends(c, q, "was not accepted");
}

static void a_message_behind_the_close_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_frame_ws_message m = {.opcode = AS_WS_TEXT};
    struct as_worker_req *q = accepted(c, 1);

    send_message(c, 1, AS_WS_CLOSE, "", 0, 0);
    assert_int_equal(as_frame_put_ws_message(&c->d.out, 1, &m, NULL), 0);
    ends(c, q, "after the last one");
}

static void a_message_beyond_the_window_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_frame_ws_message m = {.opcode = AS_WS_TEXT};
    size_t n = AS_HTTP_WINDOW - 64;
    char *large = calloc(1, n);
    struct as_worker_req *q = accepted(c, 1);

    send_message(c, 1, AS_WS_BINARY, large, n, 0);
    assert_int_equal(as_frame_put_ws_message(&c->d.out, 1, &m, NULL), 0);
    ends(c, q, "beyond its stream's window");
    free(large);
}

#define WS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WS_TEST(messages_in_both_directions),
        WS_TEST(the_close_of_the_client_is_the_last_message),
        WS_TEST(messages_wait_for_room),
        WS_TEST(wrong_messages_are_refused_and_the_request_stays),
        WS_TEST(a_denial_is_an_ordinary_answer),
        WS_TEST(a_message_before_the_handshake_ends_the_link),
        WS_TEST(a_message_behind_the_close_ends_the_link),
        WS_TEST(a_message_beyond_the_window_ends_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
