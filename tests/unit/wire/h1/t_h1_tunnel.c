/* Specification of wire/h1/h1: requests for a websocket, and the bytes behind an answer 101. */
#include "h1_case.h"

#define UPGRADE                                                                                    \
    "GET /c HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"

static bool wants(const char *request)
{
    struct h1_case c = {0};
    bool got;

    h1_open(&c);
    h1_say(&c, request);
    got = c.head.wants_websocket;
    h1_close(&c);
    return got;
}

static void test_who_wants_a_websocket(void **state AS_UNUSED)
{
    assert_true(wants(UPGRADE));
    assert_true(wants("GET / HTTP/1.1\r\nHost: h\r\nupgrade: h2c, WebSocket\r\n"
                      "connection: UPGRADE\r\n\r\n"));
    assert_true(wants("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: x\r\n"
                      "Connection: upgrade\r\n\r\n"));
    /* each of the two fields is needed, and HTTP/1.0 has no upgrade */
    assert_false(wants("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"));
    assert_false(wants("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n\r\n"));
    assert_false(wants("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"));
    assert_false(wants("GET / HTTP/1.0\r\nHost: h\r\nConnection: upgrade\r\n"
                       "Upgrade: websocket\r\n\r\n"));
}

static void accept_it(struct h1_case *c)
{
    const struct as_http_header h[] = {
        {AS_STR("sec-websocket-accept"), AS_STR("x")},
        {AS_STR("upgrade"), AS_STR("h2c")}, /* is set by h1 */
    };

    as_h1_begin(c->h, c->stream,
                &(struct as_http_answer){.status = 101, .headers = h, .n_headers = AS_COUNT(h)});
}

static void test_all_bytes_behind_the_answer_are_the_owners(void **state AS_UNUSED)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = h1_blob("down", 4);

    h1_open(&c);
    h1_say(&c, UPGRADE);
    assert_false(as_h1_wants_read(c.h));
    accept_it(&c);
    assert_true(as_h1_wants_read(c.h));
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: x\r\n"
                      "connection: upgrade\r\nupgrade: websocket\r\n\r\n");
    h1_say(&c, "GET / HTTP/1.1\r\n\r\n\x01");
    h1_check_seen(&c, "GET /c host=h {}GET / HTTP/1.1\r\n\r\n\x01");
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 4, b});
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "down");
    assert_false(as_h1_done(c.h));
    as_h1_finish(c.h, 1);
    h1_say(&c, "late");
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "");
    h1_check_seen(&c, "~");
    assert_true(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

/* Bytes that came with the request wait for the answer. */
static void test_bytes_before_the_answer_wait(void **state AS_UNUSED)
{
    struct h1_case c = {.ends_answer_nothing = true};
    const char text[] = UPGRADE "early";
    size_t taken, more;

    h1_open(&c);
    assert_int_equal(as_h1_recv(c.h, (const uint8_t *)text, sizeof(text) - 1, 0, &taken), 0);
    assert_int_equal(taken, sizeof(text) - 1 - 5);
    accept_it(&c);
    assert_int_equal(as_h1_recv(c.h, (const uint8_t *)text + taken, 5, 0, &more), 0);
    assert_int_equal(more, 5);
    h1_check_seen(&c, "GET /c host=h {}early");
    h1_close(&c);
}

static void test_unread_bytes_stop_the_reading(void **state AS_UNUSED)
{
    struct h1_case c = {.ends_answer_nothing = true, .keeps = true};
    char text[102];

    memset(text, 'x', sizeof(text));
    h1_open(&c);
    h1_say(&c, UPGRADE);
    accept_it(&c);
    text[100] = 0;
    h1_say(&c, text);
    assert_true(as_h1_wants_read(c.h));
    text[1] = 0;
    h1_say(&c, text);
    assert_false(as_h1_wants_read(c.h)); /* max_unread is 100 */
    as_h1_consume(c.h, 1, 1);
    assert_true(as_h1_wants_read(c.h));
    h1_close(&c);
}

/* A request that is not upgraded is answered as any other, and the connection goes on. */
static void test_a_refusal_keeps_the_connection(void **state AS_UNUSED)
{
    struct h1_case c = {0};

    h1_open(&c);
    h1_say(&c, UPGRADE);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_say(&c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    h1_check_seen(&c, "GET /c host=h {}~GET / host=h {}~");
    h1_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_wants_a_websocket),
        cmocka_unit_test(test_all_bytes_behind_the_answer_are_the_owners),
        cmocka_unit_test(test_bytes_before_the_answer_wait),
        cmocka_unit_test(test_unread_bytes_stop_the_reading),
        cmocka_unit_test(test_a_refusal_keeps_the_connection),
    };

    return cmocka_run_group_tests_name("h1_tunnel", tests, NULL, NULL);
}
