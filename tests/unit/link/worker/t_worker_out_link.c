/* The worker library: calls and their links: lost ones, two at a time, a dispatcher that breaks the
 * rules. */
#include "call_pair.h"

/* --- the end of links --- */

static void an_open_call_fails_with_its_link_and_a_waiting_one_is_sent_on_the_next(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o[3];
    struct as_worker_out_msg m;

    for (int i = 0; i < 3; i++)
        o[i] = calls_open(c, NULL, "x");
    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    (void)fake_expect_call(&c->d, 4);
    fake_hang_up(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    for (int i = 0; i < 2; i++) {
        m = calls_expect_failure(o[i], AS_STATUS_UNAVAILABLE);
        assert_int_equal(m.flags, AS_WORKER_OUT_STARTED);
    }
    assert_int_equal(as_worker_out_read(o[2], &m), AS_EAGAIN);
    assert_int_equal(fake_connect(&c->d, c->w), 0);
    calls_expect_target(c);
    assert_true(fake_is_quiet(&c->d)); /* nothing is granted yet */
    calls_grant(c, 2, 1 << 20);
    calls_sync(c);
    (void)fake_expect_call(&c->d, 2);
    for (int i = 0; i < 3; i++)
        as_worker_out_free(o[i]);
}

static void a_lost_link_cancels_what_a_handler_has_not_sent(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_worker_out *o[3];

    for (int i = 0; i < 3; i++)
        o[i] = calls_open(c, p, "x");
    as_worker_flush(c->w);
    fake_hang_up(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    (void)calls_expect_failure(o[0], AS_STATUS_UNAVAILABLE);
    (void)calls_expect_failure(o[2], AS_STATUS_CANCELLED);
    for (int i = 0; i < 3; i++)
        as_worker_out_free(o[i]);
    as_worker_fail(c->w, p, AS_STATUS_CANCELLED, AS_STR(""));
}

static void *give_up(void *arg)
{
    struct as_worker_out **o = arg;

    as_worker_out_free(o[0]); /* its CANCEL cannot be written, which ends the link */
    as_worker_out_detach(o[1]);
    as_worker_out_cancel(o[2]);
    return NULL;
}

static void a_failing_write_ends_each_call_once(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_body body = body_of("x");
    struct as_worker_out *o[3] = {calls_open(c, p, "x"), calls_open_of(c, p, &body, true, 0),
                                  calls_open(c, p, "x")};
    pthread_t t;

    as_worker_flush(c->w);
    fake_hang_up(&c->d);
    assert_int_equal(pthread_create(&t, NULL, give_up, o), 0); /* other threads write at once */
    pthread_join(t, NULL);
    (void)calls_expect_failure(o[2], AS_STATUS_CANCELLED); /* it was not sent */
    as_worker_out_free(o[2]);
    for (int i = 0; i < 3; i++)
        o[i] = calls_open(c, NULL, "x");
    assert_true(o[0] != o[1] && o[1] != o[2] && o[0] != o[2]);
    for (int i = 0; i < 3; i++)
        as_worker_out_free(o[i]);
    as_worker_fail(c->w, p, AS_STATUS_CANCELLED, AS_STR(""));
}

static void the_runner_does_not_wait_without_a_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o;

    fake_hang_up(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    o = calls_open(c, NULL, "x");
    (void)calls_expect_failure(o, AS_STATUS_UNAVAILABLE);
    as_worker_out_free(o);
}

static void a_server_that_knows_no_calls(void **state)
{
    struct calls *c = as_xalloc(sizeof(*c));
    struct as_worker_out *early, *late;

    (void)state;
    fake_init(&c->d);
    calls_make(c);
    early = calls_open(c, NULL, "x");
    assert_int_equal(fake_connect(&c->d, c->w), 0);
    (void)calls_expect_failure(early, AS_STATUS_UNIMPLEMENTED);
    late = calls_open(c, NULL, "x");
    (void)calls_expect_failure(late, AS_STATUS_UNIMPLEMENTED);
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_METRICS, AS_STR("x")), 0);
    assert_true(fake_is_quiet(&c->d));
    as_worker_free(c->w); /* with both calls */
    fake_fini(&c->d);
    free(c);
}

/* --- two links --- */

static void a_child_goes_over_the_link_of_its_parent(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct fake next = {.listener = dup(c->d.listener),
                        .fd = -1,
                        .page_fd = -1,
                        .more = AS_CAP_CALLS,
                        .max_message = 64u << 20,
                        .rx = aligned_alloc(64, RX_CAP)};
    struct as_frame_credit two = {.messages = 2, .bytes = 1 << 20};
    struct as_worker_out *child, *free_one;

    as_outq_init(&next.out);
    fake_greet_begin(&next);
    as_frame_put_text(&c->d.out, AS_FRAME_MOVE, (struct as_str){0});
    fake_send(&c->d);
    while (pthread_tryjoin_np(next.thread, NULL)) {
        (void)as_worker_poll(c->w);
        assert_null(as_worker_next(c->w));
    }
    fake_expect(&next, AS_FRAME_TARGET);
    as_frame_put_credit(&next.out, 0, &two);
    fake_send(&next);
    calls_sync(c);
    free_one = calls_open(c, NULL, "none");
    child = calls_open(c, p, "child");
    as_worker_flush(c->w);
    while (fake_is_quiet(&next)) /* the grant may have come after the open */
        (void)as_worker_poll(c->w);
    assert_int_equal(fake_expect_call(&next, 2).parent, 0);
    assert_int_equal(fake_expect_call(&c->d, 2).parent, 1);
    calls_answer(c, p); /* its child stays with the former dispatcher */
    as_worker_out_free(child);
    as_worker_out_free(free_one);
    fake_fini(&next);
}

/* --- a dispatcher that breaks the rules --- */

static void expect_broken(struct calls *c, const char *why)
{
    fake_send(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    if (!strstr(as_worker_error(c->w), why))
        fail_msg("\"%s\" instead of \"%s\"", as_worker_error(c->w), why);
}

static void an_answer_to_no_call_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_body answer = body_of("x");

    fake_answer(&c->d, 2, &answer, false);
    expect_broken(c, "not open");
}

static void an_error_of_no_call_ends_the_link(void **state)
{
    struct calls *c = *state;

    fake_fail(&c->d, 1, AS_STATUS_INTERNAL, 0, "");
    expect_broken(c, "of its own");
}

static void a_second_answer_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x");
    struct as_body answer = body_of("x");

    as_worker_flush(c->w);
    fake_answer(&c->d, 2, &answer, true);
    expect_broken(c, "two messages");
    (void)calls_expect_failure(o, AS_STATUS_UNAVAILABLE);
    as_worker_out_free(o);
}

static void a_part_beyond_the_credit_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_body body = body_of("x");
    struct as_worker_out *o = calls_open_of(c, NULL, &body, true, 1);

    as_worker_flush(c->w);
    fake_answer(&c->d, 2, &body, true);
    fake_answer(&c->d, 2, &body, true);
    expect_broken(c, "beyond its credit");
    as_worker_out_free(o);
}

static void an_answer_with_a_method_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x");
    struct as_body answer = body_of("x");

    answer.method = AS_STR("m");
    as_worker_flush(c->w);
    fake_answer(&c->d, 2, &answer, false);
    expect_broken(c, "names a method");
    as_worker_out_free(o);
}

static void an_end_of_a_plain_call_ends_the_link(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x");

    as_worker_flush(c->w);
    as_frame_put_end(&c->d.out, 2, 0);
    expect_broken(c, "END");
    as_worker_out_free(o);
}

#define CALLS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLS_TEST(an_open_call_fails_with_its_link_and_a_waiting_one_is_sent_on_the_next),
        CALLS_TEST(a_lost_link_cancels_what_a_handler_has_not_sent),
        CALLS_TEST(a_failing_write_ends_each_call_once),
        CALLS_TEST(the_runner_does_not_wait_without_a_link),
        cmocka_unit_test(a_server_that_knows_no_calls),
        CALLS_TEST(a_child_goes_over_the_link_of_its_parent),
        CALLS_TEST(an_answer_to_no_call_ends_the_link),
        CALLS_TEST(an_error_of_no_call_ends_the_link),
        CALLS_TEST(a_second_answer_ends_the_link),
        CALLS_TEST(a_part_beyond_the_credit_ends_the_link),
        CALLS_TEST(an_answer_with_a_method_ends_the_link),
        CALLS_TEST(an_end_of_a_plain_call_ends_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
