/* The worker library: the guard serves the link while the runner is in user code; also under
 * stress.
 *
 * Nothing here calls into the worker while it waits for an effect: what happens is done by the
 * guard.
 */
#include "worker_pair.h"

#include <stdatomic.h>
#include <sys/wait.h>

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

static void a_ping_is_answered_while_a_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);

    for (uint64_t i = 1; i < 4; i++) {
        uint64_t opaque;

        as_frame_put_ping(&p->d.out, AS_FRAME_PING, i);
        fake_send(&p->d);
        fake_expect(&p->d, AS_FRAME_PONG);
        assert_int_equal(as_frame_get_ping(&p->d.f, &opaque), 0);
        assert_int_equal(opaque, i);
    }
    pair_echo(p, q);
}

static void *wake_later(void *arg)
{
    struct pair *p = arg;

    /* Long enough for the guard to see the runner parked, and to sleep without a timer. Were it too
     * short, the test would prove less and not fail. */
    (void)poll(NULL, 0, 5);
    as_worker_wake(p->w);
    return NULL;
}

/* With handlers in threads the runner may come back from its wait and then wait for the
 * interpreter, for as long as a handler keeps it. */
static void a_ping_is_answered_while_the_runner_is_held_up_after_a_wait(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    pthread_t waker;

    assert_int_equal(pthread_create(&waker, NULL, wake_later, p), 0);
    assert_int_equal(as_worker_wait(p->w), 0);
    pthread_join(waker, NULL);
    for (uint64_t i = 1; i < 4; i++) {
        as_frame_put_ping(&p->d.out, AS_FRAME_PING, i);
        fake_send(&p->d);
        fake_expect(&p->d, AS_FRAME_PONG);
    }
    as_frame_put_cancel(&p->d.out, 1, 1);
    fake_send(&p->d);
    while (!as_worker_req_cancelled(q))
        sched_yield();
    pair_echo(p, q);
}

/* What replaces this worker starts then, not after the handler. */
static void a_stop_is_said_while_a_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    uint64_t opaque;

    as_worker_stop(p->w);
    fake_expect(&p->d, AS_FRAME_DRAIN);
    fake_expect(&p->d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&p->d.f, &opaque), 0);
    as_frame_put_ping(&p->d.out, AS_FRAME_PONG, opaque);
    fake_send(&p->d);
    as_worker_drain(p->w); /* as the runner does when it comes back: it is not said twice */
    pair_echo(p, q);
    while (as_worker_wait(p->w) != AS_ECANCELLED)
        sched_yield();
}

static void health_is_answered_while_a_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_frame_control c = {.op = AS_CONTROL_HEALTH};
    struct as_worker_req *q = pair_start(p, 1, 8);

    as_frame_put_control(&p->d.out, 5, &c);
    c.op = AS_CONTROL_RANK;
    as_frame_put_control(&p->d.out, 7, &c);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_CONTROL);
    assert_int_equal(p->d.f.stream, 5);
    assert_int_equal(as_frame_get_control(&p->d.f, &c), 0);
    assert_true(c.reply);
    assert_int_equal(c.code, 0);
    fake_expect(&p->d, AS_FRAME_CONTROL);
    assert_int_equal(as_frame_get_control(&p->d.f, &c), 0);
    assert_int_equal(c.code, 12); /* a later version's business */
    pair_echo(p, q);
}

static void a_recall_is_honoured_while_a_handler_runs(void **state)
{
    struct pair *p = *state;
    uint64_t ids[] = {1, 3, 5}, back[AS_FRAME_IDS];
    struct as_worker_req *q;
    uint32_t n;

    fake_ask(&p->d, 1, 8);
    fake_ask(&p->d, 3, 8);
    fake_send(&p->d);
    q = pair_next(p);
    fake_ask(&p->d, 5, 8); /* the guard reads this one and returns it */
    as_frame_put_ids(&p->d.out, AS_FRAME_RECALL, ids, 3);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_RETURNED);
    assert_int_equal(as_frame_get_ids(&p->d.f, back, AS_FRAME_IDS, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(back[0], 3);
    assert_int_equal(back[1], 5);
    pair_echo(p, q);
    assert_null(as_worker_next(p->w));
}

static void a_handler_sees_its_cancel_while_it_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);

    as_frame_put_cancel(&p->d.out, 1, 1);
    fake_send(&p->d);
    while (!as_worker_req_cancelled(q))
        sched_yield();
    pair_echo(p, q);
}

static void an_answer_is_published_while_the_next_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    fake_ask(&p->d, 1, 8);
    fake_ask(&p->d, 3, 8);
    fake_send(&p->d);
    pair_echo(p, pair_next(p));
    q = pair_next(p); /* the loop boundary does not come until this handler has returned */
    fake_expect_echo(&p->d, 1, 8);
    pair_echo(p, q);
}

static void a_large_answer_goes_on_while_the_next_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    fake_ask(&p->d, 1, 100);
    fake_send(&p->d);
    q = pair_next(p);
    {
        static uint8_t large[8u << 20];
        int64_t shape[1] = {(int64_t)sizeof(large)};
        struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, large, sizeof(large)};
        struct as_msg msg = {.tensors = &t, .n_tensors = 1};

        for (size_t i = 0; i < sizeof(large); i++)
            large[i] = (uint8_t)(i + 1);
        assert_int_equal(as_worker_answer(p->w, q, &msg), 0);
    }
    fake_ask(&p->d, 3, 8);
    fake_send(&p->d);
    while (!(q = as_worker_next(p->w)))
        (void)as_worker_poll(p->w);
    fake_expect_echo(&p->d, 1, 8u << 20);
    pair_echo(p, q);
}

static void requests_that_the_guard_read_are_started_without_another_read(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);
    uint64_t s;

    for (s = 3; s < 30; s += 2)
        fake_ask(&p->d, s, 100);
    as_frame_put_ping(&p->d.out, AS_FRAME_PING, 1);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_PONG);
    pair_echo(p, q);
    for (s = 3; s < 30; s += 2) {
        q = as_worker_next(p->w);
        assert_non_null(q);
        assert_true(fake_body_ok(&as_worker_req_msg(q)->tensors[0], s, 100));
        pair_echo(p, q);
    }
}

static void the_end_of_the_link_is_noticed_while_a_handler_runs(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q = pair_start(p, 1, 8);

    fake_hang_up(&p->d);
    while (!as_worker_req_cancelled(q))
        sched_yield();
    pair_echo(p, q);
    assert_int_equal(as_worker_wait(p->w), AS_EOF);
}

/* --- with an event loop --- */

static void an_event_loop_is_woken_for_what_comes(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    assert_int_equal(as_worker_poll(p->w), AS_EAGAIN);
    fake_ask(&p->d, 1, 8);
    fake_send(&p->d);
    do {
        assert_true(readable(as_worker_fd(p->w), WAIT_MS));
    } while (as_worker_poll(p->w) == AS_EAGAIN);
    q = as_worker_next(p->w);
    assert_non_null(q);
    assert_null(as_worker_next(p->w));
    pair_echo(p, q);
}

static void an_idle_event_loop_is_not_woken(void **state)
{
    struct pair *p = *state;

    for (int i = 0; i < 3; i++)
        assert_int_equal(as_worker_poll(p->w), AS_EAGAIN);
    assert_false(readable(as_worker_fd(p->w), 0));
}

static void the_guard_reads_for_a_blocked_event_loop_and_wakes_it(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q;

    assert_int_equal(as_worker_poll(p->w), AS_EAGAIN);
    fake_ask(&p->d, 1, 8);
    as_frame_put_ping(&p->d.out, AS_FRAME_PING, 1);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_PONG); /* by the guard: the socket is empty now */
    assert_true(readable(as_worker_fd(p->w), WAIT_MS));
    assert_int_equal(as_worker_poll(p->w), 0);
    q = as_worker_next(p->w);
    assert_non_null(q);
    as_frame_put_cancel(&p->d.out, 1, 1);
    as_frame_put_ping(&p->d.out, AS_FRAME_PING, 2);
    fake_send(&p->d);
    fake_expect(&p->d, AS_FRAME_PONG);
    assert_true(readable(as_worker_fd(p->w), WAIT_MS));
    assert_ptr_equal(pair_cancelled(p), q);
    pair_echo(p, q);
    assert_int_equal(fake_expect_error(&p->d, 1).code, 1); /* nobody flushed: the guard did */
}

static void wake_makes_wait_return(void **state)
{
    struct pair *p = *state;

    as_worker_wake(p->w);
    assert_int_equal(as_worker_wait(p->w), 0);
}

/* --- fork --- */

static void a_forked_child_lets_go(void **state)
{
    struct pair *p = *state;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        as_worker_forked(p->w);
        as_worker_free(p->w); /* the only other call that is allowed */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pair_echo(p, pair_start(p, 1, 8));
    as_worker_flush(p->w);
    fake_expect_echo(&p->d, 1, 8);
}

/* --- stress --- */

#define STREAMS 6000

struct stress {
    struct pair *p;
    pthread_t writer;
    uint8_t *ended; /* per stream: times it was answered or returned */
};

/* Sends at most 200 ahead of what has ended, and recalls and cancels at random. */
static void *stress_send(void *arg)
{
    struct stress *s = arg;
    struct fake *d = &s->p->d;
    uint64_t seed = 12345, stream = 1;

    while (stream < 2 * STREAMS) {
        uint64_t ended = 0;

        for (uint64_t i = 0; i < stream / 2; i++)
            ended += __atomic_load_n(&s->ended[i], __ATOMIC_RELAXED) != 0;
        if (stream / 2 - ended > 200) {
            sched_yield();
            continue;
        }
        for (int i = 0; i < 32 && stream < 2 * STREAMS; i++, stream += 2) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            fake_ask(d, stream, (seed >> 60) == 7 ? 70000 : (seed >> 33) % 300);
            if ((seed >> 20) % 8 == 0)
                as_frame_put_cancel(&d->out, stream - (seed >> 40) % 8 * 2, 1);
            if ((seed >> 25) % 8 == 0) {
                uint64_t ids[3] = {stream - 4, stream - 2, stream};

                as_frame_put_ids(&d->out, AS_FRAME_RECALL, stream > 4 ? ids : ids + 2,
                                 stream > 4 ? 3 : 1);
            }
        }
        fake_send(d);
    }
    return NULL;
}

static void mark(struct stress *s, uint64_t stream)
{
    assert_true((stream & 1) && stream < 2 * STREAMS);
    __atomic_fetch_add(&s->ended[stream / 2], 1, __ATOMIC_RELAXED);
}

/* Reads answers until every stream has ended, then asks to drain. */
static void *stress_read(void *arg)
{
    struct stress *s = arg;
    struct fake *d = &s->p->d;
    uint64_t ids[AS_FRAME_IDS], left = STREAMS;
    uint32_t n;

    while (left) {
        assert_true(fake_read(d));
        if (d->f.type == AS_FRAME_RETURNED) {
            assert_int_equal(as_frame_get_ids(&d->f, ids, AS_FRAME_IDS, &n), 0);
            for (uint32_t i = 0; i < n; i++)
                mark(s, ids[i]);
            left -= n;
        } else if (d->f.type == AS_FRAME_ERROR || d->f.flags & AS_FRAME_F_END) {
            mark(s, d->f.stream);
            left--;
        }
    }
    pthread_join(s->writer, NULL);
    as_frame_put_text(&d->out, AS_FRAME_DRAIN, (struct as_str){0});
    fake_send(d);
    return NULL;
}

/* A handler that is mostly fast, and now and then slower than the guard's patience. */
static void stress_handle(struct pair *p, struct as_worker_req *q, uint64_t i)
{
    struct timespec busy = {.tv_nsec = 3000000};

    if (i % 400 == 0)
        nanosleep(&busy, NULL);
    if (i % 3 == 0)
        as_worker_fail(p->w, q, 13, AS_STR("third"));
    else
        pair_echo(p, q);
}

static void stress(struct pair *p, bool event_loop)
{
    static uint8_t ended[STREAMS];
    struct stress s = {.p = p, .ended = ended};
    pthread_t reader;
    uint64_t handled = 0;
    int r = 0;

    memset(ended, 0, sizeof(ended));
    assert_int_equal(pthread_create(&s.writer, NULL, stress_send, &s), 0);
    assert_int_equal(pthread_create(&reader, NULL, stress_read, &s), 0);
    while (r != AS_ECANCELLED) {
        struct as_worker_req *q;

        while ((q = as_worker_next(p->w)))
            stress_handle(p, q, handled++);
        while (pair_cancelled(p))
            ;
        if (!event_loop)
            r = as_worker_wait(p->w);
        else if ((r = as_worker_poll(p->w)) == AS_EAGAIN)
            assert_true(readable(as_worker_fd(p->w), WAIT_MS));
        assert_true(r == 0 || r == AS_EAGAIN || r == AS_ECANCELLED);
    }
    pthread_join(reader, NULL);
    for (size_t i = 0; i < STREAMS; i++)
        assert_int_equal(ended[i], 1);
    assert_int_equal(p->d.page->started, handled);
    assert_int_equal(p->d.page->finished, handled);
}

static void every_stream_ends_once(void **state)
{
    stress(*state, false);
}

static void every_stream_ends_once_with_an_event_loop(void **state)
{
    stress(*state, true);
}

#define PAIRED(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIRED(a_ping_is_answered_while_a_handler_runs),
        PAIRED(a_ping_is_answered_while_the_runner_is_held_up_after_a_wait),
        PAIRED(a_stop_is_said_while_a_handler_runs),
        PAIRED(health_is_answered_while_a_handler_runs),
        PAIRED(a_recall_is_honoured_while_a_handler_runs),
        PAIRED(a_handler_sees_its_cancel_while_it_runs),
        PAIRED(an_answer_is_published_while_the_next_handler_runs),
        PAIRED(a_large_answer_goes_on_while_the_next_handler_runs),
        PAIRED(requests_that_the_guard_read_are_started_without_another_read),
        PAIRED(the_end_of_the_link_is_noticed_while_a_handler_runs),
        PAIRED(an_event_loop_is_woken_for_what_comes),
        PAIRED(an_idle_event_loop_is_not_woken),
        PAIRED(the_guard_reads_for_a_blocked_event_loop_and_wakes_it),
        PAIRED(wake_makes_wait_return),
        PAIRED(a_forked_child_lets_go),
        PAIRED(every_stream_ends_once),
        PAIRED(every_stream_ends_once_with_an_event_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
