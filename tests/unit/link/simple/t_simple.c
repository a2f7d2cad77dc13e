/* link/simple: requests, answers, and which request an answer belongs to. */
#include "simple_world.h"

/* --- requests and answers --- */

static void test_a_request_and_its_answer(void **state AS_UNUSED)
{
    struct hand h;
    struct call c;
    struct taken t;

    begin_with(usual());
    hand_open(&h, "a");
    hand_join(&h, false);
    assert_true(as_fleet_deployment_ready(w.fleet, model()->deployment));
    hand_accept(&h, 0);
    submit_as(&c, 7, "client-1", 0);
    hand_take(&h, 0, &t);
    assert_true(as_str_eq(t.r.model, AS_STR("m")) && as_str_eq(t.r.version, AS_STR("1")));
    assert_true(as_str_eq(t.r.id, AS_STR("client-1")));
    assert_int_equal(t.r.n_inputs, 1);
    assert_int_equal(t.r.inputs[0].data[0], 7);
    hand_answer(&h, 0, &t);
    check_good(&c);
    drop(&t);
    assert_int_equal(as_fleet_model_stat(w.fleet, model()->deployment, 0)->success, 1);
    end_with(&h);
}

static void test_the_connection_is_used_again(void **state AS_UNUSED)
{
    struct hand h;

    begin_alone(&h, false);
    for (int i = 0; i < 20; i++)
        exchange(&h, 0);
    assert_int_equal(as_simple_stat(w.fleet).opened, 1);
    assert_int_equal(as_simple_stat(w.fleet).reused, 20);
    end_with(&h);
}

static void test_as_many_connections_as_slots(void **state AS_UNUSED)
{
    struct call c[4];
    struct hand h;

    begin_with(usual());
    hand_open(&h, "a");
    h.slots = 3;
    hand_join(&h, false);
    for (int i = 0; i < 4; i++)
        submit(&c[i], (uint8_t)i);
    for (int i = 0; i < 3; i++)
        hand_accept(&h, i);
    for (int i = 0; i < 20; i++)
        turn();
    assert_int_equal(take_conn(&h, 3), -1); /* the fourth request waits in the queue */
    hand_serve(&h, 1);
    hand_serve(&h, 1);
    hand_serve(&h, 0);
    hand_serve(&h, 2);
    for (int i = 0; i < 4; i++)
        check_good(&c[i]);
    replicas();
    assert_int_equal(shown.connections, 3);
    end_with(&h);
}

/* The client's id is the request's; without one there is one of ours, never the same twice. */
static void test_every_request_has_an_id(void **state AS_UNUSED)
{
    char first[64];
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    for (int i = 0; i < 2; i++) {
        submit(&c, 1);
        hand_take(&h, 0, &t);
        assert_true(t.r.id.n > 0 && t.r.id.n < sizeof(first));
        if (i)
            assert_string_not_equal(first, t.bytes);
        snprintf(first, sizeof(first), "%.*s", AS_STR_FMT(t.r.id));
        hand_answer(&h, 0, &t);
        check_good(&c);
        drop(&t);
    }
    end_with(&h);
}

static void test_an_answer_in_pieces(void **state AS_UNUSED)
{
    uint8_t out[512];
    struct call c;
    struct taken t;
    struct hand h;
    size_t n;

    begin_alone(&h, false);
    submit(&c, 9);
    hand_take(&h, 0, &t);
    n = answer_bytes(&t, t.r.id, out);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(c.answers, 0);
        hand_write(&h, 0, out + i, 1);
        turn();
        turn();
    }
    check_good(&c);
    drop(&t);
    exchange(&h, 0); /* and the connection is sound */
    end_with(&h);
}

static void test_large_answers(void **state AS_UNUSED)
{
    static uint8_t big[900000], out[950000];
    int64_t shape = sizeof(big);
    struct as_tensor y = {.name = AS_STR("y"),
                          .dtype = AS_DT_UINT8,
                          .ndim = 1,
                          .shape = &shape,
                          .data = big,
                          .nbytes = sizeof(big)};
    struct as_oip_response r = {.outputs = &y, .n_outputs = 1};
    struct call c;
    struct taken t;
    struct hand h;
    size_t n, at = 0;

    memset(big, 0x5a, sizeof(big));
    begin_alone(&h, false);
    submit(&c, 9);
    hand_take(&h, 0, &t);
    r.id = t.r.id;
    n = (size_t)as_oip_response_len(&r);
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(n >> (24 - 8 * i));
    as_oip_put_response(out + 4, &r);
    while (at < n + 4) {
        ssize_t k = send(h.conn[0], out + at, n + 4 - at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (k > 0)
            at += (size_t)k;
        turn();
    }
    UNTIL(c.releases);
    assert_int_equal(c.err, 0);
    assert_int_equal(c.n_result, sizeof(big));
    assert_int_equal(c.result, 0x5a);
    drop(&t);
    exchange(&h, 0);
    end_with(&h);
}

/* --- answers that are none --- */

static struct as_buf raw;

static void put_raw(const void *p, size_t n)
{
    as_buf_init(&raw);
    as_buf_add(&raw, p, n);
}

/* A request is answered with `raw`. The worker is heard of it, the connection is gone, the next
 * request is served. */
static void check_wrong(const char *reason, const char *status_name)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, true); /* not even then: the same would come again */
    submit_as(&c, 1, "r-1", 0);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, raw.p, raw.n);
    check_failed(&c, AS_EHANDLER);
    assert_int_equal(c.status, as_grpc_status_of(status_name));
    assert_non_null(strstr(c.message, reason));
    assert_true(logged("event=worker_fault"));
    assert_true(logged(reason));
    assert_true(logged("request=r-1"));
    UNTIL(ended(h.conn[0]));
    drop(&t);
    exchange_anew(&h, 1);
    end_with(&h);
    as_buf_fini(&raw);
}

static void test_length_zero(void **state AS_UNUSED)
{
    put_raw("\0\0\0\0", 4);
    check_wrong("its length is 0", "INTERNAL");
}

static void test_length_over_the_limit(void **state AS_UNUSED)
{
    put_raw("\0\x10\0\1", 4); /* 1 MiB and one */
    check_wrong("its length is 1048577 bytes", "INTERNAL");
}

static void test_garbage(void **state AS_UNUSED)
{
    put_raw("\0\0\0\5hello", 9);
    check_wrong("malformed protobuf", "INTERNAL");
}

static void test_the_answer_of_another_request(void **state AS_UNUSED)
{
    put_raw("\0\0\0\5\x1a\3r-2", 9);
    check_wrong("the id is that of another request", "INTERNAL");
}

static void test_an_error(void **state AS_UNUSED)
{
    struct as_param p[] = {
        {.name = AS_STR("anyserve_error"), .type = AS_PARAM_STRING, .str = AS_STR("NOT_FOUND")},
        {.name = AS_STR("anyserve_error_message"),
         .type = AS_PARAM_STRING,
         .str = AS_STR("no such key")}};
    struct as_oip_response r = {.params = p, .n_params = 2};
    uint8_t out[256] = {0};
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, true);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    r.id = t.r.id;
    out[3] = (uint8_t)as_oip_response_len(&r);
    as_oip_put_response(out + 4, &r);
    hand_write(&h, 0, out, 4u + out[3]);
    check_failed(&c, AS_EHANDLER);
    assert_int_equal(c.status, 5);
    assert_string_equal(c.message, "no such key");
    drop(&t);
    exchange(&h, 0); /* an error is an answer: the connection is sound */
    assert_false(logged("worker_fault"));
    end_with(&h);
}

/* --- an answer is never given to another request --- */

static void test_without_the_id_a_connection_is_used_once(void **state AS_UNUSED)
{
    uint8_t out[512];
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, out, answer_bytes(&t, AS_STR(""), out));
    check_good(&c);
    drop(&t);
    UNTIL(ended(h.conn[0]));
    exchange_anew(&h, 1);
    end_with(&h);
}

static void test_an_id_that_comes_again_has_a_new_connection(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;

    begin_alone(&h, false);
    submit_as(&c, 1, "same", 0);
    hand_serve(&h, 0);
    check_good(&c);
    submit_as(&c, 2, "other", 0);
    hand_serve(&h, 0);
    check_good(&c);
    submit_as(&c, 3, "same", 0);
    hand_accept(&h, 1);
    assert_true(ended(h.conn[0]));
    hand_serve(&h, 1);
    check_good(&c);
    end_with(&h);
}

static void test_two_answers_at_once(void **state AS_UNUSED)
{
    uint8_t out[1024];
    struct call c;
    struct taken t;
    struct hand h;
    size_t n;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    n = answer_bytes(&t, t.r.id, out);
    memcpy(out + n, out, n);
    hand_write(&h, 0, out, 2 * n);
    check_good(&c); /* it has its id */
    drop(&t);
    UNTIL(ended(h.conn[0]));
    assert_true(logged("two answers"));
    exchange_anew(&h, 1);
    end_with(&h);
}

static void test_a_second_answer_while_it_rests(void **state AS_UNUSED)
{
    uint8_t out[512];
    struct call c;
    struct taken t;
    struct hand h;
    size_t n;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    n = answer_bytes(&t, t.r.id, out);
    hand_write(&h, 0, out, n);
    check_good(&c);
    drop(&t);
    /* the loop has not heard of it when the next request is sent */
    hand_write(&h, 0, out, n);
    submit(&c, 2);
    hand_accept(&h, 1);
    assert_true(logged("bytes on a connection without a request"));
    hand_serve(&h, 1);
    check_good(&c);
    end_with(&h);
}

static void test_a_second_answer_after_the_next_request(void **state AS_UNUSED)
{
    struct call c;
    struct taken t, next;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_answer(&h, 0, &t);
    check_good(&c);
    submit(&c, 2);
    hand_take(&h, 0, &next);
    hand_answer(&h, 0, &t);
    check_failed(&c, AS_EHANDLER);
    assert_true(logged("the id is that of another request"));
    drop(&t);
    drop(&next);
    end_with(&h);
}

/* --- requests that nobody waits for --- */

static void test_a_deadline(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit_as(&c, 1, "", 20 * AS_MS);
    hand_take(&h, 0, &t);
    check_failed(&c, AS_EDEADLINE);
    /* the worker is told by the end of the connection; its answer has nowhere to go */
    UNTIL(ended(h.conn[0]));
    drop(&t);
    exchange_anew(&h, 1);
    assert_int_equal(as_simple_stat(w.fleet).cancelled, 1);
    end_with(&h);
}

/* The answer has come, and in the same turn, before it is read, the client goes. */
static void test_a_cancel_that_crosses_the_answer(void **state AS_UNUSED)
{
    struct call c, next;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    submit(&next, 2);
    hand_take(&h, 0, &t);
    hand_answer(&h, 0, &t);
    as_fleet_client_cancel(&w.client, &c.call);
    UNTIL(c.releases);
    assert_int_equal(c.answers, 0);
    drop(&t);
    hand_accept(&h, 1);
    hand_serve(&h, 1);
    check_good(&next);
    end_with(&h);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_a_request_and_its_answer),
        T(test_the_connection_is_used_again),
        T(test_as_many_connections_as_slots),
        T(test_every_request_has_an_id),
        T(test_an_answer_in_pieces),
        T(test_large_answers),
        T(test_length_zero),
        T(test_length_over_the_limit),
        T(test_garbage),
        T(test_the_answer_of_another_request),
        T(test_an_error),
        T(test_without_the_id_a_connection_is_used_once),
        T(test_an_id_that_comes_again_has_a_new_connection),
        T(test_two_answers_at_once),
        T(test_a_second_answer_while_it_rests),
        T(test_a_second_answer_after_the_next_request),
        T(test_a_deadline),
        T(test_a_cancel_that_crosses_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
