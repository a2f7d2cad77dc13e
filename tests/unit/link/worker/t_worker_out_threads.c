/* The worker library: calls from handlers of as_worker_run and from any thread; drivers. */
#include "call_pair.h"

#include <signal.h>

struct world {
    struct calls c;
    pthread_t runner;
    int result;
    char error[64];
};

/* Calls B with its own data, and answers with B's answer. */
static int relay(struct as_worker_call *call, void *ctx)
{
    const struct calls *c = ctx;
    struct as_worker_open o = {
        .size = sizeof(o), .target = c->target, .body = as_worker_call_body(call)};
    struct as_worker_out_msg m;
    struct as_worker_out *out;
    int err = as_worker_call_open(call, &o, &out);

    if (err)
        return err;
    assert_int_equal(as_worker_out_wait(out, AS_NEVER), 0);
    err = as_worker_out_read(out, &m);
    if (err)
        err = as_worker_call_fail(call, m.status, "B has failed");
    else
        err = as_worker_call_answer(call, m.body);
    as_worker_out_free(out);
    return err;
}

/* The runner may see that it is to stop before as_worker_stop has returned. */
static pthread_mutex_t stopping = PTHREAD_MUTEX_INITIALIZER;

static void stop(struct world *x)
{
    pthread_mutex_lock(&stopping);
    as_worker_stop(x->c.w);
    pthread_mutex_unlock(&stopping);
}

static void *run(void *arg)
{
    struct world *x = arg;

    x->result = as_worker_run(x->c.w);
    snprintf(x->error, sizeof(x->error), "%.63s", as_worker_error(x->c.w));
    pthread_mutex_lock(&stopping);
    as_worker_free(x->c.w); /* in the runner */
    pthread_mutex_unlock(&stopping);
    return NULL;
}

/* A worker with the handler, in as_worker_run. */
static void start_world(struct world *x, uint32_t threads)
{
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = x->c.d.path,
                                  .token = "secret",
                                  .threads = threads,
                                  .flags = AS_WORKER_NO_SIGNALS};
    struct as_worker_model call = {
        .size = sizeof(call), .name = "A", .opaque = true, .handler = relay, .ctx = &x->c};

    assert_int_equal(as_worker_new(&x->c.w, &conf), 0);
    assert_int_equal(as_worker_add(x->c.w, &call), 0);
    assert_int_equal(as_worker_target(x->c.w, "a", "B", &x->c.target), 0);
    fake_greet_begin(&x->c.d);
    assert_int_equal(pthread_create(&x->runner, NULL, run, x), 0);
    fake_greet_end(&x->c.d);
    calls_expect_target(&x->c);
    calls_grant(&x->c, 100, 1 << 20);
}

static int setup(void **state)
{
    struct world *x = as_xalloc(sizeof(*x));

    fake_init(&x->c.d);
    x->c.d.more = AS_CAP_CALLS;
    *state = x;
    return 0;
}

static int teardown(void **state)
{
    struct world *x = *state;

    fake_fini(&x->c.d);
    free(x);
    return 0;
}

/* The runner drains: everything is answered. */
static void end_world(struct world *x)
{
    struct fake *d = &x->c.d;
    uint64_t opaque;

    stop(x);
    fake_expect(d, AS_FRAME_DRAIN);
    fake_expect(d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&d->f, &opaque), 0);
    as_frame_put_ping(&d->out, AS_FRAME_PONG, opaque);
    fake_send(d);
    pthread_join(x->runner, NULL);
    assert_int_equal(x->result, 0);
}

static void ask(struct world *x, uint64_t stream, const char *text, uint32_t flags)
{
    struct as_body body = body_of(text);

    fake_call(&x->c.d, stream, &body, flags, 0);
}

static void answer(struct world *x, uint64_t stream, const char *text)
{
    struct as_body body = body_of(text);

    fake_answer(&x->c.d, stream, &body, false);
}

static void expect_answer(struct world *x, uint64_t stream, const char *text)
{
    struct as_body body = body_of(text);

    fake_expect_body(&x->c.d, stream, &body, true);
}

static void a_handler_calls(void **state)
{
    struct world *x = *state;

    start_world(x, 1);
    ask(x, 1, "a", 0);
    assert_int_equal(fake_expect_call(&x->c.d, 2).parent, 1);
    answer(x, 2, "b");
    expect_answer(x, 1, "b");
    ask(x, 3, "a", 0);
    assert_int_equal(fake_expect_call(&x->c.d, 4).parent, 3);
    fake_fail(&x->c.d, 4, AS_STATUS_NOT_FOUND, 0, "no such deployment");
    assert_int_equal(fake_expect_error(&x->c.d, 3).code, AS_STATUS_NOT_FOUND);
    end_world(x);
}

/* One thread: the handler that waits is entered again, on the same stack. */
static void a_call_beyond_runs_in_the_waiting_thread(void **state)
{
    struct world *x = *state;

    start_world(x, 1);
    ask(x, 1, "a", 0);
    assert_int_equal(fake_expect_call(&x->c.d, 2).parent, 1);
    ask(x, 3, "prefetched", 0);
    ask(x, 5, "beyond", AS_CALL_F_BEYOND);
    assert_int_equal(fake_expect_call(&x->c.d, 4).parent, 5);
    ask(x, 7, "beyond", AS_CALL_F_BEYOND);
    assert_int_equal(fake_expect_call(&x->c.d, 6).parent, 7);
    answer(x, 6, "7");
    expect_answer(x, 7, "7");
    answer(x, 4, "5");
    expect_answer(x, 5, "5");
    answer(x, 2, "1");
    expect_answer(x, 1, "1");
    assert_int_equal(fake_expect_call(&x->c.d, 8).parent, 3);
    answer(x, 8, "3");
    expect_answer(x, 3, "3");
    end_world(x);
}

/* All threads wait: a call beyond the slots gets one more, which is used again. */
static void a_call_beyond_has_a_thread_of_its_own(void **state)
{
    struct world *x = *state;

    start_world(x, 2);
    ask(x, 1, "a", 0);
    (void)fake_expect_call(&x->c.d, 2);
    ask(x, 3, "a", 0);
    (void)fake_expect_call(&x->c.d, 4);
    for (uint64_t i = 0; i < 3; i++) {
        ask(x, 5 + 2 * i, "beyond", AS_CALL_F_BEYOND);
        assert_int_equal(fake_expect_call(&x->c.d, 6 + 2 * i).parent, 5 + 2 * i);
        answer(x, 6 + 2 * i, "b");
        expect_answer(x, 5 + 2 * i, "b");
    }
    answer(x, 2, "1");
    expect_answer(x, 1, "1");
    answer(x, 4, "3");
    expect_answer(x, 3, "3");
    end_world(x);
}

static void a_cancel_wakes_a_handler_that_waits(void **state)
{
    struct world *x = *state;

    for (uint32_t threads = 1; threads <= 2; threads++) {
        start_world(x, threads);
        ask(x, 1, "a", 0);
        (void)fake_expect_call(&x->c.d, 2);
        as_frame_put_cancel(&x->c.d.out, 1, AS_STATUS_CANCELLED);
        fake_send(&x->c.d);
        fake_expect(&x->c.d, AS_FRAME_CANCEL);
        assert_int_equal(x->c.d.f.stream, 2);
        (void)fake_expect_error(&x->c.d, 1);
        fake_fail(&x->c.d, 2, AS_STATUS_CANCELLED, 0, "");
        end_world(x);
        if (threads == 1)
            fake_hang_up(&x->c.d);
    }
}

static void a_handler_that_waits_ends_with_its_link(void **state)
{
    struct world *x = *state;

    start_world(x, 1);
    ask(x, 1, "a", 0);
    (void)fake_expect_call(&x->c.d, 2);
    fake_hang_up(&x->c.d);
    fake_greet_begin(&x->c.d); /* it connects again by itself */
    fake_greet_end(&x->c.d);
    calls_expect_target(&x->c);
    calls_grant(&x->c, 100, 1 << 20);
    ask(x, 1, "a", 0);
    (void)fake_expect_call(&x->c.d, 2);
    answer(x, 2, "b");
    expect_answer(x, 1, "b");
    end_world(x);
}

/* --- drivers --- */

static void greet_driver(struct world *x)
{
    struct fake *d = &x->c.d;

    d->fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    fake_expect(d, AS_FRAME_HELLO);
    fake_on_hello(d);
    assert_int_equal(d->hello.capabilities & (AS_CAP_DRIVER | AS_CAP_CALLS | AS_CAP_PAGE),
                     AS_CAP_DRIVER | AS_CAP_CALLS);
    assert_int_equal(d->page_fd, -1);
    calls_grant(&x->c, 8, 1 << 20);
    calls_expect_target(&x->c);
}

static void make_driver(struct world *x)
{
    x->c.flags = AS_WORKER_DRIVER | AS_WORKER_NO_SIGNALS;
    calls_make(&x->c);
}

static void run_driver(struct world *x)
{
    assert_int_equal(pthread_create(&x->runner, NULL, run, x), 0);
}

static void start_driver(struct world *x)
{
    make_driver(x);
    run_driver(x);
}

static void end_driver(struct world *x)
{
    stop(x);
    pthread_join(x->runner, NULL);
    assert_int_equal(x->result, 0);
}

static void a_driver_calls_and_connects_again(void **state)
{
    struct world *x = *state;
    struct as_worker_model m = {.size = sizeof(m), .name = "A", .opaque = true};
    struct as_worker_out *early, *o[10];
    struct as_worker_out_msg msg;

    make_driver(x);
    assert_int_equal(as_worker_add(x->c.w, &m), AS_EINVALID);
    run_driver(x);
    assert_int_equal(as_worker_report(x->c.w, AS_WORKER_REPORT_METRICS, AS_STR("")), AS_EINVALID);
    early = calls_open(&x->c, NULL, "early"); /* before there is a server */
    greet_driver(x);
    (void)fake_expect_call(&x->c.d, 2);
    answer(x, 2, "b");
    assert_int_equal(as_worker_out_wait(early, AS_NEVER), 0);
    assert_int_equal(as_worker_out_read(early, &msg), 0);
    assert_true(body_is(msg.body, "b"));
    as_worker_out_free(early);
    for (int i = 0; i < 10; i++)
        o[i] = calls_open(&x->c, NULL, "x");
    for (uint64_t s = 4; s <= 18; s += 2)
        (void)fake_expect_call(&x->c.d, s);
    fake_hang_up(&x->c.d);
    for (int i = 0; i < 8; i++)
        (void)calls_expect_failure(o[i], AS_STATUS_UNAVAILABLE);
    greet_driver(x);
    (void)fake_expect_call(&x->c.d, 2); /* those that were not sent */
    (void)fake_expect_call(&x->c.d, 4);
    answer(x, 2, "b");
    answer(x, 4, "b");
    for (int i = 8; i < 10; i++) {
        assert_int_equal(as_worker_out_wait(o[i], AS_NEVER), 0);
        assert_int_equal(as_worker_out_read(o[i], &msg), 0);
    }
    for (int i = 0; i < 10; i++)
        as_worker_out_free(o[i]);
    end_driver(x);
}

static void a_driver_with_a_wrong_token_is_refused(void **state)
{
    struct world *x = *state;
    struct fake *d = &x->c.d;

    start_driver(x);
    d->goodbye = "wrong token";
    d->fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    fake_expect(d, AS_FRAME_HELLO);
    fake_on_hello(d);
    pthread_join(x->runner, NULL);
    assert_int_equal(x->result, AS_EDENIED);
    assert_string_equal(x->error, "wrong token");
}

/* --- threads --- */

/* Answers every call with its own body, until the link ends. */
static void *echo_calls(void *arg)
{
    struct fake *d = arg;
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    while (fake_read(d)) {
        struct as_frame_call k, to = {0};
        const char *why;

        if (d->f.type != AS_FRAME_OPEN)
            continue;
        assert_int_equal(as_frame_get_call(&d->f, &a, &k, &why), 0);
        to.body = k.body;
        to.body_len = k.body_len;
        assert_int_equal(as_frame_put_call(&d->out, AS_FRAME_DATA, d->f.stream, &to, NULL, NULL),
                         0);
        fake_send(d);
        as_arena_reset(&a);
    }
    as_arena_fini(&a);
    return NULL;
}

#define CALLERS 4
#define EACH    300

static void *call_often(void *arg)
{
    struct world *x = arg;

    for (int i = 0; i < EACH; i++) {
        struct as_worker_out_msg m;
        struct as_worker_out *o[3];
        char text[3][32];

        for (int k = 0; k < 3; k++) {
            snprintf(text[k], sizeof(text[k]), "%p %d %d", (void *)&m, i, k);
            o[k] = calls_open(&x->c, NULL, text[k]);
        }
        for (int k = 0; k < 3; k++) {
            assert_int_equal(as_worker_out_wait(o[k], AS_NEVER), 0);
            assert_int_equal(as_worker_out_read(o[k], &m), 0);
            assert_true(body_is(m.body, text[k]));
            assert_int_equal(as_worker_out_read(o[k], &m), AS_EOF);
        }
        if (i % 2)
            as_worker_out_cancel(o[0]);
        for (int k = 0; k < 3; k++)
            as_worker_out_free(o[k]);
    }
    return NULL;
}

static void threads_call_at_once(void **state)
{
    struct world *x = *state;
    pthread_t callers[CALLERS], echo;

    start_driver(x);
    greet_driver(x);
    assert_int_equal(pthread_create(&echo, NULL, echo_calls, &x->c.d), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, x), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    end_driver(x);
    shutdown(x->c.d.fd, SHUT_RDWR);
    pthread_join(echo, NULL);
}

static void on_signal(int signum)
{
    (void)signum;
}

static void *wait_for_a_signal(void *arg)
{
    struct as_worker_out *o = arg;

    assert_int_equal(as_worker_out_wait(o, AS_NEVER), AS_EAGAIN);
    return NULL;
}

static void a_signal_ends_a_wait(void **state)
{
    struct world *x = *state;
    struct sigaction sa = {.sa_handler = on_signal};
    struct as_worker_out *o;
    pthread_t t;

    sigaction(SIGUSR1, &sa, NULL);
    start_driver(x);
    greet_driver(x);
    o = calls_open(&x->c, NULL, "x");
    assert_int_equal(pthread_create(&t, NULL, wait_for_a_signal, o), 0);
    while (pthread_tryjoin_np(t, NULL)) /* the first ones may come before the wait */
        pthread_kill(t, SIGUSR1);
    as_worker_out_free(o);
    end_driver(x);
}

static void unread_calls_use_no_more_than_the_window(void **state)
{
    struct world *x = *state;
    const uint64_t n = 20000;

    start_driver(x);
    greet_driver(x);
    for (uint64_t i = 0; i < n; i++)
        as_worker_out_detach(calls_open(&x->c, NULL, "x"));
    for (uint64_t s = 2; s <= 16; s += 2)
        (void)fake_expect_call(&x->c.d, s);
    assert_true(fake_is_quiet(&x->c.d));
    for (uint64_t s = 2; s <= 2 * n; s += 2) { /* each end lets one more go */
        answer(x, s, "b");
        if (s + 16 <= 2 * n)
            (void)fake_expect_call(&x->c.d, s + 16);
    }
    end_driver(x);
}

#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_handler_calls),
        WORLD_TEST(a_call_beyond_runs_in_the_waiting_thread),
        WORLD_TEST(a_call_beyond_has_a_thread_of_its_own),
        WORLD_TEST(a_cancel_wakes_a_handler_that_waits),
        WORLD_TEST(a_handler_that_waits_ends_with_its_link),
        WORLD_TEST(a_driver_calls_and_connects_again),
        WORLD_TEST(a_driver_with_a_wrong_token_is_refused),
        WORLD_TEST(threads_call_at_once),
        WORLD_TEST(a_signal_ends_a_wait),
        WORLD_TEST(unread_calls_use_no_more_than_the_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
