/* Specification of core/replicas/plan: restarts by hand that fail. */
#include "plan_world.h"

/* Replicas that serve stay, and the restart does not go on by itself, even if it would work now. */
static void test_a_restart_that_fails_is_over(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_restart(w.p, w.now);
    expect(&w, "UPDATING +3");
    for (uint32_t i = 0; i < 2; i++) {
        died(&w, 3, AS_EXIT_CODE);
        pass(&w, AS_SEC);
    }
    assert_true(as_replica_slot_facts(slot_of(&w, 0))->stale);
    w.notes = 0;
    died(&w, 3, AS_EXIT_CODE);
    assert_null(find_place(&w, 3));
    assert_int_equal(w.notes, 3); /* the next controller does not go on with it either */
    for (uint32_t i = 0; i < 3; i++)
        assert_false(as_replica_slot_facts(slot_of(&w, i))->stale);
    assert_int_equal(w.status, AS_STATUS_DEPLOY_FAILED);
    assert_true(as_plan_condition(w.p)->rolled_back);
    assert_int_equal(as_plan_next_due(w.p), AS_NEVER);
    pass(&w, 3600 * AS_SEC);
    assert_int_equal(w.status, AS_STATUS_DEPLOY_FAILED);
    assert_int_equal(as_plan_running(w.p), 3);
    /* until somebody asks for it */
    as_plan_restart(w.p, w.now);
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_null(find_place(&w, 0));
    world_fini(&w);
}

/* A replica that was replaced already stays; those that were not are kept. */
static void test_a_restart_that_fails_half_way_keeps_the_rest(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.roll_failures = 1;
    deploy(&w);
    as_plan_restart(w.p, w.now);
    ready(&w, 3);
    ends(&w, 2);
    assert_int_equal(state(&w, 2), AS_REPLICA_SLOT_STARTING); /* the number is used again */
    assert_false(as_replica_slot_facts(slot_of(&w, 2))->stale);
    died(&w, 2, AS_EXIT_CODE);
    assert_null(find_place(&w, 2));
    calm(&w);
    assert_true(find_place(&w, 3));
    assert_true(find_place(&w, 0) && find_place(&w, 1));
    assert_int_equal(w.status, AS_STATUS_DEPLOY_FAILED);
    assert_int_equal(as_plan_running(w.p), 3);
    world_fini(&w);
}

/* A replica that refuses a configure must be replaced, or it would be sent the same one again and
 * again. */
static void test_a_slot_that_refuses_is_replaced(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 2, false, w.now); /* the others are sent the new number of replicas */
    expect(&w, "DOWNSCALING -2 ?0 ?1");
    ends(&w, 2);
    as_replica_slot_configured(slot_of(&w, 0), w.ask - 1, true, AS_STR(""), w.now);
    answer(&w, 1, false); /* the replica that was sent the last configure */
    for (uint32_t i = 0; i < 3; i++) {
        died(&w, 2, AS_EXIT_CODE);
        pass(&w, AS_SEC);
    }
    assert_true(as_replica_slot_facts(slot_of(&w, 1))->stale);
    assert_non_null(find_place(&w, 2));
    world_fini(&w);
}

/* With --no-update-rollback, or if no old replica is left, it is tried on and on. */
static void test_a_restart_that_has_nothing_to_keep_goes_on(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.roll_failures = 1;
    w.t.policy.roll_back = false;
    deploy(&w);
    as_plan_restart(w.p, w.now);
    died(&w, 3, AS_EXIT_CODE);
    assert_true(as_replica_slot_facts(slot_of(&w, 0))->stale);
    assert_int_equal(w.status, AS_STATUS_DEPLOY_FAILED);
    assert_false(as_plan_condition(w.p)->rolled_back);
    pass(&w, AS_SEC);
    ready(&w, 3);
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_null(find_place(&w, 0));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restart_that_fails_is_over),
        cmocka_unit_test(test_a_restart_that_fails_half_way_keeps_the_rest),
        cmocka_unit_test(test_a_slot_that_refuses_is_replaced),
        cmocka_unit_test(test_a_restart_that_has_nothing_to_keep_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
