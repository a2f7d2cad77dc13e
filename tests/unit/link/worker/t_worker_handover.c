/* The worker library: while another dispatcher takes over, the worker has two links and serves
 * both. */
#include "worker_pair.h"

struct two {
    struct pair p;    /* the former one */
    struct fake next; /* where it is sent */
};

static int setup(void **state)
{
    struct two *t = as_xalloc(sizeof(*t));

    fake_init(&t->p.d);
    t->p.w = pair_worker(&t->p.d, PAIR_SLOTS);
    assert_int_equal(fake_connect(&t->p.d, t->p.w), 0);
    t->next = (struct fake){.listener = dup(t->p.d.listener),
                            .fd = -1,
                            .page_fd = -1,
                            .max_message = 64u << 20,
                            .rx = aligned_alloc(64, RX_CAP)};
    as_outq_init(&t->next.out);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct two *t = *state;

    as_worker_free(t->p.w);
    fake_fini(&t->next);
    fake_fini(&t->p.d);
    free(t);
    return 0;
}

static void say_move(struct two *t)
{
    as_frame_put_text(&t->p.d.out, AS_FRAME_MOVE, (struct as_str){0});
    fake_send(&t->p.d);
}

/* Runs the worker until something comes to it, or a moment has passed. */
static int turn(struct two *t)
{
    struct pollfd p = {.fd = as_worker_fd(t->p.w), .events = POLLIN};

    (void)poll(&p, 1, 10);
    return as_worker_poll(t->p.w);
}

/* MOVE, until the other one has granted slots, or has said goodbye. */
static void move(struct two *t)
{
    fake_greet_begin(&t->next);
    say_move(t);
    while (pthread_tryjoin_np(t->next.thread, NULL)) {
        (void)turn(t);
        assert_null(as_worker_next(t->p.w));
    }
    if (t->next.page_fd >= 0)
        t->next.page = mmap(NULL, AS_PAGE_SIZE, PROT_READ, MAP_SHARED, t->next.page_fd, 0);
}

static struct as_worker_req *start(struct two *t, struct fake *d, uint64_t stream)
{
    struct as_worker_req *q;

    fake_ask(d, stream, 8);
    fake_send(d);
    while (!(q = as_worker_next(t->p.w)))
        (void)turn(t);
    return q;
}

static void expect_answer(struct fake *d, uint64_t stream)
{
    fake_expect(d, AS_FRAME_DATA);
    assert_int_equal(d->f.stream, stream);
}

static void both_are_served(void **state)
{
    struct two *t = *state;
    struct as_worker_req *a, *b;

    move(t);
    assert_str(t->next.hello.token, "secret");
    assert_int_equal(t->next.credit.slots, PAIR_SLOTS);
    a = start(t, &t->p.d, 1);
    b = start(t, &t->next, 1);
    assert_int_equal(t->p.d.page->last_started, 1);
    assert_int_equal(t->next.page->last_started, 1);
    pair_echo(&t->p, b);
    pair_echo(&t->p, a);
    as_worker_flush(t->p.w);
    expect_answer(&t->p.d, 1);
    expect_answer(&t->next, 1);
}

/* No two owners count the same slot: what executes is bounded in sum. */
static void slots_are_those_of_the_worker(void **state)
{
    struct two *t = *state;
    struct as_worker_req *q[PAIR_SLOTS], *more;

    move(t);
    for (uint64_t i = 0; i < PAIR_SLOTS; i++)
        q[i] = start(t, &t->next, 2 * i + 1);
    fake_ask(&t->next, 2 * PAIR_SLOTS + 1, 8);
    fake_send(&t->next);
    fake_ask(&t->p.d, 1, 8);
    fake_send(&t->p.d);
    as_frame_put_ping(&t->p.d.out, AS_FRAME_PING, 1);
    fake_send(&t->p.d);
    while (fake_is_quiet(&t->p.d))
        (void)turn(t);
    fake_expect(&t->p.d, AS_FRAME_PONG); /* both have been read by now, or will be at once */
    assert_null(as_worker_next(t->p.w));
    pair_echo(&t->p, q[0]);
    more = as_worker_next(t->p.w);
    assert_non_null(more);
    pair_echo(&t->p, more);
    as_worker_flush(t->p.w);
    expect_answer(&t->p.d, 1); /* the former one's come first */
    for (int i = 1; i < PAIR_SLOTS; i++)
        pair_echo(&t->p, q[i]);
    while (!(more = as_worker_next(t->p.w)))
        (void)turn(t);
    pair_echo(&t->p, more);
}

static void frames_concern_their_own_link(void **state)
{
    struct two *t = *state;
    struct as_worker_req *a, *b;

    move(t);
    a = start(t, &t->p.d, 1);
    b = start(t, &t->next, 1);
    as_frame_put_cancel(&t->next.out, 1, 1);
    fake_send(&t->next);
    while (!as_worker_req_cancelled(b))
        (void)turn(t);
    assert_false(as_worker_req_cancelled(a));
    as_worker_fail(t->p.w, b, 1, AS_STR("cancelled"));
    pair_echo(&t->p, a);
    as_worker_flush(t->p.w);
    expect_answer(&t->p.d, 1);
    fake_expect(&t->next, AS_FRAME_ERROR);
}

static void the_end_of_the_older_link_is_not_reported(void **state)
{
    struct two *t = *state;
    struct as_worker_req *a, *b;
    int r;

    move(t);
    a = start(t, &t->p.d, 1);
    b = start(t, &t->next, 1);
    fake_hang_up(&t->p.d);
    while (!as_worker_req_cancelled(a)) {
        r = turn(t);
        assert_true(r == 0 || r == AS_EAGAIN);
    }
    assert_false(as_worker_req_cancelled(b));
    pair_echo(&t->p, a); /* goes nowhere */
    pair_echo(&t->p, b);
    as_worker_flush(t->p.w);
    expect_answer(&t->next, 1);
    fake_hang_up(&t->next);
    while ((r = turn(t)) == AS_EAGAIN || r == 0)
        ;
    assert_int_equal(r, AS_EOF);
}

/* As often as servers are upgraded. */
static void it_hands_over_again_and_again(void **state)
{
    struct two *t = *state;

    for (int i = 0; i < 5; i++) {
        struct fake former;
        struct as_worker_req *q;

        move(t);
        fake_hang_up(&t->p.d);
        former = t->p.d; /* the two change places */
        t->p.d = t->next;
        t->next = former;
        q = start(t, &t->p.d, 1);
        pair_echo(&t->p, q);
        as_worker_flush(t->p.w);
        expect_answer(&t->p.d, 1);
    }
}

static void one_that_is_not_there_changes_nothing(void **state)
{
    struct two *t = *state;
    struct as_worker_req *q;

    unlink(t->p.d.path);
    say_move(t);
    q = start(t, &t->p.d, 1);
    pair_echo(&t->p, q);
    as_worker_flush(t->p.w);
    expect_answer(&t->p.d, 1);
}

static void one_that_refuses_changes_nothing(void **state)
{
    struct two *t = *state;
    struct as_worker_req *q;

    t->next.goodbye = "not you";
    fake_greet_begin(&t->next);
    say_move(t);
    while (pthread_tryjoin_np(t->next.thread, NULL)) {
        (void)turn(t);
        assert_null(as_worker_next(t->p.w));
    }
    q = start(t, &t->p.d, 1);
    pair_echo(&t->p, q);
    as_worker_flush(t->p.w);
    expect_answer(&t->p.d, 1);
}

static void both_links_get_the_goodbye(void **state)
{
    struct two *t = *state;

    move(t);
    as_worker_drain(t->p.w);
    fake_expect(&t->p.d, AS_FRAME_DRAIN);
    fake_expect(&t->next, AS_FRAME_DRAIN);
    fake_expect(&t->p.d, AS_FRAME_PING);
    as_frame_put_ping(&t->p.d.out, AS_FRAME_PONG, 1);
    fake_send(&t->p.d);
    for (int i = 0; i < 3; i++)
        assert_int_equal(turn(t), AS_EAGAIN); /* the other one may still send something */
    fake_expect(&t->next, AS_FRAME_PING);
    as_frame_put_ping(&t->next.out, AS_FRAME_PONG, 1);
    fake_send(&t->next);
    while (turn(t) == AS_EAGAIN)
        ;
    assert_int_equal(as_worker_poll(t->p.w), AS_ECANCELLED);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(both_are_served),
        TEST(slots_are_those_of_the_worker),
        TEST(frames_concern_their_own_link),
        TEST(the_end_of_the_older_link_is_not_reported),
        TEST(it_hands_over_again_and_again),
        TEST(one_that_is_not_there_changes_nothing),
        TEST(one_that_refuses_changes_nothing),
        TEST(both_links_get_the_goodbye),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
