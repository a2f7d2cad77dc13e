/* Specification of how suspects and other requests share the replicas:
 * core/dispatch/faults/quarantine.h. deployment_world.h explains the log.
 */
#include "deployment_world.h"

#include "core/dispatch/deployment_internal.h"

/* --- waiting --- */

/* One crash makes all executing requests suspects, and there is one replica. Requests that wait
 * when a suspect is done go before the next suspect. */
static void test_others_go_on_between_suspects(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcuvwxyz", true, 0);
    join(w, 'A', 4, 0);
    submit_all(w, "abc");
    die(w, 'A', 'c', AS_LOSS_CRASHED);
    submit_all(w, "xy");
    w->n = 0;
    join(w, 'B', 4, 0);
    submit_all(w, "z");
    expect(w, "x>B y>B");
    done(w, 'x');
    expect(w, "");
    done(w, 'y');
    expect(w, "a>B");
    submit_all(w, "uv");
    done(w, 'a');
    expect(w, "z>B u>B v>B");
    submit_all(w, "w"); /* arrived later: it waits until the next suspect is done */
    done(w, 'z');
    done(w, 'u');
    done(w, 'v');
    expect(w, "b>B");
    done(w, 'b');
    expect(w, "w>B");
    done(w, 'w');
    expect(w, "c>B");
    done(w, 'c');
    assert_int_equal(as_deployment_suspects(w->d), 0);
    world_free(w);
}

static void test_waiting_suspects_may_leave(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "ab");
    req(w, 'a')->deadline = AS_NEVER;
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    w->n = 0;
    submit(w, 'c');
    as_deployment_cancel(w->d, req(w, 'a'),
                         w->now); /* B, which was reserved for it, serves others again */
    done(w, 'b');
    expect(w, "~a c>B");
    world_free(w);
}

static void test_a_deployment_that_is_down_runs_no_suspects(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 5);
    join(w, 'A', 1, 0);
    submit_all(w, "ab");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    assert_int_equal(as_deployment_suspects(w->d), 2);
    w->n = 0;
    as_deployment_set_down(w->d, true, w->now);
    expect(w, "b=EUNAVAILABLE ~b a=EUNAVAILABLE ~a");
    world_free(w);
}

static void test_a_draining_replica_is_not_reserved(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    for (char r = 'A'; r <= 'C'; r++)
        join(w, r, 1, 0);
    submit_all(w, "abc");
    w->n = 0;
    die(w, 'A', 'a', AS_LOSS_CRASHED); /* B is reserved for a */
    as_replica_drain(rep(w, 'B'), true, w->now);
    done(w, 'b');
    expect(w, "");
    done(w, 'c');
    expect(w, "a>C");
    world_free(w);
}

static void test_suspects_count_in_the_queue(void **state AS_UNUSED)
{
    struct world *w = world_new_with(2, AS_ROUTER_LATE_BINDING);

    make_requests(w, "abcd", true, 5);
    join(w, 'A', 1, 0);
    submit_all(w, "ab");
    die(w, 'A', 'a', AS_LOSS_CRASHED); /* b waits, and a waits again */
    assert_int_equal(submit(w, 'c'), AS_EFULL);
    world_free(w);
}

/* It may end another worker before the cause of the first death is known. */
static void test_no_request_like_it_runs_before_the_verdict(void **state AS_UNUSED)
{
    static const enum as_loss losses[] = {AS_LOSS_CRASHED, AS_LOSS_KILLED, AS_LOSS_PENDING};

    for (size_t i = 0; i < AS_COUNT(losses); i++) {
        struct world *w = world_new();
        uint64_t verdict;

        make_requests(w, "ab", false, 7);
        for (char r = 'A'; r <= 'D'; r++)
            join(w, r, 1, 0);
        submit_all(w, "a");
        die(w, 'A', 'a', AS_LOSS_CRASHED);
        make_requests(w, "a", false, 7);
        submit_all(w, "ab");
        w->n = 0;
        verdict = die(w, 'B', 'a', AS_LOSS_PENDING);
        expect(w, "a=EMAYHAVERUN");
        if (losses[i] == AS_LOSS_PENDING) { /* the cause is never reported */
            w->now += 25 * AS_MS;
            as_deployment_expire(w->d, w->now);
        } else {
            as_deployment_verdict(w->d, verdict, losses[i], w->now);
        }
        expect(w, losses[i] == AS_LOSS_CRASHED  ? "~a b=EPOISON ~b"
                  : losses[i] == AS_LOSS_KILLED ? "b>C ~a"
                                                : "~a b>C");
        world_free(w);
    }
}

/* Its worker has not run it, which proves nothing. */
static void test_a_suspect_that_is_handed_back_is_not_cleared(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "ab", true, 7);
    join(w, 'A', 1, 0);
    join(w, 'B', 1, 0);
    submit_all(w, "a");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    for (uint32_t i = 0; i < AS_REQUEST_RETRIES; i++)
        assert_false(done_with(w, 'a', 0, true));
    assert_true(done_with(w, 'a', 0, true)); /* its error goes to the client */
    submit_all(w, "b");
    assert_non_null(req(w, 'b')->blame);
    world_free(w);
}

static void test_an_ejected_replica_is_not_reserved(void **state AS_UNUSED)
{
    for (int slots = 0; slots < 2; slots++) {
        struct world *w = world_new();

        make_requests(w, "abcdefgh", true, 0);
        join(w, 'A', 1, 0);
        join(w, 'B', 1, 0);
        join(w, 'C', 9, 0);
        submit_all(w, "a");
        as_replica_drain(rep(w, 'C'), true, w->now);
        submit_all(w, "b");
        as_replica_drain(rep(w, 'C'), false, w->now);
        submit_all(w, "cdefgh");
        assert_ptr_equal(req(w, 'b')->replica, rep(w, 'B'));
        die(w, 'A', 'a', AS_LOSS_CRASHED);
        assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_RESERVED);
        if (slots) {
            grant(w, 'B', 0, 0);
        } else { /* it fails five times in a row */
            rep(w, 'B')->breaker.streak = 4;
            req(w, 'b')->failed = true;
        }
        w->n = 0;
        done(w, 'b');
        expect(w, "");
        assert_int_not_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_ALONE);
        world_free(w);
    }
}

/* --- turns --- */

/* While no other request waits, a replica may be reserved again and again. */
static void test_an_idle_replica_runs_one_suspect_after_the_other(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abc", true, 0);
    join(w, 'A', 4, 0);
    submit_all(w, "abc");
    die(w, 'A', 'c', AS_LOSS_CRASHED);
    w->n = 0;
    join(w, 'B', 4, 0);
    done(w, 'a');
    done(w, 'b');
    done(w, 'c');
    expect(w, "a>B b>B c>B");
    world_free(w);
}

/* Requests that leave the queue in another way have no turn any more. */
static void test_requests_that_left_have_no_turn(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abvwxyz", true, 0);
    join(w, 'A', 4, 0);
    submit_all(w, "ab");
    die(w, 'A', 'b', AS_LOSS_CRASHED);
    join(w, 'B', 1, 0);
    submit_all(w, "vwxyz");
    w->n = 0;
    done(w, 'a'); /* five have their turn: one is sent, four wait */
    expect(w, "v>B");
    for (const char *c = "wxyz"; *c; c++)
        as_deployment_cancel(w->d, req(w, *c), w->now);
    assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_RESERVED);
    make_requests(w, "x", true, 0);
    submit_all(w, "x"); /* it has not waited for a suspect yet */
    w->n = 0;
    done(w, 'v');
    expect(w, "b>B");
    done(w, 'b');
    expect(w, "x>B");
    world_free(w);
}

/* A is busy with e, and d waits for X, the only replica that serves model 1. The suspect b waits
 * until both have had their turn. */
static struct world *turn_of_a_request_for_another_replica(bool has_fallback)
{
    struct world *w = world_new();

    make_requests(w, "abef", true, 0);
    make_requests(w, "cd", false, 0);
    req(w, 'c')->model = req(w, 'd')->model = 1;
    req(w, 'd')->has_fallback = has_fallback;
    join(w, 'K', 2, 0);
    submit_all(w, "ab");
    die(w, 'K', 'b', AS_LOSS_CRASHED);
    join(w, 'A', 0, 0);
    as_replica_set_model(rep(w, 'A'), 1, false, w->now);
    grant(w, 'A', 1, 0);
    join(w, 'X', 1, 0);
    submit_all(w, "cde");
    w->n = 0;
    done(w, 'a');
    expect(w, "e>A");
    return w;
}

/* Nobody is left whose turn it is: A is reserved for b, and f, which comes later, waits. */
static void expect_turn_of_suspect(struct world *w)
{
    assert_int_equal(as_replica_quarantine(rep(w, 'A')), AS_QUARANTINE_RESERVED);
    submit_all(w, "f");
    done(w, 'e');
    expect(w, "b>A");
    world_free(w);
}

static void test_those_that_fall_back_have_no_turn(void **state AS_UNUSED)
{
    struct world *w = turn_of_a_request_for_another_replica(true);

    die(w, 'X', 'c', AS_LOSS_KILLED);
    expect(w, "c=EMAYHAVERUN ~c d=EUNAVAILABLE ~d");
    expect_turn_of_suspect(w);
}

static void test_those_of_a_dropped_model_have_no_turn(void **state AS_UNUSED)
{
    struct world *w = turn_of_a_request_for_another_replica(false);

    as_replica_set_model(rep(w, 'X'), 1, false, w->now);
    as_deployment_drop_model(w->d, 1, w->now);
    expect(w, "d=EUNAVAILABLE ~d");
    expect_turn_of_suspect(w);
}

static struct as_router_choice only(struct world *w, char r)
{
    struct as_router_choice c = {.n = 1};

    c.of[0].replica = rep(w, r);
    return c;
}

/* The answer of the user's router comes after the deadline of d, for which it was asked. */
static void test_those_that_a_router_answers_too_late_have_no_turn(void **state AS_UNUSED)
{
    struct as_router_conf conf = AS_ROUTER_CONF_DEFAULT;
    struct as_router_choice late;
    struct world *w;

    conf.asks = true;
    w = world_new_conf(-1, &conf);
    make_requests(w, "abcdef", true, 0);
    join(w, 'K', 2, 0);
    w->choice = only(w, 'K');
    submit_all(w, "ab");
    die(w, 'K', 'b', AS_LOSS_CRASHED);
    join(w, 'A', 1, 0);
    join(w, 'X', 1, 0);
    late = w->choice = only(w, 'X');
    submit_all(w, "c");
    w->choice = only(w, 'A');
    submit_all(w, "e");
    w->choice.n = 0;
    req(w, 'd')->deadline = w->now + AS_MS;
    submit_all(w, "d");
    w->n = 0;
    done(w, 'a'); /* d and e have their turn */
    expect(w, "e>A");
    w->now += AS_MS;
    as_deployment_routed(w->d, req(w, 'd'), &late, w->now);
    expect(w, "d=EDEADLINE ~d");
    assert_int_equal(as_replica_quarantine(rep(w, 'A')), AS_QUARANTINE_RESERVED);
    world_free(w);
}

/* Under overload the queue is never empty: a suspect has its turn each time that the requests that
 * waited have been sent. */
static void test_suspects_have_turns_under_overload(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abwxyz", true, 0);
    join(w, 'A', 4, 0);
    submit_all(w, "ab");
    die(w, 'A', 'b', AS_LOSS_CRASHED);
    join(w, 'B', 1, 0);
    submit_all(w, "xy");
    w->n = 0;
    done(w, 'a');
    submit_all(w, "zw"); /* after the two that have their turn */
    done(w, 'x');
    done(w, 'y');
    expect(w, "x>B y>B b>B");
    done(w, 'b');
    expect(w, "z>B");
    world_free(w);
}

/* --- limits --- */

static void at(struct world *w, as_ns when)
{
    assert_true(as_deployment_next_deadline(w->d) >= w->now);
    w->now = when;
    as_deployment_expire(w->d, w->now);
}

/* a is a suspect for which B is reserved while B has x. */
static struct world *reserved_world(void)
{
    struct world *w = world_new();

    make_requests(w, "axyz", true, 0);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    submit_all(w, "ax");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_RESERVED);
    submit_all(w, "y");
    w->n = 0;
    return w;
}

static void test_a_replica_that_does_not_get_idle_is_released(void **state AS_UNUSED)
{
    struct world *w = reserved_world();
    as_ns since = w->now;

    assert_true(as_deployment_next_deadline(w->d) == since + 2 * AS_SEC);
    at(w, since + 2 * AS_SEC - 1);
    expect(w, "");
    at(w, since + 2 * AS_SEC);
    expect(w, "y>B");
    /* it serves others for as long, and is then reserved again */
    assert_true(as_deployment_next_deadline(w->d) == since + 4 * AS_SEC);
    at(w, since + 4 * AS_SEC - 1);
    submit_all(w, "z");
    expect(w, "z>B");
    at(w, since + 4 * AS_SEC);
    assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_RESERVED);
    done(w, 'x');
    done(w, 'y');
    done(w, 'z');
    expect(w, "a>B");
    world_free(w);
}

static void test_quarantine_does_not_last_for_ever(void **state AS_UNUSED)
{
    struct world *w = reserved_world();
    as_ns since;

    done(w, 'x');
    since = w->now;
    expect(w, "a>B");
    at(w, since + 2 * AS_SEC - 1);
    expect(w, "");
    at(w, since + 2 * AS_SEC);
    expect(w, "y>B");
    assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_SHARED);
    assert_true(done(w, 'a')); /* it is no suspect any more, since it ended well, late or not */
    make_requests(w, "a", true, 0);
    submit_all(w, "a");
    expect(w, "a>B");
    world_free(w);
}

/* A request that hangs shows it only after the execution timeout. */
static void test_it_may_run_for_twice_as_long_as_before_its_worker_ended(void **state AS_UNUSED)
{
    static const as_ns ran[][2] = {
        {AS_SEC, 2 * AS_SEC}, {AS_SEC + 1, 2 * AS_SEC + 2}, {40 * AS_SEC, AS_QUARANTINE_MAX}};

    for (size_t i = 0; i < AS_COUNT(ran); i++) {
        struct world *w = world_new();
        as_ns since;

        make_requests(w, "ay", true, 0);
        join(w, 'A', 4, 0);
        join(w, 'B', 4, 0);
        submit_all(w, "a");
        w->now += ran[i][0];
        die(w, 'A', 'a', AS_LOSS_CRASHED);
        since = w->now;
        submit_all(w, "y");
        w->n = 0;
        at(w, since + ran[i][1] - 1);
        expect(w, "");
        at(w, since + ran[i][1]);
        expect(w, "y>B");
        world_free(w);
    }
}

/* If no other request came it was alone to the end. */
static void test_a_death_after_that_proves_something_while_it_is_alone(void **state AS_UNUSED)
{
    for (int alone = 0; alone < 2; alone++) {
        struct world *w = reserved_world();

        done(w, 'x');
        if (alone)
            as_deployment_cancel(w->d, req(w, 'y'), w->now);
        join(w, 'C', 1, 0);
        w->n = 0;
        at(w, w->now + 2 * AS_SEC);
        assert_int_equal(rep(w, 'B')->quarantine.state, AS_QUARANTINE_SHARED);
        if (!alone) {
            submit_all(w, "z");
            assert_ptr_equal(req(w, 'z')->replica, rep(w, 'B'));
        }
        w->n = 0;
        die(w, 'B', 'a', AS_LOSS_CRASHED);
        assert_int_equal(req(w, 'a')->state == AS_REQ_DONE, alone);
        world_free(w);
    }
}

static void test_a_suspect_that_waits_too_long_is_refused(void **state AS_UNUSED)
{
    struct world *w = world_new();
    as_ns since;

    make_requests(w, "ab", true, 7);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    submit_all(w, "a");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    since = w->now;
    submit_all(w, "b"); /* like a, which is in quarantine and does not end */
    w->n = 0;
    at(w, since + 30 * AS_SEC - 1);
    expect(w, "");
    at(w, since + 30 * AS_SEC);
    expect(w, "b=ESUSPECT ~b");
    assert_int_equal(as_deployment_stat(w->d)->replays_refused, 0);
    world_free(w);
}

/* It may have been executed. And no suspect is refused while no replica serves: all requests wait
 * for one then. */
static void test_the_time_counts_from_when_there_is_a_replica(void **state AS_UNUSED)
{
    struct world *w = world_new();
    as_ns since;

    make_requests(w, "ab", true, 0);
    join(w, 'A', 4, 0);
    submit_all(w, "ab");
    die(w, 'A', 'b', AS_LOSS_CRASHED);
    assert_true(as_deployment_next_deadline(w->d) == AS_NEVER);
    w->now += 100 * AS_SEC;
    join(w, 'B', 4, 0);
    w->n = 0;
    since = w->now;
    at(w, since + 30 * AS_SEC - 1);
    expect(w, "");
    assert_int_equal(as_deployment_suspects(w->d), 1);
    at(w, since + 30 * AS_SEC);
    expect(w, "b=EMAYHAVERUN ~b");
    assert_int_equal(as_deployment_stat(w->d)->replays_refused, 1);
    world_free(w);
}

/* A suspect that runs is not refused, however long it takes. */
static void test_a_suspect_that_runs_is_not_refused(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", true, 0);
    join(w, 'A', 4, 0);
    join(w, 'B', 4, 0);
    submit_all(w, "a");
    die(w, 'A', 'a', AS_LOSS_CRASHED);
    w->n = 0;
    at(w, w->now + 31 * AS_SEC);
    expect(w, "");
    assert_true(done(w, 'a'));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_go_on_between_suspects),
        cmocka_unit_test(test_waiting_suspects_may_leave),
        cmocka_unit_test(test_a_deployment_that_is_down_runs_no_suspects),
        cmocka_unit_test(test_a_draining_replica_is_not_reserved),
        cmocka_unit_test(test_suspects_count_in_the_queue),
        cmocka_unit_test(test_no_request_like_it_runs_before_the_verdict),
        cmocka_unit_test(test_a_suspect_that_is_handed_back_is_not_cleared),
        cmocka_unit_test(test_an_ejected_replica_is_not_reserved),
        cmocka_unit_test(test_an_idle_replica_runs_one_suspect_after_the_other),
        cmocka_unit_test(test_requests_that_left_have_no_turn),
        cmocka_unit_test(test_those_that_fall_back_have_no_turn),
        cmocka_unit_test(test_those_of_a_dropped_model_have_no_turn),
        cmocka_unit_test(test_those_that_a_router_answers_too_late_have_no_turn),
        cmocka_unit_test(test_suspects_have_turns_under_overload),
        cmocka_unit_test(test_a_replica_that_does_not_get_idle_is_released),
        cmocka_unit_test(test_quarantine_does_not_last_for_ever),
        cmocka_unit_test(test_it_may_run_for_twice_as_long_as_before_its_worker_ended),
        cmocka_unit_test(test_a_death_after_that_proves_something_while_it_is_alone),
        cmocka_unit_test(test_a_suspect_that_waits_too_long_is_refused),
        cmocka_unit_test(test_the_time_counts_from_when_there_is_a_replica),
        cmocka_unit_test(test_a_suspect_that_runs_is_not_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
