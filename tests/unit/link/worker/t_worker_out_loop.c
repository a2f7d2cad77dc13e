/* The worker library: calls on an event loop: news, drain, reports, forked children. */
#include "call_pair.h"

#include <sys/wait.h>

static void each_out_is_news_once(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *a = calls_open(c, NULL, "a"), *b = calls_open(c, NULL, "b");
    struct as_body answer = body_of("x");
    struct as_worker_out_msg m;

    as_worker_flush(c->w);
    fake_answer(&c->d, 4, &answer, false);
    calls_sync(c); /* news before they are asked for are kept */
    assert_ptr_equal(as_worker_next_news(c->w), b);
    assert_null(as_worker_next_news(c->w));
    assert_int_equal(as_worker_poll(c->w), AS_EAGAIN);
    fake_answer(&c->d, 2, &answer, false);
    while (as_worker_poll(c->w) == AS_EAGAIN)
        ;
    assert_int_equal(as_worker_poll(c->w), 0);
    assert_int_equal(as_worker_wait(c->w), 0);
    assert_ptr_equal(as_worker_next_news(c->w), a);
    assert_int_equal(as_worker_out_read(a, &m), 0);
    assert_int_equal(as_worker_poll(c->w), AS_EAGAIN);
    as_worker_out_free(a);
    as_worker_out_free(b);
}

static void a_freed_out_is_no_news(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "a");

    assert_null(as_worker_next_news(c->w));
    as_worker_out_cancel(o);
    assert_int_equal(as_worker_poll(c->w), 0);
    as_worker_out_free(o);
    assert_null(as_worker_next_news(c->w));
    o = calls_open(c, NULL, "a");
    as_worker_out_cancel(o);
    as_worker_out_detach(o);
    assert_null(as_worker_next_news(c->w));
}

static void *cancel_it(void *arg)
{
    as_worker_out_cancel(arg);
    return NULL;
}

static void news_of_another_thread_wakes_the_loop(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "a");
    struct pollfd p = {.fd = as_worker_fd(c->w), .events = POLLIN};
    pthread_t t;

    assert_null(as_worker_next_news(c->w));
    while (poll(&p, 1, 0)) /* nothing is there to do */
        assert_int_equal(as_worker_poll(c->w), AS_EAGAIN);
    assert_int_equal(pthread_create(&t, NULL, cancel_it, o), 0);
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    pthread_join(t, NULL);
    assert_int_equal(as_worker_poll(c->w), 0);
    assert_ptr_equal(as_worker_next_news(c->w), o);
    as_worker_out_free(o);
}

static void a_drain_waits_for_calls(void **state)
{
    struct calls *c = *state;
    struct as_worker_req *p = calls_start(c, 1, 0);
    struct as_body answer = body_of("answer");
    uint64_t opaque;

    as_worker_drain(c->w);
    fake_expect(&c->d, AS_FRAME_DRAIN);
    fake_expect(&c->d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&c->d.f, &opaque), 0);
    as_frame_put_ping(&c->d.out, AS_FRAME_PONG, opaque);
    as_worker_out_detach(calls_open(c, p, "x")); /* a draining worker may call */
    calls_answer(c, p);
    (void)fake_expect_call(&c->d, 2);
    calls_sync(c);
    assert_int_equal(as_worker_poll(c->w), AS_EAGAIN);
    fake_answer(&c->d, 2, &answer, false);
    while (as_worker_poll(c->w) == AS_EAGAIN)
        ;
    assert_int_equal(as_worker_poll(c->w), AS_ECANCELLED);
}

static void a_drain_without_a_link_ends_what_waits(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *early, *late;

    fake_hang_up(&c->d);
    while (as_worker_poll(c->w) != AS_EOF)
        ;
    early = calls_open(c, NULL, "x");
    as_worker_drain(c->w);
    late = calls_open(c, NULL, "x");
    (void)calls_expect_failure(early, AS_STATUS_UNAVAILABLE);
    (void)calls_expect_failure(late, AS_STATUS_UNAVAILABLE);
    assert_int_equal(as_worker_poll(c->w), AS_ECANCELLED);
    as_worker_out_free(early);
    as_worker_out_free(late);
}

/* --- reports --- */

static void expect_report(struct calls *c, uint32_t kind, const char *text)
{
    struct as_frame_report r;

    fake_expect(&c->d, AS_FRAME_REPORT);
    assert_int_equal(as_frame_get_report(&c->d.f, &r), 0);
    assert_int_equal(r.kind, kind);
    assert_true(as_str_eq(r.text, as_str_of(text)));
}

static void reports_are_sent_over_each_link(void **state)
{
    struct calls *c = *state;
    struct as_str large = {calloc(1, AS_WORKER_REPORT_BYTES + 1), AS_WORKER_REPORT_BYTES + 1};

    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_ROUTING, AS_STR("{}")), 0);
    expect_report(c, 3, "{}");
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_ROUTING, AS_STR("{\"a\":1}")), 0);
    expect_report(c, 3, "{\"a\":1}");
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_MULTIPLEXED, AS_STR("[]")), 0);
    expect_report(c, 2, "[]");
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_METRICS, large), AS_ETOOBIG);
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_END, AS_STR("")), AS_EINVALID);
    assert_int_equal(as_worker_report(c->w, (enum as_worker_report)0, AS_STR("")), AS_EINVALID);
    fake_hang_up(&c->d);
    assert_int_equal(fake_connect(&c->d, c->w), 0);
    calls_expect_target(c);
    expect_report(c, 2, "[]");
    expect_report(c, 3, "{\"a\":1}");
    large.n--;
    assert_int_equal(as_worker_report(c->w, AS_WORKER_REPORT_METRICS, large), 0);
    calls_sync(c);
    fake_expect(&c->d, AS_FRAME_REPORT);
    assert_int_equal(c->d.f.n, 8 + AS_WORKER_REPORT_BYTES);
    free((void *)(uintptr_t)large.p);
}

static void a_child_process_may_free_outs(void **state)
{
    struct calls *c = *state;
    struct as_worker_out *o = calls_open(c, NULL, "x");
    int status;
    pid_t pid;

    as_worker_flush(c->w);
    (void)fake_expect_call(&c->d, 2);
    pid = fork();
    if (!pid) {
        struct as_body body = body_of("x");
        struct as_worker_open v = {.size = sizeof(v), .target = c->target, .body = &body};

        as_worker_forked(c->w);
        as_worker_out_cancel(o);
        as_worker_out_free(o);
        _exit(as_worker_open(c->w, &v, &o) != AS_EUNAVAILABLE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    calls_sync(c);
    assert_true(fake_is_quiet(&c->d)); /* the child has sent nothing */
    as_worker_out_free(o);
}

#define CALLS_TEST(f) cmocka_unit_test_setup_teardown(f, calls_setup, calls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CALLS_TEST(each_out_is_news_once),
        CALLS_TEST(a_freed_out_is_no_news),
        CALLS_TEST(news_of_another_thread_wakes_the_loop),
        CALLS_TEST(a_drain_waits_for_calls),
        CALLS_TEST(a_drain_without_a_link_ends_what_waits),
        CALLS_TEST(reports_are_sent_over_each_link),
        CALLS_TEST(a_child_process_may_free_outs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
