/* Specification of wire/h1: answers, whole and over time; bodies with a place; early ends. */
#include "h1_case.h"

#define GET     "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define POST(n) "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " #n "\r\n\r\n"

static size_t feed(struct h1_case *c, const char *z)
{
    return h1_feed(c, z, strlen(z), strlen(z));
}

static void check_sent(struct h1_case *c, const char *want)
{
    assert_string_equal(h1_text(&c->sent), want);
    c->sent.n = 0;
}

static void check_seen(struct h1_case *c, const char *want)
{
    assert_string_equal(h1_text(&c->seen), want);
    c->seen.n = 0;
}

static struct as_blob *blob_of(const char *z, size_t n)
{
    struct as_blob *b = as_blob_new(n);

    assert_non_null(b);
    memcpy(b->data, z, n);
    return b;
}

static void answer(struct h1_case *c, uint32_t status)
{
    as_h1_answer(c->h, c->stream, &(struct as_http_answer){.status = status});
}

/* --- whole answers --- */

static void test_headers_and_pieces_in_order(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = blob_of("large", 5);
    struct as_http_header h[] = {{AS_STR("a"), AS_STR("b")},
                                 {AS_STR("content-length"), AS_STR("99")}, /* we know better */
                                 {AS_STR("transfer-encoding"), AS_STR("x")},
                                 {AS_STR("c"), AS_STR("d\r\ne\x7f\0")}};
    struct as_http_piece p[] = {{(const uint8_t *)"small", 5, NULL}, {b->data, 5, b}};

    (void)state;
    h1_open(&c);
    feed(&c, GET);
    as_h1_answer(c.h, 1,
                 &(struct as_http_answer){
                     .status = 404, .headers = h, .n_headers = 4, .body = p, .n_body = 2});
    assert_int_equal(as_h1_unsent(c.h, 1) > 10, true);
    as_h1_answer(c.h, 1, &(struct as_http_answer){.status = 500}); /* a second one is ignored */
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 404 Not Found\r\na: b\r\nc: d  e  \r\ncontent-length: 10\r\n\r\n"
                   "smalllarge");
    assert_int_equal(as_h1_unsent(c.h, 1), 0);
    assert_false(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

/* Pieces beyond those that lie in the connection; given out in small portions. */
static void test_no_more_than_asked_for_is_given_out(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_http_piece p[40];

    (void)state;
    for (size_t i = 0; i < AS_COUNT(p); i++)
        p[i] = (struct as_http_piece){(const uint8_t *)"0123456789", 10, NULL};
    h1_open(&c);
    feed(&c, GET);
    as_h1_answer(c.h, 1, &(struct as_http_answer){.status = 200, .body = p, .n_body = AS_COUNT(p)});
    h1_take(&c, 1);
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n");
    for (int i = 0; i < 57; i++) {
        assert_true(as_h1_wants_write(c.h));
        h1_take(&c, 7);
    }
    assert_int_equal(c.sent.n, 399);
    check_seen(&c, "GET / host=h {}");
    h1_take(&c, 7);
    assert_int_equal(c.sent.n, 400);
    check_seen(&c, "~");
    assert_false(as_h1_wants_write(c.h));
    h1_close(&c);
}

static void test_answers_without_a_body(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    feed(&c, GET);
    answer(&c, 204);
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 204 No Content\r\n\r\n");
    feed(&c, GET);
    answer(&c, 299); /* a status without a name */
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 299 \r\ncontent-length: 0\r\n\r\n");
    h1_close(&c);
}

static void test_head_has_the_length_and_no_body(void **state)
{
    const struct as_http_header said[] = {{AS_STR("content-length"), AS_STR("77")}};
    struct h1_case c = {0};
    struct as_blob *b = blob_of("x", 1);

    (void)state;
    h1_open(&c);
    feed(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n");
    c.ends_answer_nothing = true;
    feed(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    as_h1_answer(c.h, 2, &(struct as_http_answer){.status = 200, .headers = said, .n_headers = 1});
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 77\r\n\r\n");
    feed(&c, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    as_h1_begin(c.h, 3, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 3, &(struct as_http_piece){b->data, 1, b});
    as_h1_finish(c.h, 3);
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    assert_false(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

/* --- over time --- */

static void test_an_answer_over_time_goes_out_in_chunks(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = blob_of("0123456789abcdefghij", 20);

    (void)state;
    h1_open(&c);
    feed(&c, GET GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 10, b});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data + 10, 10, b}); /* one chunk with it */
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "14\r\n0123456789abcdefghij\r\n");
    assert_int_equal(c.drained, 1);
    assert_int_equal(atomic_load(&b->refs), 1);
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b});
    as_h1_finish(c.h, 1);
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b}); /* too late */
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "1\r\n0\r\n0\r\n\r\n");
    check_seen(&c, "GET / host=h {}~");
    assert_int_equal(atomic_load(&b->refs), 1);
    assert_true(as_h1_wants_read(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

static void test_who_writes_much_hears_when_there_is_room(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = as_blob_new(100000);
    size_t all;

    (void)state;
    memset(b->data, 'x', b->n);
    h1_open(&c);
    feed(&c, GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    for (int i = 0; i < 20; i++)
        as_h1_write(c.h, 1, &(struct as_http_piece){b->data, b->n, b});
    all = as_h1_unsent(c.h, 1);
    assert_true(all > 2000000); /* with the head */
    assert_int_equal(as_h1_sent(c.h), 0);
    while (as_h1_unsent(c.h, 1) > 65536) {
        assert_int_equal(c.drained, 0);
        h1_take(&c, 50000);
        assert_int_equal(as_h1_sent(c.h), all - as_h1_unsent(c.h, 1));
    }
    assert_int_equal(c.drained, 1);
    h1_close(&c); /* with pieces that wait */
    assert_int_equal(atomic_load(&b->refs), 1);
    as_blob_unref(b);
}

static void test_a_reset_ends_the_connection_and_not_the_answer(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};
    struct as_blob *b = blob_of("x", 1);

    (void)state;
    h1_open(&c);
    feed(&c, GET);
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 1, b});
    as_h1_reset(c.h, 1);
    check_seen(&c, "GET / host=h {}"); /* not from within the call */
    assert_true(as_h1_wants_write(c.h));
    assert_int_equal(h1_take(&c, SIZE_MAX), AS_EPROTO);
    check_seen(&c, "~8");
    check_sent(&c, "");
    assert_int_equal(atomic_load(&b->refs), 1);
    as_blob_unref(b);
    h1_close(&c);
}

/* --- HTTP/1.0, and who says close --- */

static void test_http_1_0_is_served_and_closed(void **state)
{
    struct h1_case c = {0};
    struct as_blob *b = blob_of("xyz", 3);

    (void)state;
    h1_open(&c);
    feed(&c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: x\r\n\r\n");
    check_seen(&c, "GET / host= expect=x {}~");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    assert_null(as_h1_breach(c.h));
    h1_close(&c);
    /* over time: it knows no chunks */
    c = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&c);
    feed(&c, "GET / HTTP/1.0\r\n\r\n");
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    as_h1_write(c.h, 1, &(struct as_http_piece){b->data, 3, b});
    as_h1_finish(c.h, 1);
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nxyz");
    assert_true(as_h1_done(c.h));
    as_blob_unref(b);
    h1_close(&c);
}

static void test_a_client_that_says_close(void **state)
{
    static const char *const said[] = {"close", "CLOSE", "x, close", "close,x", "x ,\tclose "};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(said); i++) {
        struct h1_case c = {0};
        char head[100];

        snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: h\r\nConnection: %s\r\n\r\n",
                 said[i]);
        h1_open(&c);
        feed(&c, head);
        check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        assert_true(as_h1_done(c.h));
        h1_close(&c);
    }
}

/* Where the connection may go on in another as_h1: between two requests, and nowhere else. */
static void test_rest(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    assert_true(as_h1_rests(c.h));
    assert_false(as_h1_greeted(c.h));
    feed(&c, "G");
    assert_false(as_h1_rests(c.h));
    feed(&c, &GET[1]);
    assert_false(as_h1_rests(c.h)); /* a handler works on it */
    h1_ok(&c);
    assert_false(as_h1_rests(c.h)); /* the answer is not out */
    h1_take(&c, SIZE_MAX);
    assert_true(as_h1_rests(c.h));
    h1_close(&c);
    c = (struct h1_case){.null_request = true}; /* the rest of a body is forgotten */
    h1_open(&c);
    feed(&c, POST(5) "01");
    h1_take(&c, SIZE_MAX);
    assert_false(as_h1_rests(c.h));
    feed(&c, "234");
    assert_true(as_h1_rests(c.h));
    as_h1_shutdown_notice(c.h); /* the client will be told that it ends here */
    assert_false(as_h1_rests(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* the other one knows that requests have come */
    h1_open(&c);
    as_h1_resume(c.h);
    assert_true(as_h1_greeted(c.h) && as_h1_rests(c.h));
    h1_close(&c);
}

static void test_graceful_end(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c); /* nothing under way */
    feed(&c, GET);
    h1_ok(&c);
    h1_take(&c, SIZE_MAX);
    as_h1_shutdown_notice(c.h);
    assert_false(as_h1_done(c.h));
    as_h1_shutdown_final(c.h);
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){.ends_answer_nothing = true}; /* a request waits */
    h1_open(&c);
    feed(&c, GET);
    as_h1_shutdown_notice(c.h);
    as_h1_shutdown_final(c.h);
    assert_false(as_h1_done(c.h));
    h1_ok(&c);
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* one comes after the notice; half of it before the end */
    h1_open(&c);
    as_h1_shutdown_notice(c.h);
    feed(&c, "GET / HTTP/1.1\r\n");
    as_h1_shutdown_final(c.h);
    assert_false(as_h1_done(c.h));
    feed(&c, "Host: h\r\n\r\n");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
}

/* --- pipelining --- */

static void test_the_next_request_waits_for_the_answer(void **state)
{
    struct h1_case c = {.ends_answer_nothing = true};

    (void)state;
    h1_open(&c);
    assert_int_equal(feed(&c, GET GET), sizeof(GET) - 1);
    assert_false(as_h1_wants_read(c.h));
    h1_ok(&c);
    assert_false(as_h1_wants_read(c.h)); /* it is not out */
    h1_take(&c, SIZE_MAX);
    assert_true(as_h1_wants_read(c.h));
    feed(&c, GET);
    check_seen(&c, "GET / host=h {}~GET / host=h {}");
    h1_close(&c);
}

/* --- bodies --- */

static void test_a_body_goes_to_its_place(void **state)
{
    uint8_t place[10] = {0}, *p;
    struct h1_case c = {.place = place, .place_n = 10};
    size_t n;

    (void)state;
    h1_open(&c);
    assert_false(as_h1_direct(c.h, &p, &n));
    feed(&c, POST(10) "012");
    assert_memory_equal(place, "012", 3);
    assert_true(as_h1_direct(c.h, &p, &n));
    assert_ptr_equal(p, place + 3);
    assert_int_equal(n, 7);
    memcpy(p, "3456", 4);
    assert_int_equal(as_h1_landed(c.h, 4, AS_SEC), 0);
    check_seen(&c, "POST / host=h content-length=10 {0123456");
    assert_true(as_h1_direct(c.h, &p, &n));
    memcpy(p, "789", 3);
    assert_int_equal(as_h1_landed(c.h, 3, AS_SEC), 0);
    assert_false(as_h1_direct(c.h, &p, &n));
    h1_take(&c, SIZE_MAX);
    check_seen(&c, "789}~");
    assert_memory_equal(place, "0123456789", 10);
    h1_close(&c);
}

/* The place is for the first bytes; the rest comes as it lies. */
static void test_a_place_may_be_smaller_than_the_body(void **state)
{
    uint8_t place[4];
    struct h1_case c = {.place = place, .place_n = 4};

    (void)state;
    h1_open(&c);
    feed(&c, POST(10) "0123456789");
    check_seen(&c, "POST / host=h content-length=10 {0123456789}~");
    assert_memory_equal(place, "0123", 4);
    h1_close(&c);
}

static void test_a_body_in_chunks_has_no_place(void **state)
{
    uint8_t place[4], *p;
    struct h1_case c = {.place = place, .place_n = 4, .place_at = 4};
    size_t n;

    (void)state;
    h1_open(&c);
    feed(&c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab");
    assert_false(as_h1_direct(c.h, &p, &n));
    check_seen(&c, "POST / host=h {ab");
    h1_close(&c);
}

static void test_an_owner_that_reads_slowly_is_not_flooded(void **state)
{
    struct h1_case c = {.keeps = true};
    char body[101];

    (void)state;
    memset(body, 'x', sizeof(body));
    h1_open(&c);
    feed(&c, POST(300));
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

static void test_who_waits_is_told_to_continue(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    feed(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
    check_sent(&c, "HTTP/1.1 100 Continue\r\n\r\n");
    feed(&c, "x" GET);
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
                   "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_close(&c);
}

static void test_who_is_refused_is_not(void **state)
{
    struct h1_case c = {.null_request = true};

    (void)state;
    h1_open(&c);
    feed(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0}; /* nothing to wait for */
    h1_open(&c);
    feed(&c, "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    h1_close(&c);
    c = (struct h1_case){0};
    h1_open(&c);
    feed(&c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\n");
    assert_memory_equal(h1_text(&c.sent), "HTTP/1.1 417 Expectation Failed\r\n", 33);
    assert_string_equal(as_h1_breach(c.h), "expect is other than 100-continue");
    h1_close(&c);
}

/* --- answers before the request is whole --- */

static void test_a_little_of_a_body_that_nobody_wants_is_read(void **state)
{
    struct h1_case c = {.null_request = true};

    (void)state;
    h1_open(&c);
    feed(&c, POST(5) "01");
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    c.null_request = false;
    feed(&c, "234" GET);
    check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    check_seen(&c, "POST / host=h content-length=5 {GET / host=h {}~");
    /* while it is being forgotten the server may end */
    c.null_request = true;
    feed(&c, POST(5) "01");
    as_h1_shutdown_final(c.h);
    assert_true(as_h1_done(c.h));
    h1_close(&c);
}

static void test_much_of_it_is_not(void **state)
{
    static const char *const heads[] = {
        POST(65537), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(heads); i++) {
        struct h1_case c = {.null_request = true};

        h1_open(&c);
        feed(&c, heads[i]);
        check_sent(&c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
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
        feed(&c, POST(5) "01");
        answer(&c, i ? 408 : 413);
        h1_take(&c, SIZE_MAX);
        assert_non_null(strstr(h1_text(&c.sent), "connection: close\r\n"));
        assert_true(as_h1_done(c.h));
        h1_close(&c);
    }
}

/* The answer is given, so that a fault behind it has nobody to be told to. */
static void test_a_fault_behind_the_answer_only_closes(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    feed(&c, GET);
    c.sent.n = 0;
    feed(&c, "GET / HTTP/9.9\r\n");
    assert_memory_equal(h1_text(&c.sent), "HTTP/1.1 505", 12); /* this one is a request's own */
    h1_close(&c);
    c = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&c);
    feed(&c, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx");
    as_h1_begin(c.h, 1, &(struct as_http_answer){.status = 200});
    feed(&c, "zz");
    assert_int_equal(h1_take(&c, SIZE_MAX), AS_EPROTO); /* a half answer is not ended as if whole */
    check_seen(&c, "POST / host=h {x~1");
    h1_close(&c);
}

static void test_a_slow_head_is_answered(void **state)
{
    struct h1_case c = {0};

    (void)state;
    h1_open(&c);
    assert_int_equal(as_h1_head_since(c.h), AS_NEVER);
    assert_false(as_h1_greeted(c.h));
    feed(&c, "GET / HT");
    assert_int_equal(as_h1_head_since(c.h), AS_SEC);
    as_h1_refuse(c.h, 408, "slow");
    h1_take(&c, SIZE_MAX);
    check_sent(&c, "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\n"
                   "content-length: 16\r\nconnection: close\r\n\r\n{\"error\":\"slow\"}");
    assert_true(as_h1_done(c.h));
    h1_close(&c);
    c = (struct h1_case){0};
    h1_open(&c);
    feed(&c, GET);
    assert_int_equal(as_h1_head_since(c.h), AS_NEVER);
    assert_true(as_h1_greeted(c.h));
    h1_close(&c);
}

/* A client that goes in any state: its request, if there is one, is closed once. */
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
        cmocka_unit_test(test_headers_and_pieces_in_order),
        cmocka_unit_test(test_no_more_than_asked_for_is_given_out),
        cmocka_unit_test(test_answers_without_a_body),
        cmocka_unit_test(test_head_has_the_length_and_no_body),
        cmocka_unit_test(test_an_answer_over_time_goes_out_in_chunks),
        cmocka_unit_test(test_who_writes_much_hears_when_there_is_room),
        cmocka_unit_test(test_a_reset_ends_the_connection_and_not_the_answer),
        cmocka_unit_test(test_http_1_0_is_served_and_closed),
        cmocka_unit_test(test_a_client_that_says_close),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_graceful_end),
        cmocka_unit_test(test_the_next_request_waits_for_the_answer),
        cmocka_unit_test(test_a_body_goes_to_its_place),
        cmocka_unit_test(test_a_place_may_be_smaller_than_the_body),
        cmocka_unit_test(test_a_body_in_chunks_has_no_place),
        cmocka_unit_test(test_an_owner_that_reads_slowly_is_not_flooded),
        cmocka_unit_test(test_who_waits_is_told_to_continue),
        cmocka_unit_test(test_who_is_refused_is_not),
        cmocka_unit_test(test_a_little_of_a_body_that_nobody_wants_is_read),
        cmocka_unit_test(test_much_of_it_is_not),
        cmocka_unit_test(test_a_body_that_stopped_or_is_too_large_ends_the_connection),
        cmocka_unit_test(test_a_fault_behind_the_answer_only_closes),
        cmocka_unit_test(test_a_slow_head_is_answered),
        cmocka_unit_test(test_the_end_may_come_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
