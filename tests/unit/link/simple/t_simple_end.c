/* link/simple: connections that end, and their requests. */
#include "simple_world.h"

static void test_closed_without_an_answer(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t); /* it has all of it */
    hand_hang_up(&h, 0);
    check_failed(&c, AS_EMAYHAVERUN);
    assert_true(logged("closed without an answer"));
    drop(&t);
    end_with(&h);
}

static void test_closed_in_the_middle_of_an_answer(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, "\0\0\0\7abc", 7);
    hand_hang_up(&h, 0);
    check_failed(&c, AS_EMAYHAVERUN);
    assert_true(logged("closed in the middle of an answer"));
    drop(&t);
    end_with(&h);
}

static void test_an_idempotent_request_is_repeated(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, true);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, "\0\0\0\7abc", 7);
    hand_hang_up(&h, 0);
    hand_accept_live(&h, 1);
    hand_serve(&h, 1);
    check_good(&c);
    drop(&t);
    end_with(&h);
}

/* Each time the worker has had all of it: it has run as often as --retry-attempts allows. */
static void test_it_is_not_repeated_without_end(void **state AS_UNUSED)
{
    const struct as_stat *stat;
    struct call c;
    struct hand h;
    uint32_t n = 0;

    begin_alone(&h, true);
    stat = as_deployment_stat(w.fleet->deploys[0]->core);
    submit(&c, 1);
    while (!c.releases) {
        struct taken t;

        if (h.conn[0] < 0 && take_live_conn(&h, 0) < 0) {
            turn();
            continue;
        }
        hand_take(&h, 0, &t);
        drop(&t);
        hand_hang_up(&h, 0);
        n++;
        for (int i = 0; i < 3; i++)
            turn();
    }
    check_failed(&c, AS_EMAYHAVERUN);
    assert_int_equal(n, 3);
    assert_int_equal(c.call.core.tries, 2);
    assert_int_equal(stat->replayed, 2);
    assert_int_equal(stat->lost, 1);
    assert_int_equal(stat->replays_refused, 1);
    assert_int_equal(stat->failed, 1);
    end_with(&h);
}

/* Eight at once, each on a connection of its own. */
static void test_a_worker_that_dies_loses_all_and_all_run_again(void **state AS_UNUSED)
{
    for (int lives = 0; lives < 2; lives++) {
        struct call c[CONNS];
        struct taken t;
        struct hand h;
        uint32_t lost = 0;

        set_up(state);
        begin_with(usual());
        hand_open(&h, "a");
        h.slots = CONNS;
        hand_join(&h, true);
        for (int i = 0; i < CONNS; i++) {
            submit(&c[i], (uint8_t)i);
            hand_accept(&h, i);
        }
        for (int i = 0; i < CONNS; i++) {
            hand_take(&h, i, &t);
            drop(&t);
        }
        if (!lives) {
            close(h.listener);
            h.listener = -1;
        }
        for (int i = 0; i < CONNS; i++)
            hand_hang_up(&h, i);
        UNTIL(lives ? c[CONNS - 1].answers : state_is("lost"));
        for (int i = 0; i < CONNS; i++)
            lost += c[i].answers == 1 && c[i].err == AS_EMAYHAVERUN;
        /* of one that lives, and breaks its connections, few at a time: --retry-budget-min */
        assert_int_equal(lost, lives ? CONNS - 3 : 0);
        for (int i = 0; i < CONNS; i++) {
            if (!c[i].releases)
                as_fleet_client_cancel(&w.client, &c[i].call);
        }
        end_with(&h);
        tear_down(state);
    }
}

/* The next one may not run twice: it is told that this one has run. */
static void test_what_has_run_does_not_leave_for_another_deployment(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, true);
    submit(&c, 1);
    c.call.core.has_fallback = true;
    hand_take(&h, 0, &t);
    close(h.listener);
    h.listener = -1;
    hand_hang_up(&h, 0);
    UNTIL(state_is("lost"));
    assert_false(c.answers); /* it waits for the next worker of this one */
    assert_true(c.call.core.ran);
    as_fleet_client_cancel(&w.client, &c.call);
    UNTIL(c.releases);
    drop(&t);
    end_with(&h);
}

static enum as_breaker_state breaker_of(const char *name)
{
    struct as_fleet *f = w.fleet;

    AS_LIST_EACH(n, &f->upstreams)
    {
        struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        if (as_str_eq(as_str_of(u->name), as_str_of(name)))
            return as_replica_breaker(u->replica);
    }
    return AS_BREAKER_CLOSED;
}

/* Takes what comes to a and hangs up; b answers. True: c has its answer. */
static bool step(struct hand *a, struct hand *b, const struct call *c, uint32_t *broken)
{
    struct taken t;

    if (a->conn[0] < 0)
        take_live_conn(a, 0);
    if (a->conn[0] >= 0 && peek(a->conn[0], 4)) {
        hand_take(a, 0, &t);
        drop(&t);
        hand_hang_up(a, 0);
        ++*broken;
    } else if (peek(b->conn[0], 4)) {
        hand_serve(b, 0);
    }
    return c->releases;
}

/* It fails alone, and is taken out like any other replica: core/protect/breaker.h. */
static void test_a_worker_that_breaks_its_connections_is_taken_out(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct hand a, b;
    uint32_t broken = 0;

    conf.deployment.breaker = (struct as_breaker_conf){5, 3, 60 * AS_SEC, 60 * AS_SEC};
    conf.deployment.outlier = (struct as_outlier_conf){.percent = 50};
    begin_alone_with(conf, &a, true);
    hand_open(&b, "b");
    hand_join(&b, true);
    hand_accept(&b, 0);
    for (int i = 0; i < 40 && breaker_of("a") == AS_BREAKER_CLOSED; i++) {
        struct call c;

        submit(&c, 1);
        UNTIL(step(&a, &b, &c, &broken));
        check_good(&c);
    }
    assert_int_equal(breaker_of("a"), AS_BREAKER_OPEN);
    assert_int_equal(broken, 5);
    end();
    hand_close(&a);
    hand_close(&b);
}

/* The kernel tells that bytes of it were left unread, so no handler has seen it. */
static void test_a_request_that_was_not_read_is_repeated(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;
    uint8_t some[6];

    begin_alone(&h, false);
    submit(&c, 1);
    UNTIL(peek(h.conn[0], sizeof(some)));
    assert_int_equal(recv(h.conn[0], some, sizeof(some), 0), sizeof(some));
    hand_hang_up(&h, 0);
    hand_accept(&h, 1);
    hand_serve(&h, 1);
    check_good(&c);
    assert_false(logged("worker_fault"));
    end_with(&h);
}

/* A worker that never reads what it accepts does not make it go round for ever. */
static void test_repeating_ends(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;
    int n = 0;

    begin_alone(&h, false);
    submit(&c, 1);
    while (!c.releases) {
        if (h.conn[0] < 0 && take_conn(&h, 0) < 0) {
            turn();
            continue;
        }
        UNTIL(peek(h.conn[0], 1) || c.releases);
        hand_hang_up(&h, 0);
        n++;
    }
    check_failed(&c, AS_EUNAVAILABLE);
    assert_int_equal(n, 1 + AS_REQUEST_RETRIES);
    end_with(&h);
}

static void test_a_connection_that_ends_while_it_rests(void **state AS_UNUSED)
{
    struct hand h;

    begin_alone(&h, false);
    exchange(&h, 0);
    /* the loop has not heard of it when the next request is sent */
    hand_hang_up(&h, 0);
    exchange_anew(&h, 1);
    /* or it has */
    hand_hang_up(&h, 1);
    UNTIL((replicas(), shown.connections == 0));
    assert_true(state_is("ready"));
    end_with(&h);
}

static void test_a_connection_that_rests_too_long(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct hand h;

    conf.simple_idle = 30 * AS_MS;
    begin_alone_with(conf, &h, false);
    exchange(&h, 0);
    UNTIL(ended(h.conn[0]));
    assert_int_equal(as_simple_stat(w.fleet).idle, 1);
    assert_true(state_is("ready"));
    end_with(&h);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_closed_without_an_answer),
        T(test_closed_in_the_middle_of_an_answer),
        T(test_an_idempotent_request_is_repeated),
        T(test_it_is_not_repeated_without_end),
        T(test_a_worker_that_dies_loses_all_and_all_run_again),
        T(test_what_has_run_does_not_leave_for_another_deployment),
        T(test_a_worker_that_breaks_its_connections_is_taken_out),
        T(test_a_request_that_was_not_read_is_repeated),
        T(test_repeating_ends),
        T(test_a_connection_that_ends_while_it_rests),
        T(test_a_connection_that_rests_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
