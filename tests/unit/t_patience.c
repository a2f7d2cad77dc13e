/* Specification of edge/patience: when an answer that waits for its client is given up. Time is the
 * argument of the sweeps; the client takes what h1_take takes. */
#include "edge/patience.h"

#include "h1_case.h"

#define GET     "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define TIMEOUT (10 * AS_SEC)
#define LEAST   1000u /* min_progress */
/* From the answer to the first look, and from a look to the next: a sweep late each. */
#define FIRST  2
#define SECOND 11

static const struct as_log quiet = {.level = AS_LOG_ERROR};
static struct as_edge e;
static struct as_conn conn;
static struct as_exchange *x;
static struct h1_case client;
static struct as_blob *bytes;
static as_ns at; /* the last sweep */

static void nothing(struct as_task *t AS_UNUSED)
{
}

static int setup(void **state AS_UNUSED)
{
    at = 1000 * AS_SEC;
    e = (struct as_edge){.log = &quiet,
                         .swept = at,
                         .sweep_every = AS_SEC,
                         .conf = {.send_timeout = TIMEOUT, .min_progress = LEAST}};
    as_loop_new(&e.loop, 0);
    as_patience_init(&e);
    client = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&client);
    h1_feed(&client, GET, sizeof(GET) - 1, SIZE_MAX);
    conn = (struct as_conn){.edge = &e, .h1 = client.h};
    as_task_init(&conn.flush, nothing);
    x = calloc(1, sizeof(*x));
    x->edge = &e;
    x->conn = &conn;
    x->stream = client.stream;
    as_list_init(&x->patience);
    bytes = as_blob_new(100 * LEAST);
    memset(bytes->data, 'x', bytes->n);
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    as_patience_stop(x);
    free(x);
    as_task_cancel(&conn.flush);
    h1_close(&client);
    as_blob_unref(bytes);
    as_loop_free(e.loop);
    return 0;
}

static void sweep(unsigned seconds)
{
    while (seconds--)
        as_patience_sweep(&e, at += AS_SEC);
}

static void write_bytes(size_t n)
{
    as_h1_write(client.h, client.stream, &(struct as_http_piece){bytes->data, n, bytes});
}

/* An answer over time of which n bytes wait, after the first look. */
static void begin(size_t n)
{
    as_h1_begin(client.h, client.stream, &(struct as_http_answer){.status = 200});
    h1_take(&client, SIZE_MAX); /* its head */
    as_patience_answer(x);
    if (n)
        write_bytes(n);
    sweep(FIRST);
}

static bool is_given_up(void)
{
    assert_int_equal(e.stat.slow_answers, as_list_empty(&x->patience));
    return e.stat.slow_answers;
}

static void test_an_open_answer_of_which_nothing_waits_is_waited_for(void **state AS_UNUSED)
{
    begin(0);
    for (int i = 0; i < 20; i++) {
        sweep(SECOND);
        write_bytes(1);
        h1_take(&client, SIZE_MAX);
    }
    assert_false(is_given_up());
}

static void test_one_that_nobody_takes_is_given_up_in_time(void **state AS_UNUSED)
{
    begin(1);
    sweep(SECOND - 1);
    assert_false(is_given_up());
    sweep(1);
    assert_true(is_given_up());
    assert_true(as_task_is_due(&conn.flush));
    assert_int_equal(h1_take(&client, SIZE_MAX), AS_EPROTO); /* it was reset */
}

static void test_one_that_stops_late_is_given_up_as_well(void **state AS_UNUSED)
{
    begin(0);
    sweep(100);
    write_bytes(1);
    sweep(FIRST + SECOND);
    assert_true(is_given_up());
}

static void test_the_least_that_must_move(void **state AS_UNUSED)
{
    begin(50 * LEAST);
    for (int i = 0; i < 10; i++) {
        h1_take(&client, LEAST);
        sweep(SECOND);
    }
    assert_false(is_given_up());
    h1_take(&client, LEAST - 1);
    sweep(SECOND);
    assert_true(is_given_up());
}

static void test_all_that_waited_is_enough(void **state AS_UNUSED)
{
    begin(10);
    for (int i = 0; i < 10; i++) {
        h1_take(&client, 10);
        write_bytes(10);
        sweep(SECOND);
    }
    assert_false(is_given_up());
    h1_take(&client, 9);
    sweep(SECOND);
    assert_true(is_given_up());
}

static void test_what_is_written_is_no_progress(void **state AS_UNUSED)
{
    begin(LEAST);
    write_bytes(10 * LEAST);
    sweep(SECOND);
    assert_true(is_given_up());
}

static void test_a_whole_answer(void **state AS_UNUSED)
{
    struct as_http_piece body = {bytes->data, bytes->n, bytes};

    as_h1_answer(client.h, client.stream,
                 &(struct as_http_answer){.status = 200, .body = &body, .n_body = 1});
    as_patience_answer(x);
    sweep(FIRST);
    for (int i = 0; i < 5; i++) {
        h1_take(&client, LEAST); /* the first time the head goes with it */
        sweep(SECOND);
    }
    assert_false(is_given_up());
    sweep(SECOND);
    assert_true(is_given_up());
}

static void test_without_a_timeout_all_are_waited_for(void **state AS_UNUSED)
{
    e.conf.send_timeout = 0;
    begin(100 * LEAST);
    sweep(1000);
    assert_false(is_given_up());
}

static void test_sweeps_are_as_often_as_the_shortest_timeout_needs(void **state AS_UNUSED)
{
    struct as_edge_conf conf = {0};
    as_ns *const timeouts[] = {&conf.header_timeout,    &conf.idle_timeout, &conf.keepalive_time,
                               &conf.keepalive_timeout, &conf.body_timeout, &conf.send_timeout};

    assert_int_equal(as_patience_every(&conf), AS_PATIENCE_MOST); /* all are off */
    for (size_t i = 0; i < AS_COUNT(timeouts); i++) {
        *timeouts[i] = 4 * AS_PATIENCE_MOST;
        assert_int_equal(as_patience_every(&conf), AS_PATIENCE_MOST);
        *timeouts[i] -= 4;
        assert_int_equal(as_patience_every(&conf), AS_PATIENCE_MOST - 1);
        *timeouts[i] = 4 * AS_PATIENCE_LEAST + 4;
        assert_int_equal(as_patience_every(&conf), AS_PATIENCE_LEAST + 1);
        *timeouts[i] = 1;
        assert_int_equal(as_patience_every(&conf), AS_PATIENCE_LEAST);
        *timeouts[i] = 0;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_open_answer_of_which_nothing_waits_is_waited_for),
        TEST(test_one_that_nobody_takes_is_given_up_in_time),
        TEST(test_one_that_stops_late_is_given_up_as_well),
        TEST(test_the_least_that_must_move),
        TEST(test_all_that_waited_is_enough),
        TEST(test_what_is_written_is_no_progress),
        TEST(test_a_whole_answer),
        TEST(test_without_a_timeout_all_are_waited_for),
        TEST(test_sweeps_are_as_often_as_the_shortest_timeout_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
