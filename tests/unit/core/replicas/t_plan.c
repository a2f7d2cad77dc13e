/* Specification of core/replicas/plan: slots and their processes. Ranks, updates and recovery have
 * tests of their own. */
#include "plan_world.h"

static void test_a_deployment_starts(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    deploy(&w);
    expect(&w, "");
    as_plan_run(w.p, w.now);
    expect(&w, "+0 +1 +2");
    as_plan_set_serving(w.p, true, w.now);
    ready(&w, 1);
    ready(&w, 0);
    expect(&w, "");
    ready(&w, 2);
    expect(&w, "*1 HEALTHY");
    assert_int_equal(as_plan_running(w.p), 3);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->starts, 1);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->world, 3);
    world_fini(&w);
}

static void test_a_replica_has_a_name(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    assert_true(as_str_eq(as_replica_slot_name(slot_of(&w, 2)), AS_STR("d-2")));
    world_fini(&w);
}

static void test_bad_targets_are_refused(void **state_ AS_UNUSED)
{
    struct as_plan_target t;
    struct world w;

    world_healthy(&w);
#define REFUSED(field, value, good)                                                                \
    t = usual;                                                                                     \
    t.field = (value);                                                                             \
    assert_non_null(as_plan_check(&t));                                                            \
    assert_int_equal(as_plan_set_target(w.p, &t, w.now), AS_EINVALID);                             \
    t.field = (good);                                                                              \
    assert_null(as_plan_check(&t));
    REFUSED(generation, 0, 1)
    REFUSED(replicas, AS_PLAN_REPLICAS_MAX + 1, AS_PLAN_REPLICAS_MAX)
    REFUSED(policy.roll_percent, 0, 1)
    REFUSED(policy.roll_percent, 101, 100)
    REFUSED(policy.roll_failures, 0, 1)
    REFUSED(policy.drain_interval, 0, 1)
    expect(&w, "");
    assert_int_equal(as_plan_scale(w.p, AS_PLAN_REPLICAS_MAX + 1, false, w.now), AS_EINVALID);
    world_fini(&w);
}

/* The same name and rank; at once, because it was killed from outside after it was ready. */
static void test_a_dead_process_is_replaced_in_its_slot(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 1, AS_EXIT_KILLED);
    expect(&w, "UNHEALTHY");
    pass(&w, 0);
    expect(&w, "+1");
    assert_int_equal(rank(&w, 1), 1);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 1))->starts, 2);
    ready(&w, 1);
    expect(&w, "HEALTHY");
    world_fini(&w);
}

static void test_a_process_that_fails_by_itself_backs_off(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 1, AS_EXIT_CRASH);
    pass(&w, 79 * AS_MS);
    expect(&w, "UNHEALTHY");
    assert_int_equal(state(&w, 1), AS_REPLICA_SLOT_WAITING);
    assert_in_range(as_replica_slot_due(slot_of(&w, 1)), START + 80 * AS_MS, START + 120 * AS_MS);
    pass(&w, 42 * AS_MS);
    expect(&w, "+1");
    world_fini(&w);
}

static void test_a_slot_that_is_given_up_tries_again_later(void **state_ AS_UNUSED)
{
    struct world w;
    as_ns longest = usual.policy.restart.max;

    world_healthy(&w);
    died(&w, 1, AS_EXIT_CODE);
    for (uint32_t i = 0; i < 5; i++) {
        pass(&w, longest);
        expect(&w, i ? "+1" : "UNHEALTHY +1");
        died(&w, 1, AS_EXIT_CODE);
    }
    assert_int_equal(state(&w, 1), AS_REPLICA_SLOT_DOWN);
    assert_int_equal(as_plan_condition(w.p)->trigger, AS_TRIGGER_REPLICA_STARTUP_FAILED);
    pass(&w, longest - 1);
    expect(&w, "");
    pass(&w, 1);
    expect(&w, "+1");
    ready(&w, 1);
    expect(&w, "HEALTHY");
    world_fini(&w);
}

static void test_a_deployment_is_down_when_all_are_given_up(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    w.t.replicas = 2;
    w.t.policy.restart.give_up = 1;
    deploy(&w);
    as_plan_run(w.p, w.now);
    died(&w, 0, AS_EXIT_CODE);
    died(&w, 1, AS_EXIT_CODE);
    expect(&w, "+0 +1 DEPLOY_FAILED DOWN");
    assert_int_equal(as_plan_revive(w.p, w.now), 2);
    expect(&w, "+0 +1"); /* still down until one is READY */
    ready(&w, 1);
    expect(&w, "UP");
    ready(&w, 0);
    expect(&w, "*1 HEALTHY");
    world_fini(&w);
}

static void test_one_that_is_not_ready_in_time_is_killed(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    deploy(&w);
    as_plan_run(w.p, w.now);
    pass(&w, 1000 * AS_SEC); /* no process can become READY yet */
    expect(&w, "+0 +1 +2");
    as_plan_set_serving(w.p, true, w.now);
    ready(&w, 0);
    ready(&w, 1);
    pass(&w, usual.policy.start_timeout - 1);
    expect(&w, "");
    pass(&w, 1);
    expect(&w, "x2");
    died(&w, 2, AS_EXIT_KILLED); /* killed by us because of its fault */
    assert_int_equal(state(&w, 2), AS_REPLICA_SLOT_WAITING);
    assert_true(as_replica_slot_due(slot_of(&w, 2)) > w.now);
    world_fini(&w);
}

static void test_links_that_break_come_back(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_set_serving(w.p, false, w.now); /* the dispatcher is dead */
    pass(&w, 1000 * AS_SEC);
    expect(&w, "");
    assert_int_equal(state(&w, 0), AS_REPLICA_SLOT_LOST);
    as_plan_set_serving(w.p, true, w.now);
    ready(&w, 0);
    ready(&w, 1);
    ready(&w, 2);
    expect(&w, "");
    as_replica_slot_lost(slot_of(&w, 1), w.now);
    assert_int_equal(state(&w, 1), AS_REPLICA_SLOT_LOST);
    pass(&w, usual.policy.start_timeout);
    expect(&w, "x1");
    world_fini(&w);
}

static void lose_for_good(struct world *w, uint32_t n)
{
    as_replica_slot_lost(slot_of(w, n), w->now);
    pass(w, usual.policy.start_timeout);
}

static void test_a_faulty_process_is_killed_and_replaced(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    lose_for_good(&w, 0);
    as_replica_slot_lost(slot_of(&w, 0), w.now); /* no effect: it is being killed */
    expect(&w, "x0");
    died(&w, 0, AS_EXIT_KILLED);
    expect(&w, "UNHEALTHY");
    pass(&w, 120 * AS_MS);
    expect(&w, "+0");
    world_fini(&w);
}

/* --- scale --- */

static void test_more_replicas(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    assert_int_equal(as_plan_scale(w.p, 5, false, w.now), 0);
    expect(&w, "UPSCALING +3 +4 ?0 ?1 ?2"); /* running replicas are sent the new number */
    assert_int_equal(w.to.world, 5);
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_int_equal(as_plan_condition(w.p)->trigger, AS_TRIGGER_UPSCALE_COMPLETED);
    world_fini(&w);
}

static void test_scaling_down_retires_the_highest_ranks(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    assert_int_equal(as_plan_scale(w.p, 1, false, w.now), 0);
    expect(&w, "DOWNSCALING -2 -1 ?0");
    answer(&w, 0, true);
    as_replica_slot_retired(slot_of(&w, 1), w.now); /* idle: at once */
    expect(&w, "!1");
    died(&w, 1, AS_EXIT_STOPPED);
    expect(&w, "~1");
    ends(&w, 2);
    expect(&w, "~2 HEALTHY");
    assert_int_equal(as_plan_condition(w.p)->trigger, AS_TRIGGER_DOWNSCALE_COMPLETED);
    world_fini(&w);
}

static void test_slots_that_do_not_serve_are_retired_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    expect(&w, "UNHEALTHY");
    assert_int_equal(as_plan_scale(w.p, 2, false, w.now), 0);
    expect(&w, "DOWNSCALING ~0 ?1 ?2");
    world_fini(&w);
}

/* It may become ready and get requests at the same time; only the dispatcher knows. */
static void test_one_that_starts_is_retired_like_the_others(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    deploy(&w);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    expect(&w, "+0 +1 +2");
    assert_int_equal(as_plan_scale(w.p, 2, false, w.now), 0);
    expect(&w, "-2");
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    expect(&w, "!2");
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2");
    world_fini(&w);
}

static void test_without_a_dispatcher_nothing_drains(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_set_serving(w.p, false, w.now);
    assert_int_equal(as_plan_scale(w.p, 2, false, w.now), 0);
    expect(&w, "DOWNSCALING !2");
    world_fini(&w);
}

static void test_no_replicas_at_all(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    assert_int_equal(as_plan_scale(w.p, 0, false, w.now), 0);
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_true(as_plan_is_empty(w.p));
    assert_int_equal(as_plan_scale(w.p, 1, false, w.now), 0);
    expect(&w, "UPSCALING +0");
    world_fini(&w);
}

static void test_a_name_is_free_again_when_its_process_is_dead(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now);
    as_plan_scale(w.p, 3, false, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1 UPSCALING +3"); /* not 2: it still drains */
    calm(&w);
    as_plan_scale(w.p, 4, false, w.now);
    expect(&w, "UPSCALING +2 ?0 ?1 ?3");
    world_fini(&w);
}

/* --- the end of a replica --- */

static void test_draining_has_a_timeout(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_delete(w.p, w.now);
    expect(&w, "UPDATING -2 -1 -0");
    ends(&w, 0);
    ends(&w, 1);
    expect(&w, "~0 ~1");
    pass(&w, 2 * AS_SEC - 1);
    expect(&w, "");
    pass(&w, 1);
    expect(&w, "-2"); /* the message may have been lost with a dispatcher */
    pass(&w, 18 * AS_SEC - 1);
    expect(&w, "-2 -2 -2 -2 -2 -2 -2 -2");
    pass(&w, 1);
    expect(&w, "!2");
    pass(&w, usual.policy.stop_timeout);
    expect(&w, ""); /* the receiver of ops.stop sends SIGKILL */
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2");
    assert_true(as_plan_is_empty(w.p));
    world_fini(&w);
}

static void test_one_that_drains_is_not_replaced_when_it_dies(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    died(&w, 2, AS_EXIT_CRASH);
    expect(&w, "~2");
    world_fini(&w);
}

static void test_one_that_drains_and_loses_its_link_is_stopped(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now);
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    as_replica_slot_lost(slot_of(&w, 2), w.now);
    expect(&w, "!2");
    world_fini(&w);
}

static void test_a_killed_one_is_retired_without_another_op(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    lose_for_good(&w, 0);
    as_plan_delete(w.p, w.now);
    expect(&w, "x0 UPDATING -2 -1");
    assert_int_equal(state(&w, 0), AS_REPLICA_SLOT_STOPPING);
    died(&w, 0, AS_EXIT_KILLED);
    expect(&w, "~0");
    world_fini(&w);
}

static void test_a_deleted_deployment_can_be_deployed_again(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_delete(w.p, w.now);
    expect(&w, "UPDATING -2 -1 -0");
    assert_int_equal(as_plan_condition(w.p)->trigger, AS_TRIGGER_DELETING);
    deploy(&w);
    expect(&w, "+3 +4 +5");
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    world_fini(&w);
}

/* --- the start limit --- */

static void test_so_many_start_at_once(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    w.starts.max = 2;
    deploy(&w);
    as_plan_run(w.p, w.now);
    expect(&w, "+0 +1");
    assert_true(as_replica_slot_is_queued(slot_of(&w, 2)));
    assert_int_equal(as_replica_slot_due(slot_of(&w, 2)), AS_NEVER);
    died(&w, 0, AS_EXIT_CODE); /* the next one's turn, however the start ended */
    expect(&w, "+2");
    assert_false(as_replica_slot_is_queued(slot_of(&w, 2)));
    as_plan_set_serving(w.p, true, w.now);
    ready(&w, 1);
    pass(&w, 120 * AS_MS);
    expect(&w, "+0");
    world_fini(&w);
}

static void test_the_start_limit_is_for_all_deployments(void **state_ AS_UNUSED)
{
    struct world w;
    struct as_plan *other;

    world_init(&w);
    w.starts.max = 1;
    w.t.replicas = 2;
    deploy(&w);
    assert_int_equal(as_plan_new(&other, AS_STR("e"), &w.starts, 8, &world_ops, &w), 0);
    assert_int_equal(as_plan_set_target(other, &w.t, w.now), 0);
    as_plan_run(w.p, w.now);
    as_plan_run(other, w.now);
    expect(&w, "+0");
    ready(&w, 0);
    expect(&w, "+1");
    ready(&w, 1); /* an event of one deployment starts a process of another */
    expect(&w, "+0 *1 HEALTHY");
    as_plan_free(other);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_deployment_starts),
        cmocka_unit_test(test_a_replica_has_a_name),
        cmocka_unit_test(test_bad_targets_are_refused),
        cmocka_unit_test(test_a_dead_process_is_replaced_in_its_slot),
        cmocka_unit_test(test_a_process_that_fails_by_itself_backs_off),
        cmocka_unit_test(test_a_slot_that_is_given_up_tries_again_later),
        cmocka_unit_test(test_a_deployment_is_down_when_all_are_given_up),
        cmocka_unit_test(test_one_that_is_not_ready_in_time_is_killed),
        cmocka_unit_test(test_links_that_break_come_back),
        cmocka_unit_test(test_a_faulty_process_is_killed_and_replaced),
        cmocka_unit_test(test_more_replicas),
        cmocka_unit_test(test_scaling_down_retires_the_highest_ranks),
        cmocka_unit_test(test_slots_that_do_not_serve_are_retired_first),
        cmocka_unit_test(test_one_that_starts_is_retired_like_the_others),
        cmocka_unit_test(test_without_a_dispatcher_nothing_drains),
        cmocka_unit_test(test_no_replicas_at_all),
        cmocka_unit_test(test_a_name_is_free_again_when_its_process_is_dead),
        cmocka_unit_test(test_draining_has_a_timeout),
        cmocka_unit_test(test_one_that_drains_is_not_replaced_when_it_dies),
        cmocka_unit_test(test_one_that_drains_and_loses_its_link_is_stopped),
        cmocka_unit_test(test_a_killed_one_is_retired_without_another_op),
        cmocka_unit_test(test_a_deleted_deployment_can_be_deployed_again),
        cmocka_unit_test(test_so_many_start_at_once),
        cmocka_unit_test(test_the_start_limit_is_for_all_deployments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
