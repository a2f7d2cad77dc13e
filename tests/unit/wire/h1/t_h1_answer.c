/* Specification of wire/h1/h1: answers, complete and streamed; bodies that are received into a
 * buffer.
 */
#include "h1_case.h"

static void answer(struct h1_case *c, uint32_t status)
{
    as_h1_answer(c->h, c->stream, &(struct as_http_answer){.status = status});
}

/* --- whole answers --- */

static void test_headers_and_pieces_in_order(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = h1_blob("large", 5);
    struct as_http_header h[] = {
        {AS_STR("a"), AS_STR("b")},
        {AS_STR("content-length"), AS_STR("99")}, /* it is replaced by the right one */
        {AS_STR("transfer-encoding"), AS_STR("x")},
        {AS_STR("c"), AS_STR("d")}};
    struct as_http_piece p[] = {{(const uint8_t *)"small", 5, NULL}, {b->data, 5, b}};

    (void)state;
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_answer(c.h, 1,
                 &(struct as_http_answer){
                     .status = 404, .headers = h, .n_headers = 4, .body = p, .n_body = 2});
    assert_int_equal(as_h1_bytes_unsent(c.h, 1) > 10, true);
    as_h1_answer(c.h, 1, &(struct as_http_answer){.status = 500}); /* a second one is ignored */
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 404 Not Found\r\na: b\r\nc: d\r\ncontent-length: 10\r\n\r\n"
                      "smalllarge");
    assert_int_equal(as_h1_bytes_unsent(c.h, 1), 0);
    assert_false(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

/* Fields that are not valid are left out completely: readers might take them for something else. */
static void test_invalid_fields_are_left_out(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    const struct as_http_header h[] = {
        {AS_STR("a"), AS_STR("b")},
        {AS_STR("x\r\ny"), AS_STR("1")},
        {AS_STR("x: y"), AS_STR("1")},
        {AS_STR("x "), AS_STR("1")},
        {AS_STR(""), AS_STR("1")},
        {AS_STR("X"), AS_STR("1")},
        {AS_STR(":status"), AS_STR("200")},
        {AS_STR("x\0"), AS_STR("1")},
        {AS_STR("x\xff"), AS_STR("1")},
        {AS_STR("v1"), AS_STR("1\r\nset-cookie: a=b")},
        {AS_STR("v2"), AS_STR("1\n")},
        {AS_STR("v3"), AS_STR("1\r\n\r\nHTTP/1.1 200 OK")},
        {AS_STR("v4"), AS_STR("1\0002")},
        {AS_STR("v5"), AS_STR("\x7f")},
        {AS_STR("v6"), AS_STR(" 1")},
        {AS_STR("v7"), AS_STR("1\t")},
        {AS_STR("v8"), AS_STR("\x1b[31m")},
        {AS_STR("upgrade"), AS_STR("h2c")},
        {AS_STR("keep-alive"), AS_STR("timeout=1")},
        {AS_STR("proxy-connection"), AS_STR("close")},
        {AS_STR("trailer"), AS_STR("x")},
        {AS_STR("good-1"), AS_STR("gr\xc3\xbc\xc3\x9f \t e!")},
        {AS_STR("good!#$%&'*+-.^_`|~2"), AS_STR("")},
    };

    (void)state;
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_answer(c.h, 1,
                 &(struct as_http_answer){.status = 200, .headers = h, .n_headers = AS_COUNT(h)});
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\na: b\r\ngood-1: gr\xc3\xbc\xc3\x9f \t e!\r\n"
                      "good!#$%&'*+-.^_`|~2: \r\ncontent-length: 0\r\n\r\n");
    h1_close(&c);
}

/* More pieces than the connection has room for inline; sent in small portions. */
static void test_send_stops_at_max(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_http_piece p[40];

    (void)state;
    for (size_t i = 0; i < AS_COUNT(p); i++)
        p[i] = (struct as_http_piece){(const uint8_t *)"0123456789", 10, NULL};
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_answer(c.h, 1, &(struct as_http_answer){.status = 200, .body = p, .n_body = AS_COUNT(p)});
    h1_take(&c, 1);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n");
    for (int i = 0; i < 57; i++) {
        assert_true(as_h1_wants_write(c.h));
        h1_take(&c, 7);
    }
    assert_int_equal(c.sent.n, 399);
    h1_check_seen(&c, "GET / host=h {}");
    h1_take(&c, 7);
    assert_int_equal(c.sent.n, 400);
    h1_check_seen(&c, "~");
    assert_false(as_h1_wants_write(c.h));
    h1_close(&c);
}

static void test_answers_without_a_body(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    h1_say(&c, GET);
    answer(&c, 204);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 204 No Content\r\n\r\n");
    h1_say(&c, GET);
    answer(&c, 299); /* a status without a name */
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n");
    h1_close(&c);
}

static void test_head_has_the_length_and_no_body(void **state)
{
    const struct as_http_header said[] = {{AS_STR("content-length"), AS_STR("77")}};
    struct h1_case c = {0};
    struct as_blob *b = h1_blob("x", 1);

    (void)state;
    h1_open(&c);
    h1_say(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    c.ends_answer_nothing = true;
    h1_say(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    as_h1_answer(c.h, 2, &(struct as_http_answer){.status = 200, .headers = said, .n_headers = 1});
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n");
    h1_say(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    as_h1_begin(c.h, 3, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 3, &(struct as_http_piece){b->data, 1, b});
    as_h1_finish(c.h, 3);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_false(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

/* --- over time --- */

static void test_a_streamed_answer_is_sent_in_chunks(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = h1_blob("0123456789abcdefghij", 20);

    (void)state;
    h1_open(&c);
    h1_say(&c, GET GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 10, b});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data + 10, 10, b}); /* one chunk with it */
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "14\r\n0123456789abcdefghij\r\n");
    assert_int_equal(c.drained, 1);
    assert_int_equal(atomic_load(&b->refs), 1);
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b});
    as_h1_finish(c.h, 1);
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b}); /* too late */
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "1\r\n0\r\n0\r\n\r\n");
    h1_check_seen(&c, "GET / host=h {}~");
    assert_int_equal(atomic_load(&b->refs), 1);
    assert_true(as_h1_wants_read(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

static void test_a_streamed_answer_of_known_length(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = h1_blob("0123456789abcdefghij", 20);
    struct as_http_answer a = {.status = 200, .has_length = true, .length = 12};

    (void)state;
    h1_open(&c);
    h1_say(&c, GET GET);
    as_h1_begin(c.h, 1, &a);
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 10, b});
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n0123456789");
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 2, b});
    as_h1_finish(c.h, 1);
    h1_take(&c, SIZE_MAX);
    h1_check_sent(&c, "01");
    assert_true(as_h1_wants_read(c.h)); /* the next request can be found */
    as_blob_unref(b);
    h1_close(&c);
}

/* What was written is sent; that it is not all shows in the missing end. */
static void test_a_streamed_answer_that_is_cut(void **state)
{
    struct as_blob *b = h1_blob("0123456789abcdefghij", 20);

    (void)state;
    for (int sized = 0; sized < 2; sized++) {
        struct h1_case c = {.ends_answer_nothing = true};
        struct as_http_answer a = {.status = 200, .has_length = sized, .length = 12};

        h1_open(&c);
        h1_say(&c, GET GET);
        as_h1_begin(c.h, 1, &a);
        as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 10, b});
        as_h1_cut(c.h, 1);
        h1_take(&c, SIZE_MAX);
        h1_check_sent(&c, sized ? "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n0123456789"
                                : "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
                                  "a\r\n0123456789\r\n");
        assert_true(as_h1_done(c.h));
        h1_close(&c);
    }
    as_blob_unref(b);
}

static void test_on_drained_is_called_when_there_is_room(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = as_blob_new(100000);
    size_t all;

    (void)state;
    memset(b->data, 'x', b->n);
    h1_open(&c);
    h1_say(&c, GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    for (int i = 0; i < 20; i++)
        as_h1_write(c.h, 1, &(struct as_http_piece){b->data, b->n, b});
    all = as_h1_bytes_unsent(c.h, 1);
    assert_true(all > 2000000); /* with the head */
    assert_int_equal(as_h1_bytes_sent(c.h), 0);
    while (as_h1_bytes_unsent(c.h, 1) > 65536) {
        assert_int_equal(c.drained, 0);
        h1_take(&c, 50000);
        assert_int_equal(as_h1_bytes_sent(c.h), all - as_h1_bytes_unsent(c.h, 1));
    }
    assert_int_equal(c.drained, 1);
    h1_close(&c); /* with pieces that wait */
    assert_int_equal(atomic_load(&b->refs), 1);
    as_blob_unref(b);
}

/* --- pipelining --- */

static void test_the_next_request_waits_for_the_answer(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    assert_int_equal(h1_say(&c, GET GET), sizeof(GET) - 1);
    assert_false(as_h1_wants_read(c.h));
    h1_ok(&c);
    assert_false(as_h1_wants_read(c.h)); /* it is not out */
    h1_take(&c, SIZE_MAX);
    assert_true(as_h1_wants_read(c.h));
    h1_say(&c, GET);
    h1_check_seen(&c, "GET / host=h {}~GET / host=h {}");
    h1_close(&c);
}

/* --- bodies --- */

static void test_a_body_is_received_into_its_buffer(void **state)
{
    uint8_t place[10] = {0}, *p;
    struct h1_case c = {.place = place, .place_n = 10};
    size_t n;

    (void)state;
    h1_open(&c);
    assert_false(as_h1_body_buffer(c.h, &p, &n));
    h1_say(&c, POST(10) "012");
    assert_memory_equal(place, "012", 3);
    assert_true(as_h1_body_buffer(c.h, &p, &n));
    assert_ptr_equal(p, place + 3);
    assert_int_equal(n, 7);
    memcpy(p, "3456", 4);
    assert_int_equal(as_h1_body_received(c.h, 4, AS_SEC), 0);
    h1_check_seen(&c, "POST / host=h content-length=10 {0123456");
    assert_true(as_h1_body_buffer(c.h, &p, &n));
    memcpy(p, "789", 3);
    assert_int_equal(as_h1_body_received(c.h, 3, AS_SEC), 0);
    assert_false(as_h1_body_buffer(c.h, &p, &n));
    h1_take(&c, SIZE_MAX);
    h1_check_seen(&c, "789}~");
    assert_memory_equal(place, "0123456789", 10);
    h1_close(&c);
}

/* The buffer takes the first bytes; the others are passed on as they come. */
static void test_a_buffer_may_be_smaller_than_the_body(void **state)
{
    uint8_t place[4];
    struct h1_case c = {.place = place, .place_n = 4};

    (void)state;
    h1_open(&c);
    h1_say(&c, POST(10) "0123456789");
    h1_check_seen(&c, "POST / host=h content-length=10 {0123456789}~");
    assert_memory_equal(place, "0123", 4);
    h1_close(&c);
}

static void test_a_chunked_body_has_no_buffer(void **state)
{
    uint8_t place[4], *p;
    struct h1_case c = {.place = place, .place_n = 4, .place_at = 4};
    size_t n;

    (void)state;
    h1_open(&c);
    h1_say(&c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab");
    assert_false(as_h1_body_buffer(c.h, &p, &n));
    h1_check_seen(&c, "POST / host=h {ab");
    h1_close(&c);
}

static void test_unconsumed_bytes_stop_reading(void **state)
{
    struct h1_case c = {.keeps = true};
    char body[101];

    (void)state;
    memset(body, 'x', sizeof(body));
    h1_open(&c);
    h1_say(&c, POST(300));
    h1_feed(&c, body, 100, 100);
    assert_true(as_h1_wants_read(c.h)); /* H1_CONF allows 100 */
    h1_feed(&c, body, 1, 1);
    assert_false(as_h1_wants_read(c.h));
    as_h1_consume(c.h, 2, 50); /* of another request */
    assert_false(as_h1_wants_read(c.h));
    as_h1_consume(c.h, 1, 1);
    assert_true(as_h1_wants_read(c.h));
    h1_close(&c);
}

/* --- 100-continue --- */

static void test_100_continue_is_sent(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    h1_say(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
    h1_check_sent(&c, "HTTP/1.1 100 Continue\r\n\r\n");
    h1_say(&c, "x" GET);
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
                      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_close(&c);
}

static void test_100_continue_is_not_sent_after_an_answer(void **state)
{
    struct h1_case c = {.null_request = true};

    (void)state;
    h1_open(&c);
    h1_say(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* nothing to wait for */
    h1_open(&c);
    h1_say(&c, "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n");
    h1_check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_close(&c);
    c = (struct h1_case){0};
    h1_open(&c);
    h1_say(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n");
    assert_memory_equal(h1_text(&c.sent), "HTTP/1.1 417 Expectation Failed\r\n", 33);
    assert_string_equal(as_h1_breach(c.h), "expect is not 100-continue");
    h1_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_and_pieces_in_order),
        cmocka_unit_test(test_invalid_fields_are_left_out),
        cmocka_unit_test(test_send_stops_at_max),
        cmocka_unit_test(test_answers_without_a_body),
        cmocka_unit_test(test_head_has_the_length_and_no_body),
        cmocka_unit_test(test_a_streamed_answer_is_sent_in_chunks),
        cmocka_unit_test(test_a_streamed_answer_of_known_length),
        cmocka_unit_test(test_a_streamed_answer_that_is_cut),
        cmocka_unit_test(test_on_drained_is_called_when_there_is_room),
        cmocka_unit_test(test_the_next_request_waits_for_the_answer),
        cmocka_unit_test(test_a_body_is_received_into_its_buffer),
        cmocka_unit_test(test_a_buffer_may_be_smaller_than_the_body),
        cmocka_unit_test(test_a_chunked_body_has_no_buffer),
        cmocka_unit_test(test_unconsumed_bytes_stop_reading),
        cmocka_unit_test(test_100_continue_is_sent),
        cmocka_unit_test(test_100_continue_is_not_sent_after_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
