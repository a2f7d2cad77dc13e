/* Specification of core/replicas/plan: processes that begin to drain by themselves, since somebody
 * else has sent them SIGTERM. */
#include "plan_world.h"

static void leaves(struct world *w, uint32_t n)
{
    as_replica_slot_leaves(slot_of(w, n), w->now);
}

/* The successor starts at once, with a rank of its own, and serves while the former one still
 * answers what it has. Nothing has failed. */
static void test_the_successor_starts_at_once(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    leaves(&w, 1);
    expect(&w, "-1 +3");
    assert_true(as_replica_slot_facts(slot_of(&w, 1))->retiring);
    assert_int_equal(rank(&w, 1), 1);
    assert_int_equal(rank(&w, 3), 3);
    ready(&w, 3);
    expect(&w, "");
    assert_int_equal(as_plan_running(w.p), 3);
    as_replica_slot_retired(slot_of(&w, 1), w.now);
    expect(&w, "!1");
    died(&w, 1, AS_EXIT_STOPPED);
    expect(&w, "~1 ?3:r1"); /* its rank is free only now */
    answer(&w, 3, true);
    expect(&w, "");
    assert_true(as_plan_is_settled(w.p));
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    world_fini(&w);
}

/* It exits by itself, with a code or by a crash: that is no failure, and nothing waits. */
static void test_it_may_end_in_any_way(void **state_ AS_UNUSED)
{
    const enum as_exit_kind kinds[] = {AS_EXIT_CODE, AS_EXIT_CRASH, AS_EXIT_KILLED, AS_EXIT_OOM};

    for (size_t i = 0; i < AS_COUNT(kinds); i++) {
        struct world w;

        world_healthy(&w);
        leaves(&w, 0);
        expect(&w, "-0 +3");
        died(&w, 0, kinds[i]);
        expect(&w, "~0");
        ready(&w, 3);
        expect(&w, "?3:r0");
        answer(&w, 3, true);
        assert_true(as_plan_is_settled(w.p));
        assert_int_equal(w.status, AS_STATUS_HEALTHY);
        world_fini(&w);
    }
}

/* It has the time of every replica that drains. */
static void test_it_drains_no_longer_than_others(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    leaves(&w, 2);
    ready(&w, 3);
    expect(&w, "-2 +3");
    pass(&w, w.t.policy.drain_interval);
    expect(&w, "-2");
    pass(&w, w.t.policy.drain_timeout);
    assert_int_equal(state(&w, 2), AS_REPLICA_SLOT_STOPPING);
    world_fini(&w);
}

/* All are told to end: there are never more than N + surge processes. */
static void test_successors_beyond_the_surge_wait_for_an_end(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    leaves(&w, 0);
    leaves(&w, 1);
    leaves(&w, 2);
    expect(&w, "-0 +3 -1 -2");
    ready(&w, 3);
    leaves(&w, 3);
    expect(&w, "-3");
    died(&w, 0, AS_EXIT_CODE);
    expect(&w, "~0 +0");
    died(&w, 3, AS_EXIT_CODE);
    died(&w, 1, AS_EXIT_CODE);
    expect(&w, "~3 +3 ~1 +1");
    died(&w, 2, AS_EXIT_CODE);
    expect(&w, "~2");
    calm(&w);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

static void test_the_surge_is_the_deployments(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.surge.n = 2;
    deploy(&w);
    expect(&w, "");
    leaves(&w, 0);
    leaves(&w, 1);
    leaves(&w, 2);
    expect(&w, "-0 +3 -1 +4 -2");
    world_fini(&w);
    world_healthy(&w);
    w.t.policy.has_surge = true; /* with 0 another must have ended first */
    w.t.policy.unavailable.n = 1;
    deploy(&w);
    leaves(&w, 1);
    expect(&w, "-1");
    died(&w, 1, AS_EXIT_CODE);
    expect(&w, "~1 +1");
    world_fini(&w);
}

/* The surge is shared with an update. */
static void test_while_an_update_runs(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.version = 2;
    deploy(&w);
    expect(&w, "UPDATING +3");
    leaves(&w, 0); /* an old one: the new one takes its place */
    expect(&w, "-0");
    ready(&w, 3);
    expect(&w, "");
    died(&w, 0, AS_EXIT_CODE);
    expect(&w, "~0 +0");
    leaves(&w, 3); /* a new one */
    expect(&w, "-3");
    died(&w, 3, AS_EXIT_CODE);
    expect(&w, "~3"); /* the update goes on when slot 0 is ready */
    ready(&w, 0);
    expect(&w, "+3");
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_int_equal(as_plan_stable(w.p)->generation, 2);
    world_fini(&w);
}

/* It is retired already, or is not to be replaced. */
static void test_where_there_is_no_successor(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    leaves(&w, 2); /* asked for by us: it gets SIGTERM when it has retired */
    expect(&w, "");
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    leaves(&w, 2);
    expect(&w, "!2");
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2");
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    leaves(&w, 0);
    expect(&w, "-0 +2");
    as_plan_scale(w.p, 1, false, w.now); /* the successor is not needed any more */
    expect(&w, "DOWNSCALING -2 ?1");
    answer(&w, 1, true);
    died(&w, 0, AS_EXIT_CODE);
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~0 ~2 ?1:r0");
    answer(&w, 1, true);
    expect(&w, "HEALTHY");
    leaves(&w, 1);
    expect(&w, "-1 +0");
    as_plan_delete(w.p, w.now);
    expect(&w, "UPDATING -0");
    died(&w, 0, AS_EXIT_STOPPED);
    died(&w, 1, AS_EXIT_CODE);
    expect(&w, "~0 ~1");
    assert_true(as_plan_is_empty(w.p));
    world_fini(&w);
    world_healthy(&w);
    as_plan_delete(w.p, w.now);
    leaves(&w, 0);
    expect(&w, "UPDATING -2 -1 -0");
    world_fini(&w);
}

/* Whatever the controller believes of its process. */
static void test_in_other_states(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_replica_slot_lost(slot_of(&w, 0), w.now);
    leaves(&w, 0);
    expect(&w, "-0 +3");
    leaves(&w, 3); /* STARTING: its READY was lost with the controller before */
    expect(&w, "-3");
    world_fini(&w);
    world_healthy(&w);
    w.t.generation = w.t.config = 2;
    deploy(&w);
    assert_int_equal(state(&w, 0), AS_REPLICA_SLOT_UPDATING);
    expect(&w, "UPDATING ?0");
    leaves(&w, 0);
    answer(&w, 0, true); /* too late */
    expect(&w, "-0 +3 ?1");
    died(&w, 1, AS_EXIT_KILLED);
    leaves(&w, 2);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->retiring, true);
    leaves(&w, 1); /* it has a new process, or none */
    world_fini(&w);
}

/* The bound holds for the next controller, too: it is told which slots end early. */
static void test_the_next_controller_keeps_the_bound(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts facts[4];
    struct as_replica_slot *slot;
    struct world w, next;

    world_healthy(&w);
    leaves(&w, 0);
    leaves(&w, 1);
    expect(&w, "-0 +3 -1");
    ready(&w, 3);
    for (uint32_t i = 0; i < 4; i++)
        facts[i] = *as_replica_slot_facts(slot_of(&w, i));
    world_fini(&w);
    world_init(&next);
    deploy(&next);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(as_plan_adopt(next.p, &facts[i], next.now, &slot), 0);
    as_plan_set_serving(next.p, true, next.now);
    as_plan_run(next.p, next.now);
    expect(&next, "-0 -1 -0 -1"); /* it cannot know that they were told already */
    died(&next, 0, AS_EXIT_CODE);
    expect(&next, "~0 +0");
    world_fini(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_successor_starts_at_once),
        cmocka_unit_test(test_it_may_end_in_any_way),
        cmocka_unit_test(test_it_drains_no_longer_than_others),
        cmocka_unit_test(test_successors_beyond_the_surge_wait_for_an_end),
        cmocka_unit_test(test_the_surge_is_the_deployments),
        cmocka_unit_test(test_while_an_update_runs),
        cmocka_unit_test(test_where_there_is_no_successor),
        cmocka_unit_test(test_in_other_states),
        cmocka_unit_test(test_the_next_controller_keeps_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
