/* Specification of reservations (core/dispatch/reservation.c): requests that take a slot before
 * they are sent. deployment_world.h explains the log.
 */
#include "deployment_world.h"

#include "core/dispatch/deployment_internal.h"

/* Requests of these letters, all of which reserve. */
static void make_reserving(struct world *w, const char *list)
{
    make_requests(w, list, true, 0);
    for (; *list; list++)
        req(w, *list)->reservation = AS_RESERVATION_WANTED;
}

static void dispatch(struct world *w, char c)
{
    as_deployment_dispatch_reserved(w->d, req(w, c), w->now);
}

static void cancel(struct world *w, char c)
{
    as_deployment_cancel(w->d, req(w, c), w->now);
}

static void test_it_holds_a_slot_until_it_is_sent_and_has_ended(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "x");
    make_requests(w, "ab", true, 0);
    join(w, 'A', 2, 0);
    submit_all(w, "xab");
    expect(w, "x@A a>A");
    assert_int_equal(req(w, 'x')->state, AS_REQ_SENT);
    assert_int_equal(as_deployment_ongoing(w->d), 2);
    assert_int_equal(as_deployment_reserved(w->d), 1);
    dispatch(w, 'x'); /* before b, which has waited */
    expect(w, "x>A");
    assert_int_equal(as_deployment_reserved(w->d), 0);
    assert_int_equal(as_deployment_ongoing(w->d), 2);
    assert_true(done(w, 'x'));
    expect(w, "b>A");
    assert_true(done(w, 'a'));
    assert_true(done(w, 'b'));
    expect(w, "");
    assert_int_equal(as_deployment_stat(w->d)->dispatched, 3);
    assert_int_equal(as_deployment_stat(w->d)->completed, 3);
    world_free(w);
}

static void test_it_waits_in_its_turn(void **state AS_UNUSED)
{
    struct world *w = world_new_with(3, AS_ROUTER_LATE_BINDING);

    make_reserving(w, "xyz");
    make_requests(w, "abc", true, 0);
    req(w, 'y')->priority = 0;
    join(w, 'A', 1, 16);
    submit_all(w, "axb");
    submit_all(w, "y");
    assert_int_equal(submit(w, 'z'), AS_EFULL); /* it counts as queued */
    expect(w, "a>A");
    assert_true(done(w, 'a'));
    expect(w, "y@A"); /* more urgent */
    cancel(w, 'y');
    expect(w, "~y x@A");
    assert_int_equal(as_deployment_queued(w->d), 1);
    cancel(w, 'x');
    expect(w, "~x b>A");
    assert_int_equal(as_deployment_stat(w->d)->cancelled, 2);
    world_free(w);
}

/* What is prefetched would start in the slot that is reserved. */
static void test_nothing_is_prefetched_from_the_first_one_on(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcd", true, 0);
    make_reserving(w, "x");
    join(w, 'A', 1, 16);
    submit_all(w, "a");
    assert_true(done(w, 'a')); /* now its service time is known */
    make_requests(w, "a", true, 0);
    submit_all(w, "ab");
    expect(w, "a>A a>A b>A");
    assert_int_equal(as_deployment_prefetched(w->d), 1);
    submit_all(w, "xc");
    expect(w, "");
    assert_true(done(w, 'a'));
    expect(w, ""); /* b executes now */
    assert_true(done(w, 'b'));
    expect(w, "x@A");
    dispatch(w, 'x');
    assert_true(done(w, 'x'));
    expect(w, "x>A c>A");
    submit_all(w, "d");
    expect(w, "");
    world_free(w);
}

/* Prefetched requests that wait are recalled for another replica; a reserved slot is no request. */
static void test_it_is_not_recalled(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xy");
    join(w, 'A', 2, 0);
    submit_all(w, "xy");
    expect(w, "x@A y@A");
    grant(w, 'A', 1, 0); /* one of them is one too many */
    dispatch(w, 'y');
    join(w, 'B', 1, 0);
    expect(w, "y>A");
    dispatch(w, 'x');
    expect(w, "x>A");
    assert_int_equal(as_deployment_prefetched(w->d), 1);
    assert_true(done(w, 'y'));
    assert_int_equal(as_deployment_prefetched(w->d), 0);
    assert_true(done(w, 'x'));
    expect(w, "");
    world_free(w);
}

static void test_what_waits_is_cancelled_and_expires(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xy");
    req(w, 'y')->deadline = w->now + 10;
    submit_all(w, "xy");
    cancel(w, 'x');
    expect(w, "~x");
    w->now += 10;
    as_deployment_expire(w->d, w->now);
    expect(w, "y=EDEADLINE ~y");
    world_free(w);
}

static void test_a_slot_that_is_not_used_in_time_is_given_back(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xy");
    make_requests(w, "a", true, 0);
    join(w, 'A', 1, 0);
    submit_all(w, "xa");
    expect(w, "x@A");
    assert_true(as_deployment_next_deadline(w->d) == w->now + WORLD_RESERVE_TIME);
    w->now += WORLD_RESERVE_TIME - 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "");
    w->now += 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "x=EUNUSED ~x a>A");
    assert_int_equal(as_deployment_reserved(w->d), 0);
    assert_true(done(w, 'a'));
    submit_all(w, "y");
    w->now += WORLD_RESERVE_TIME - 1;
    as_deployment_expire(w->d, w->now);
    dispatch(w, 'y'); /* in time: the limit does not hold any more */
    w->now += 1;
    as_deployment_expire(w->d, w->now);
    expect(w, "y@A y>A");
    assert_true(as_deployment_next_deadline(w->d) == AS_NEVER);
    assert_true(done(w, 'y'));
    world_free(w);
}

/* Its own deadline holds before and after it is sent. */
static void test_its_deadline_holds(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xyz");
    join(w, 'A', 1, 0);
    req(w, 'x')->deadline = w->now + 10;
    submit_all(w, "x");
    w->now += 10;
    as_deployment_expire(w->d, w->now);
    expect(w, "x@A x=EDEADLINE ~x");
    req(w, 'y')->deadline = w->now + 10;
    submit_all(w, "y");
    w->now += 10;
    dispatch(w, 'y'); /* the timer has not fired yet */
    expect(w, "y@A y=EDEADLINE ~y");
    req(w, 'z')->deadline = w->now + WORLD_RESERVE_TIME + 10;
    submit_all(w, "z");
    dispatch(w, 'z');
    w->now = req(w, 'z')->deadline;
    as_deployment_expire(w->d, w->now);
    expect(w, "z@A z>A z!D z=EDEADLINE");
    assert_false(done(w, 'z'));
    expect(w, "~z");
    assert_int_equal(as_deployment_stat(w->d)->expired, 3);
    world_free(w);
}

static void test_it_ends_with_its_replica(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "uvxyz");
    join(w, 'A', 2, 0);
    submit_all(w, "xyz");
    expect(w, "x@A y@A");
    dispatch(w, 'y');
    assert_int_equal(die(w, 'A', 'y', AS_LOSS_KILLED), 0);
    /* y may have run: never twice; z has waited and is not concerned */
    expect(w, "y>A x=EREPLICA ~x y=EMAYHAVERUN ~y");
    join(w, 'A', 2, 0);
    expect(w, "z@A");
    as_replica_drain(rep(w, 'A'), true, w->now);
    expect(w, "z=EREPLICA ~z");
    submit_all(w, "u");
    as_replica_drain(rep(w, 'A'), false, w->now);
    expect(w, "u@A");
    dispatch(w, 'u');
    assert_int_equal(die(w, 'A', '-', AS_LOSS_KILLED), 0); /* u has not started */
    expect(w, "u>A u=EREPLICA ~u");
    assert_int_equal(as_deployment_ongoing(w->d) + as_deployment_reserved(w->d), 0);
    world_free(w);
}

static void test_it_ends_when_its_replica_is_ejected(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "abcdef", true, 0);
    make_reserving(w, "x");
    join(w, 'A', 2, 0);
    submit_all(w, "x");
    join(w, 'B', 1, 0);
    submit_all(w, "a"); /* B, which has fewer */
    expect(w, "x@A a>B");
    for (char c = 'b'; c <= 'f'; c++) {
        submit_all(w, (char[]){c, '\0'});
        req(w, c)->failed = true;
        w->n = 0;
        if (c == 'f')
            break;
        assert_true(done(w, c));
        expect(w, "");
    }
    assert_true(done(w, 'f')); /* the fifth failure of A alone */
    assert_int_equal(as_replica_breaker(rep(w, 'A')), AS_BREAKER_OPEN);
    expect(w, "x=EREPLICA ~x");
    world_free(w);
}

static void test_a_cap_counts_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "x");
    make_requests(w, "ab", true, 0);
    req(w, 'b')->model = 1;
    assert_int_equal(as_deployment_set_model(w->d, 0, 1), 0);
    join(w, 'A', 2, 16);
    submit_all(w, "xab");
    expect(w, "x@A b>A");
    dispatch(w, 'x');
    assert_true(done(w, 'x'));
    expect(w, "x>A a>A");
    world_free(w);
}

static void test_on_a_cycle_it_takes_no_slot(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "x");
    make_requests(w, "a", true, 0);
    req(w, 'x')->on_cycle = true;
    join(w, 'A', 1, 0);
    submit_all(w, "ax");
    expect(w, "a>A x@A");
    assert_int_equal(as_deployment_ongoing(w->d), 1);
    assert_int_equal(as_deployment_beyond(w->d), 1);
    assert_int_equal(as_deployment_reserved(w->d), 1);
    dispatch(w, 'x');
    assert_true(req(w, 'x')->beyond);
    assert_true(done(w, 'x'));
    expect(w, "x>A");
    world_free(w);
}

static void collect(void *arg, struct as_request *q)
{
    struct world *w = arg;

    note(w, "%c", letter(w, q));
}

static void test_it_executes_only_once_it_is_sent(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xy");
    req(w, 'y')->on_cycle = true;
    make_requests(w, "a", true, 0);
    join(w, 'A', 2, 0);
    submit_all(w, "xya");
    w->n = 0;
    as_replica_each_executing(rep(w, 'A'), collect, w);
    expect(w, "a");
    dispatch(w, 'x');
    w->n = 0;
    as_replica_each_executing(rep(w, 'A'), collect, w);
    expect(w, "a x");
    world_free(w);
}

/* A reservation has no body: what it stands for is compared when it is known. */
static void test_a_suspect_is_found_when_it_is_sent(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_requests(w, "a", false, 7);
    make_reserving(w, "xy");
    req(w, 'x')->kind = 7;
    req(w, 'y')->kind = 8;
    join(w, 'A', 1, 0);
    join(w, 'B', 2, 0);
    submit_all(w, "a");
    assert_int_equal(die(w, 'A', 'a', AS_LOSS_CRASHED), 0);
    w->n = 0;
    if (w->works)
        work(w);
    submit_all(w, "xy");
    expect(w, "x@B y@B");
    dispatch(w, 'x');
    expect(w, "x=ESUSPECT ~x");
    dispatch(w, 'y');
    expect(w, "y>B");
    world_free(w);
}

static void test_a_model_that_is_gone_is_not_sent(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "x");
    assert_int_equal(as_deployment_set_model(w->d, 0, 1), 0);
    join(w, 'A', 2, 0);
    submit_all(w, "x");
    as_replica_set_model(rep(w, 'A'), 0, false, w->now);
    dispatch(w, 'x');
    expect(w, "x@A x=EREPLICA ~x");
    world_free(w);
}

static void test_freeing_the_deployment_ends_it(void **state AS_UNUSED)
{
    struct world *w = world_new();

    make_reserving(w, "xy");
    join(w, 'A', 1, 0);
    submit_all(w, "xy");
    w->n = 0;
    as_deployment_free(w->d);
    w->d = NULL;
    w->log[w->n] = '\0';
    assert_string_equal(w->log, "y=EUNAVAILABLE ~y x=EUNAVAILABLE ~x");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_holds_a_slot_until_it_is_sent_and_has_ended),
        cmocka_unit_test(test_it_waits_in_its_turn),
        cmocka_unit_test(test_nothing_is_prefetched_from_the_first_one_on),
        cmocka_unit_test(test_it_is_not_recalled),
        cmocka_unit_test(test_what_waits_is_cancelled_and_expires),
        cmocka_unit_test(test_a_slot_that_is_not_used_in_time_is_given_back),
        cmocka_unit_test(test_its_deadline_holds),
        cmocka_unit_test(test_it_ends_with_its_replica),
        cmocka_unit_test(test_it_ends_when_its_replica_is_ejected),
        cmocka_unit_test(test_a_cap_counts_it),
        cmocka_unit_test(test_on_a_cycle_it_takes_no_slot),
        cmocka_unit_test(test_it_executes_only_once_it_is_sent),
        cmocka_unit_test(test_a_suspect_is_found_when_it_is_sent),
        cmocka_unit_test(test_a_model_that_is_gone_is_not_sent),
        cmocka_unit_test(test_freeing_the_deployment_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
