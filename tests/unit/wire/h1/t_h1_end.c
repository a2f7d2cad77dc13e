/* Specification of wire/h1/h1: how a connection ends, and how a request ends early. */
#include "h1_case.h"

static void answer(struct h1_case *c, uint32_t status)
{
    as_h1_answer(c->h, c->stream, &(struct as_http_answer){.status = status});
}

static void test_a_reset_ends_the_connection_and_not_the_answer(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = h1_blob("x", 1);

    (void)state;
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b});
    as_h1_reset(c.h, 1);
    h1_check_seen(&c, "GET / host=h {}"); /* not during the call */
    assert_true(as_h1_wants_write(c.h));
    assert_int_equal(h1_take(&c, SIZE_MAX), AS_EPROTO);
    h1_check_seen(&c, "~8");
    h1_check_sent(&c, "");
    assert_int_equal(atomic_load(&b->refs), 1);
    as_blob_unref(b);
    h1_close(&c);
}

static void test_http_1_0_is_served_and_closed(void **state)
{
    struct h1_case c = {0};
    struct as_blob *b = h1_blob("xyz", 3);

    (void)state;
    h1_open(&c);
    h1_say(&c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: x\r\n\r\n");
    h1_check_seen(&c, "GET / host= expect=x {}~");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    assert_null(as_h1_breach(c.h));
    h1_close(&c);
    /* streamed: HTTP/1.0 has no chunks */
    c = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&c);
    h1_say(&c, "GET / HTTP/1.0\r\n\r\n");
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 3, b});
    as_h1_finish(c.h, 1);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nxyz");
    assert_true(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

static void test_a_client_that_sends_connection_close(void **state)
{
    static const char *const said[] = {"close", "CLOSE", "x, close", "close,x", "x ,\tclose "};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(said); i++) {
        struct h1_case c = {0};
        char head[100];

        snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: h\r\nConnection: %s\r\n\r\n",
                 said[i]);
        h1_open(&c);
        h1_say(&c, head);
        h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        assert_true(as_h1_done(c.h));
        h1_close(&c);
    }
}

/* When the connection can be continued by another as_h1: between two requests only. */
static void test_idle_connections_can_be_continued(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    assert_true(as_h1_is_idle(c.h));
    assert_false(as_h1_got_request(c.h));
    h1_say(&c, "G");
    assert_false(as_h1_is_idle(c.h));
    h1_say(&c, &GET[1]);
    assert_false(as_h1_is_idle(c.h)); /* a handler works on it */
    h1_ok(&c);
    assert_false(as_h1_is_idle(c.h)); /* the answer is not out */
    h1_take(&c, SIZE_MAX);
    assert_true(as_h1_is_idle(c.h));
    h1_close(&c);
    c = (struct h1_case){.null_request = true}; /* the rest of a body is dropped */
    h1_open(&c);
    h1_say(&c, POST(5) "01");
    h1_take(&c, SIZE_MAX);
    assert_false(as_h1_is_idle(c.h));
    h1_say(&c, "234");
    assert_true(as_h1_is_idle(c.h));
    as_h1_shutdown_notice(c.h); /* the answer will have `connection: close` */
    assert_false(as_h1_is_idle(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* the new one knows that requests have come */
    h1_open(&c);
    as_h1_resume(c.h);
    assert_true(as_h1_got_request(c.h) && as_h1_is_idle(c.h));
    h1_close(&c);
}

static void test_graceful_end(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c); /* nothing under way */
    h1_say(&c, GET);
    h1_ok(&c);
    h1_take(&c, SIZE_MAX);
    as_h1_shutdown_notice(c.h);
    assert_false(as_h1_done(c.h));
    as_h1_shutdown_final(c.h);
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){.ends_answer_nothing = true}; /* a request waits */
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_shutdown_notice(c.h);
    as_h1_shutdown_final(c.h);
    assert_false(as_h1_done(c.h));
    h1_ok(&c);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){.ends_answer_nothing = true}; /* the answer is written, and not sent */
    h1_open(&c);
    h1_say(&c, GET);
    h1_ok(&c);
    as_h1_shutdown_notice(c.h);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    assert_false(as_h1_done(c.h)); /* nobody has told the client */
    assert_false(as_h1_is_idle(c.h));
    h1_say(&c, GET);
    h1_ok(&c);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* one comes after the notice; half of it before the end */
    h1_open(&c);
    as_h1_shutdown_notice(c.h);
    h1_say(&c, "GET / HTTP/1.1\r\n");
    as_h1_shutdown_final(c.h);
    assert_false(as_h1_done(c.h));
    h1_say(&c, "Host: h\r\n\r\n");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
}

static void test_a_short_rest_of_a_body_is_dropped(void **state)
{
    struct h1_case c = {.null_request = true};

    (void)state;
    h1_open(&c);
    h1_say(&c, POST(5) "01");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    c.null_request = false;
    h1_say(&c, "234" GET);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_check_seen(&c, "POST / host=h content-length=5 {GET / host=h {}~");
    /* while the rest is being dropped, the server may shut down */
    c.null_request = true;
    h1_say(&c, POST(5) "01");
    as_h1_shutdown_final(c.h);
    assert_true(as_h1_done(c.h));
    h1_close(&c);
}

static void test_a_long_rest_of_a_body_ends_the_connection(void **state)
{
    static const char *const heads[] = {
        POST(65537), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(heads); i++) {
        struct h1_case c = {.null_request = true};

        h1_open(&c);
        h1_say(&c, heads[i]);
        h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        assert_true(as_h1_done(c.h));
        assert_null(as_h1_breach(c.h));
        h1_close(&c);
    }
}

static void test_a_body_that_stopped_or_is_too_large_ends_the_connection(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct h1_case c = {.ends_answer_nothing = true};

        h1_open(&c);
        h1_say(&c, POST(5) "01");
        answer(&c, i ? 408 : 413);
        h1_take(&c, SIZE_MAX);
        assert_non_null(strstr(h1_text(&c.sent), "connection: close\r\n"));
        assert_true(as_h1_done(c.h));
        h1_close(&c);
    }
}

/* The answer is complete: a later error cannot be reported. */
static void test_an_error_after_the_answer_only_closes(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    h1_say(&c, GET);
    c.sent.n = 0;
    h1_say(&c, "GET / HTTP/9.9\r\n");
    assert_memory_equal(h1_text(&c.sent), "HTTP/1.1 505", 12); /* this one is a request's own */
    h1_close(&c);
    c = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&c);
    h1_say(&c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx");
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    h1_say(&c, "zz");
    assert_int_equal(h1_take(&c, SIZE_MAX),
                     AS_EPROTO); /* an incomplete answer must not look complete */
    h1_check_seen(&c, "POST / host=h {x~1");
    h1_close(&c);
}

static void test_an_incomplete_head_is_answered_by_refuse(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    assert_int_equal(as_h1_head_since(c.h), AS_NEVER);
    assert_false(as_h1_got_request(c.h));
    h1_say(&c, "GET / HT");
    assert_int_equal(as_h1_head_since(c.h), AS_SEC);
    as_h1_refuse(c.h, 408, "slow");
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
                      "content-length: 16\r\nconnection: close\r\n\r\n{\"error\":\"slow\"}");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0};
    h1_open(&c);
    h1_say(&c, GET);
    assert_int_equal(as_h1_head_since(c.h), AS_NEVER);
    assert_true(as_h1_got_request(c.h));
    h1_close(&c);
}

/* A client that disconnects in any state: an open request is closed exactly once. */
static void test_the_end_may_come_anywhere(void **state)
{
    static const char all[] = POST(3) "abcPOST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked"
                                      "\r\n\r\n2;x\r\nab\r\n0\r\nA: b\r\n\r\n";

    (void)state;
    for (size_t n = 0; n < sizeof(all); n++) {
        for (int silent = 0; silent < 2; silent++) {
            struct h1_case c = {.ends_answer_nothing = silent};
            size_t begun = 0, closed = 0;

            h1_open(&c);
            h1_feed(&c, all, n, n ? n : 1);
            as_h1_free(c.h);
            c.h = NULL;
            for (size_t i = 0; i < c.seen.n; i++) {
                begun += c.seen.p[i] == '{';
                closed += c.seen.p[i] == '~';
            }
            assert_int_equal(begun, closed);
            h1_close(&c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reset_ends_the_connection_and_not_the_answer),
        cmocka_unit_test(test_http_1_0_is_served_and_closed),
        cmocka_unit_test(test_a_client_that_sends_connection_close),
        cmocka_unit_test(test_idle_connections_can_be_continued),
        cmocka_unit_test(test_graceful_end),
        cmocka_unit_test(test_a_short_rest_of_a_body_is_dropped),
        cmocka_unit_test(test_a_long_rest_of_a_body_ends_the_connection),
        cmocka_unit_test(test_a_body_that_stopped_or_is_too_large_ends_the_connection),
        cmocka_unit_test(test_an_error_after_the_answer_only_closes),
        cmocka_unit_test(test_an_incomplete_head_is_answered_by_refuse),
        cmocka_unit_test(test_the_end_may_come_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
