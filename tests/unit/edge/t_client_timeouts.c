/* Specification of edge/exchange/client_timeouts: when a stalled request or answer fails, and which
 * ones are evicted from a full budget. Time is the argument of the sweeps; the client reads what
 * the test harness takes from the connection. */
#include "edge/exchange/client_timeouts.h"

#include "h1_case.h"

#define GET     "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
#define TIMEOUT (10 * AS_SEC)
#define LEAST   1000u /* min_progress */
/* Sweeps from the answer to the first check, and from a check to the next: one sweep late each. */
#define FIRST  2
#define SECOND 11
#define LIMIT  1000u /* of each budget; one account may hold half of it */

static const struct as_log quiet = {.level = AS_LOG_ERROR};
static struct as_edge e;
static struct as_conn conn;
static struct as_exchange *x;
static struct h1_case client;
static struct as_blob *bytes;
static struct as_edge_budgets budgets;
static struct as_account *other; /* of both budgets: another connection */
static as_ns at;                 /* the last sweep */

static void nothing(struct as_task *t AS_UNUSED)
{
}

static int setup(void **state AS_UNUSED)
{
    at = 1000 * AS_SEC;
    budgets =
        (struct as_edge_budgets){{.limit = LIMIT, .share = 50}, {.limit = LIMIT, .share = 50}};
    e = (struct as_edge){
        .log = &quiet,
        .budgets = &budgets,
        .last_sweep = at,
        .sweep_every = AS_SEC,
        .conf = {.body_timeout = TIMEOUT, .send_timeout = TIMEOUT, .min_progress = LEAST}};
    as_loop_new(&e.loop, 0);
    as_client_timeouts_init(&e);
    client = (struct h1_case){.ends_answer_nothing = true};
    h1_open(&client);
    h1_feed(&client, GET, sizeof(GET) - 1, SIZE_MAX);
    conn = (struct as_conn){.edge = &e, .protocol = &as_conn_h1, .h1 = {.session = client.h}};
    as_task_init(&conn.flush, nothing);
    x = calloc(1, sizeof(*x));
    x->edge = &e;
    x->kind = &as_exchange_http;
    x->conn = &conn;
    x->stream = client.stream;
    x->budget.requests = conn.requests = as_account_new(&budgets.requests);
    x->budget.answers = conn.answers = as_account_new(&budgets.answers);
    as_list_init(&x->progress.node);
    bytes = as_blob_new(100 * LEAST);
    memset(bytes->data, 'x', bytes->n);
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    as_client_timeouts_stop(x);
    as_account_uncharge(x->budget.requests, as_account_charged(x->budget.requests));
    as_account_uncharge(x->budget.answers, as_account_charged(x->budget.answers));
    as_account_unref(x->budget.requests);
    as_account_unref(x->budget.answers);
    free(x);
    as_task_cancel(&conn.flush);
    h1_close(&client);
    as_blob_unref(bytes);
    as_loop_free(e.loop);
    return 0;
}

static void sweep(unsigned seconds)
{
    while (seconds--) {
        as_client_timeouts_begin_sweep(&e);
        as_client_timeouts_sweep(&e, at += AS_SEC);
    }
}

/* The budget refuses a charge of another account. */
static void refuse_charge(struct as_budget *b)
{
    other = as_account_new(b);
    assert_false(as_account_try_charge(other, LIMIT + 1));
    as_account_unref(other);
}

static void write_bytes(size_t n)
{
    as_h1_write(client.h, client.stream, &(struct as_http_piece){bytes->data, n, bytes});
}

/* An answer in parts, of which n bytes wait, after the first check. */
static void begin(size_t n)
{
    as_h1_begin(client.h, client.stream, &(struct as_http_answer){.status = 200});
    h1_take(&client, SIZE_MAX); /* its head */
    as_client_timeouts_start_answer(x);
    if (n)
        write_bytes(n);
    sweep(FIRST);
}

static bool was_reset(void)
{
    assert_int_equal(e.stat.slow_answers, as_list_empty(&x->progress.node));
    return e.stat.slow_answers;
}

static void test_an_open_answer_without_output_is_not_reset(void **state AS_UNUSED)
{
    begin(0);
    for (int i = 0; i < 20; i++) {
        sweep(SECOND);
        write_bytes(1);
        h1_take(&client, SIZE_MAX);
    }
    assert_false(was_reset());
}

static void test_an_answer_that_is_not_read_is_reset_in_time(void **state AS_UNUSED)
{
    begin(1);
    sweep(SECOND - 1);
    assert_false(was_reset());
    sweep(1);
    assert_true(was_reset());
    assert_true(as_task_is_pending(&conn.flush));
    assert_int_equal(h1_take(&client, SIZE_MAX), AS_EPROTO); /* it was reset */
}

static void test_an_answer_that_stalls_late_is_reset_as_well(void **state AS_UNUSED)
{
    begin(0);
    sweep(100);
    write_bytes(1);
    sweep(FIRST + SECOND);
    assert_true(was_reset());
}

static void test_min_progress_is_exact(void **state AS_UNUSED)
{
    begin(50 * LEAST);
    for (int i = 0; i < 10; i++) {
        h1_take(&client, LEAST);
        sweep(SECOND);
    }
    assert_false(was_reset());
    h1_take(&client, LEAST - 1);
    sweep(SECOND);
    assert_true(was_reset());
}

static void test_sending_all_that_waited_is_enough(void **state AS_UNUSED)
{
    begin(10);
    for (int i = 0; i < 10; i++) {
        h1_take(&client, 10);
        write_bytes(10);
        sweep(SECOND);
    }
    assert_false(was_reset());
    h1_take(&client, 9);
    sweep(SECOND);
    assert_true(was_reset());
}

static void test_writing_is_not_progress(void **state AS_UNUSED)
{
    begin(LEAST);
    write_bytes(10 * LEAST);
    sweep(SECOND);
    assert_true(was_reset());
}

static void test_a_whole_answer(void **state AS_UNUSED)
{
    struct as_http_piece body = {bytes->data, bytes->n, bytes};

    as_h1_answer(client.h, client.stream,
                 &(struct as_http_answer){.status = 200, .body = &body, .n_body = 1});
    as_client_timeouts_start_answer(x);
    sweep(FIRST);
    for (int i = 0; i < 5; i++) {
        h1_take(&client, LEAST); /* the first time the head goes with it */
        sweep(SECOND);
    }
    assert_false(was_reset());
    sweep(SECOND);
    assert_true(was_reset());
}

static void test_without_a_timeout_nothing_is_reset(void **state AS_UNUSED)
{
    e.conf.send_timeout = 0;
    begin(100 * LEAST);
    sweep(1000);
    assert_false(was_reset());
}

/* --- a full budget --- */

/* Reads min_progress in time, but too slowly for the whole answer. */
static void read_slowly(unsigned seconds)
{
    while (seconds--) {
        h1_take(&client, LEAST);
        sweep(1);
    }
}

static void test_a_slow_answer_is_evicted_from_a_full_budget(void **state AS_UNUSED)
{
    assert_true(as_account_try_charge(x->budget.answers, LIMIT / 2));
    begin(90 * LEAST);
    read_slowly(50);
    assert_false(was_reset()); /* the budgets have room */
    refuse_charge(&budgets.answers);
    read_slowly(1);
    assert_true(was_reset());
}

static void test_an_account_that_holds_little_is_not_evicted(void **state AS_UNUSED)
{
    assert_true(as_account_try_charge(x->budget.answers, LIMIT / 3));
    begin(90 * LEAST);
    read_slowly(5);
    refuse_charge(&budgets.answers);
    read_slowly(1);
    assert_false(was_reset());
    assert_true(as_account_try_charge(x->budget.answers, 1)); /* more than half of what is free */
    refuse_charge(&budgets.answers);
    read_slowly(1);
    assert_true(was_reset());
}

static void test_a_full_request_budget_does_not_evict_answers(void **state AS_UNUSED)
{
    assert_true(as_account_try_charge(x->budget.answers, LIMIT / 2));
    begin(90 * LEAST);
    read_slowly(5);
    refuse_charge(&budgets.requests);
    read_slowly(5);
    assert_false(was_reset());
}

static void test_an_answer_that_is_read_in_time_is_not_evicted(void **state AS_UNUSED)
{
    assert_true(as_account_try_charge(x->budget.answers, LIMIT / 2));
    begin(50 * LEAST);
    for (int i = 0; i < 8; i++) { /* in TIMEOUT, less one sweep, by which the start may be late */
        refuse_charge(&budgets.answers);
        h1_take(&client, 6 * LEAST);
        sweep(1);
    }
    assert_false(was_reset());
}

static void test_a_pace_is_known_after_a_second(void **state AS_UNUSED)
{
    assert_true(as_account_try_charge(x->budget.answers, LIMIT / 2));
    begin(50 * LEAST);
    refuse_charge(&budgets.answers);
    sweep(1);
    assert_false(was_reset());
    refuse_charge(&budgets.answers);
    sweep(1);
    assert_true(was_reset());
}

static void test_the_pace_in_numbers(void **state AS_UNUSED)
{
    static const struct {
        as_ns time;
        uint64_t moved, left;
        bool slow;
    } rows[] = {
        {2 * AS_SEC - 1, 0, 1000, false}, /* less than a second and a sweep */
        {2 * AS_SEC, 0, 1, true},
        {2 * AS_SEC, 0, 0, false},
        {2 * AS_SEC, 100, 1000, false}, /* ten seconds */
        {2 * AS_SEC, 100, 1001, true},
        {11 * AS_SEC, 100, 100, false},
        {11 * AS_SEC, 100, 101, true},
        {11 * AS_SEC, (uint64_t)1 << 40, (uint64_t)1 << 40, false},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        assert_int_equal(
            as_client_timeouts_is_slow(&e, rows[i].time, rows[i].moved, rows[i].left, TIMEOUT),
            rows[i].slow);
    assert_false(as_client_timeouts_is_slow(&e, 100 * AS_SEC, 0, 1000, 0)); /* off */
}

static void test_a_connection_that_reads_nothing(void **state AS_UNUSED)
{
    assert_int_equal(as_conn_output_timeout(&conn), TIMEOUT);
    assert_true(as_account_try_charge(conn.answers, LIMIT / 2));
    refuse_charge(&budgets.answers);
    as_client_timeouts_begin_sweep(&e);
    assert_int_equal(as_conn_output_timeout(&conn), AS_SEC);
    e.conf.send_timeout = 0;
    assert_int_equal(as_conn_output_timeout(&conn), 0);
    e.conf.send_timeout = AS_MS;
    assert_int_equal(as_conn_output_timeout(&conn), AS_MS);
    e.conf.send_timeout = TIMEOUT;
    as_client_timeouts_begin_sweep(&e); /* no refusals since */
    assert_int_equal(as_conn_output_timeout(&conn), TIMEOUT);
}

static void test_the_sweep_interval_follows_the_shortest_timeout(void **state AS_UNUSED)
{
    struct as_edge_conf conf = {0};
    as_ns *const timeouts[] = {&conf.header_timeout,    &conf.idle_timeout, &conf.keepalive_time,
                               &conf.keepalive_timeout, &conf.body_timeout, &conf.send_timeout};

    assert_int_equal(as_client_timeouts_sweep_interval(&conf),
                     AS_CLIENT_TIMEOUTS_SWEEP_MAX); /* all are off */
    for (size_t i = 0; i < AS_COUNT(timeouts); i++) {
        *timeouts[i] = 4 * AS_CLIENT_TIMEOUTS_SWEEP_MAX;
        assert_int_equal(as_client_timeouts_sweep_interval(&conf), AS_CLIENT_TIMEOUTS_SWEEP_MAX);
        *timeouts[i] -= 4;
        assert_int_equal(as_client_timeouts_sweep_interval(&conf),
                         AS_CLIENT_TIMEOUTS_SWEEP_MAX - 1);
        *timeouts[i] = 4 * AS_CLIENT_TIMEOUTS_SWEEP_MIN + 4;
        assert_int_equal(as_client_timeouts_sweep_interval(&conf),
                         AS_CLIENT_TIMEOUTS_SWEEP_MIN + 1);
        *timeouts[i] = 1;
        assert_int_equal(as_client_timeouts_sweep_interval(&conf), AS_CLIENT_TIMEOUTS_SWEEP_MIN);
        *timeouts[i] = 0;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_open_answer_without_output_is_not_reset),
        TEST(test_an_answer_that_is_not_read_is_reset_in_time),
        TEST(test_an_answer_that_stalls_late_is_reset_as_well),
        TEST(test_min_progress_is_exact),
        TEST(test_sending_all_that_waited_is_enough),
        TEST(test_writing_is_not_progress),
        TEST(test_a_whole_answer),
        TEST(test_without_a_timeout_nothing_is_reset),
        TEST(test_a_slow_answer_is_evicted_from_a_full_budget),
        TEST(test_an_account_that_holds_little_is_not_evicted),
        TEST(test_a_full_request_budget_does_not_evict_answers),
        TEST(test_an_answer_that_is_read_in_time_is_not_evicted),
        TEST(test_a_pace_is_known_after_a_second),
        TEST(test_the_pace_in_numbers),
        TEST(test_a_connection_that_reads_nothing),
        TEST(test_the_sweep_interval_follows_the_shortest_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
