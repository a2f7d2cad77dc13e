/* Specification of updates in core/replicas/plan: a new replica is available before an old one is
 * retired, and a failed update is rolled back. */
#include "plan_world.h"

/* Generation 2 of version 2 with three replicas. */
static void update(struct world *w)
{
    w->t.generation = w->t.version = 2;
    deploy(w);
}

static void test_surge_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    expect(&w, "UPDATING +3"); /* one more than N, and none is retired yet */
    ready(&w, 3);
    expect(&w, "-2");
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    expect(&w, "!2"); /* there are four processes until it is dead */
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2 +2");
    ready(&w, 2);
    expect(&w, "-1");
    ends(&w, 1);
    expect(&w, "~1 +1");
    ready(&w, 1);
    expect(&w, "-0");
    ends(&w, 0);
    expect(&w, "~0 ?3:r0");
    answer(&w, 3, true);
    expect(&w, "*2 HEALTHY");
    assert_int_equal(as_plan_condition(w.p)->trigger, AS_TRIGGER_CONFIG_UPDATE_COMPLETED);
    assert_int_equal(as_plan_stable(w.p)->generation, 2);
    assert_int_equal(as_plan_previous(w.p)->generation, 1);
    world_fini(&w);
}

static void test_so_many_at_once(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 10, false, w.now);
    calm(&w);
    w.t.replicas = 10;
    update(&w);
    expect(&w, "UPDATING +10 +11"); /* 20 % of 10 */
    ready(&w, 10);
    expect(&w, "-9");
    ready(&w, 11);
    expect(&w, "-8");
    w.t.policy.roll_percent = 100;
    w.t.generation = 3;
    deploy(&w);
    expect(&w, "+12 +13 +14 +15 +16 +17 +18 +19");
    world_fini(&w);
}

static void test_a_new_replica_must_run_for_min_ready(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.min_ready = AS_SEC;
    update(&w);
    expect(&w, "UPDATING +3");
    ready(&w, 3);
    pass(&w, AS_SEC - 1);
    expect(&w, "");
    pass(&w, 1);
    expect(&w, "-2");
    world_fini(&w);
}

static void test_a_bad_version_is_rolled_back(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    expect(&w, "UPDATING +3");
    for (uint32_t i = 0; i < 2; i++) {
        died(&w, 3, AS_EXIT_CODE);
        pass(&w, AS_SEC);
        expect(&w, "+3"); /* one failure is not enough */
    }
    died(&w, 3, AS_EXIT_CODE);
    expect(&w, "DEPLOY_FAILED 1<2 ~3");
    assert_int_equal(as_plan_target(w.p)->generation, 1);
    assert_true(as_plan_condition(w.p)->rolled_back);
    assert_true(as_str_eq(as_condition_text(as_plan_condition(w.p)), AS_STR("it ended")));
    pass(&w, 1000 * AS_SEC);
    expect(&w, ""); /* the target is reached, but the status still shows the failed update */
    assert_true(as_plan_is_settled(w.p));
    assert_int_equal(w.status, AS_STATUS_DEPLOY_FAILED);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(as_replica_slot_facts(slot_of(&w, i))->starts, 1);
    world_fini(&w);
}

static void test_the_next_deploy_forgets_the_failure(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.roll_failures = 1;
    update(&w);
    died(&w, 3, AS_EXIT_CODE);
    expect(&w, "UPDATING +3 DEPLOY_FAILED 1<2 ~3");
    w.t.generation = 3;
    w.t.version = 1; /* the running version */
    deploy(&w);
    expect(&w, "UPDATING *3 HEALTHY");
    world_fini(&w);
}

/* Rolled back halfway: the replaced replicas come back like an update, each before another is
 * retired. */
static void test_a_late_failure_is_rolled_back_surge_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    ready(&w, 3);
    ends(&w, 2);
    expect(&w, "UPDATING +3 -2 ~2 +2");
    for (uint32_t i = 0; i < 2; i++) {
        died(&w, 2, AS_EXIT_CODE);
        pass(&w, AS_SEC);
    }
    expect(&w, "+2 +2");
    died(&w, 2, AS_EXIT_CODE);
    expect(&w, "DEPLOY_FAILED 1<2 ~2 +2");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->version, 1);
    assert_int_equal(state(&w, 3), AS_REPLICA_SLOT_RUNNING); /* it serves until it is replaced */
    ready(&w, 2);
    expect(&w, "-3");
    ends(&w, 3);
    expect(&w, "~3");
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

static void test_a_bad_version_without_a_good_one_goes_on_trying(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    w.t.replicas = 1;
    deploy(&w);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    for (uint32_t i = 0; i < 3; i++) {
        pass(&w, AS_SEC);
        died(&w, 0, AS_EXIT_CODE);
    }
    expect(&w, "+0 +0 +0 DEPLOY_FAILED");
    pass(&w, AS_SEC);
    expect(&w, "+0");
    ready(&w, 0);
    expect(&w, "*1 HEALTHY");
    world_fini(&w);
}

/* A replica that does not run is retired at once, if a rollback could not use it. */
static void test_a_fix_of_a_version_that_never_ran(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    w.t.replicas = 2;
    deploy(&w);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    died(&w, 0, AS_EXIT_CODE);
    died(&w, 1, AS_EXIT_CODE);
    expect(&w, "+0 +1");
    update(&w);
    expect(&w, "~0 ~1 +0 +1");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->version, 2);
    world_fini(&w);
}

/* Dead replicas of the older version are started again with that version, until the new one has
 * been available. */
static void test_old_ones_that_die_meanwhile(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    died(&w, 0, AS_EXIT_KILLED);
    pass(&w, 0);
    expect(&w, "UPDATING +3 +0");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->version, 1);
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->generation, 1);
    died(&w, 0, AS_EXIT_CRASH);
    ready(&w, 3);
    expect(&w, "~0 +0"); /* now it is replaced instead of started again */
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->version, 2);
    world_fini(&w);
}

static void test_another_version_before_the_first_is_done(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    expect(&w, "UPDATING +3");
    w.t.generation = w.t.version = 3;
    deploy(&w);
    expect(&w, "-3"); /* no rollback could use that one */
    ends(&w, 3);
    expect(&w, "~3 +3");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 3))->version, 3);
    world_fini(&w);
}

static void test_fewer_and_another_version_at_once(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.replicas = 2;
    update(&w);
    expect(&w, "UPDATING -2"); /* the surplus first; then the update begins */
    ends(&w, 2);
    expect(&w, "~2 +2");
    world_fini(&w);
}

static void test_deaths_from_outside_do_not_fail_an_update(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    for (uint32_t i = 0; i < 10; i++) {
        died(&w, 3, AS_EXIT_KILLED);
        pass(&w, AS_SEC);
    }
    assert_int_equal(as_plan_target(w.p)->generation, 2);
    world_fini(&w);
}

static void test_rollback_can_be_switched_off(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.roll_back = false;
    w.t.policy.roll_failures = 1;
    update(&w);
    died(&w, 3, AS_EXIT_CODE);
    expect(&w, "UPDATING +3 DEPLOY_FAILED");
    pass(&w, AS_SEC);
    expect(&w, "+3"); /* the old ones stay, it goes on trying */
    ready(&w, 3);
    expect(&w, "-2");
    world_fini(&w);
}

/* --- changes that need no new process --- */

static void test_a_new_config_is_sent_in_steps(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.config = 2;
    deploy(&w);
    expect(&w, "UPDATING ?0");
    assert_int_equal(w.to.config, 2);
    answer(&w, 0, true);
    expect(&w, "?1");
    answer(&w, 1, true);
    expect(&w, "?2");
    answer(&w, 2, true);
    expect(&w, "*2 HEALTHY");
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(as_replica_slot_facts(slot_of(&w, i))->starts, 1);
    world_fini(&w);
}

static void test_a_refused_config_is_rolled_back(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.config = 2;
    deploy(&w);
    answer(&w, 0, true);
    answer(&w, 1, false);
    expect(&w, "UPDATING ?0 ?1 DEPLOY_FAILED 1<2 ?0");
    assert_int_equal(w.to.config, 1);
    answer(&w, 0, true);
    expect(&w, "");
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

static void test_a_config_that_is_never_answered(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.config = 2;
    deploy(&w);
    pass(&w, usual.policy.configure_timeout - 1);
    expect(&w, "UPDATING ?0");
    pass(&w, 1);
    expect(&w, "DEPLOY_FAILED 1<2 x0"); /* no other is sent it */
    died(&w, 0, AS_EXIT_KILLED);
    pass(&w, AS_SEC);
    expect(&w, "+0");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->config, 1);
    world_fini(&w);
}

/* Of two configs in a row only the last one counts. */
static void test_another_config_before_the_first_is_answered(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = w.t.config = 2;
    deploy(&w);
    w.t.generation = w.t.config = 3;
    deploy(&w);
    expect(&w, "UPDATING ?0");
    answer(&w, 0, false); /* it is not the target any more */
    expect(&w, "?0");
    assert_int_equal(w.to.config, 3);
    world_fini(&w);
}

static void test_other_limits_alone_change_nothing(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = 2;
    w.t.policy.drain_timeout = AS_SEC;
    deploy(&w);
    expect(&w, "*2");
    world_fini(&w);
}

/* A replica drains by the timeouts of its own version, whatever those of the next one are. */
static void test_old_replicas_drain_by_their_own_times(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.generation = 2; /* a change of the policy applies to them, although no configure is sent */
    w.t.policy.drain_timeout = 7 * AS_SEC;
    w.t.policy.drain_interval = 5 * AS_SEC;
    deploy(&w);
    w.t.policy.drain_timeout = AS_SEC;
    w.t.policy.drain_interval = AS_SEC / 2;
    update(&w);
    ready(&w, 3);
    expect(&w, "*2 UPDATING +3 -2");
    pass(&w, 5 * AS_SEC);
    expect(&w, "-2");
    pass(&w, 2 * AS_SEC - 1);
    expect(&w, "");
    pass(&w, 1);
    expect(&w, "!2");
    world_fini(&w);
}

static void test_replicas_of_a_replaced_update_drain_by_their_own_times(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.drain_timeout = 3 * AS_SEC;
    update(&w);
    expect(&w, "UPDATING +3");
    ready(&w, 3);
    ends(&w, 2);
    expect(&w, "-2 ~2 +2");
    w.t.policy.drain_timeout = AS_SEC;
    w.t.generation = w.t.version = w.t.config = 9;
    deploy(&w); /* 2, which is not ready yet, and 3 are not needed any more */
    w.n = 0;
    pass(&w, 2 * AS_SEC);
    expect(&w, "-2");
    pass(&w, AS_SEC);
    expect(&w, "!2");
    world_fini(&w);
}

/* --- by hand --- */

static int roll_back(struct world *w)
{
    const struct as_plan_target *to = as_plan_rollback_target(w->p);
    struct as_plan_target copy;

    if (!to)
        return AS_ENOTFOUND;
    copy = *to;
    return as_plan_set_target(w->p, &copy, w->now);
}

static void test_rollback_by_hand(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    assert_int_equal(roll_back(&w), AS_ENOTFOUND);
    update(&w);
    calm(&w);
    assert_int_equal(roll_back(&w), 0);
    expect(&w, "UPDATING +0");
    assert_int_equal(as_plan_target(w.p)->generation, 1);
    assert_int_equal(roll_back(&w), 0); /* in the middle of an update: back to the stable target */
    assert_int_equal(as_plan_target(w.p)->generation, 2);
    expect(&w, "-0");
    world_fini(&w);
}

static void test_a_rollback_has_the_current_size(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    as_plan_scale(w.p, 4, true, w.now);
    assert_int_equal(roll_back(&w), 0);
    assert_int_equal(as_plan_target(w.p)->replicas, 4);
    world_fini(&w);
}

static void test_restart_replaces_all_surge_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.notes = 0;
    as_plan_restart(w.p, w.now);
    expect(&w, "UPDATING +3");
    assert_int_equal(w.notes, 3); /* the next controller would go on with it */
    assert_true(as_replica_slot_facts(slot_of(&w, 0))->stale);
    ready(&w, 3);
    expect(&w, "-2");
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_null(find_place(&w, 4));
    world_fini(&w);
}

static void test_a_version_without_replicas_is_not_stable(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.replicas = 0;
    update(&w);
    calm(&w);
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    assert_int_equal(as_plan_stable(w.p)->generation, 1);
    as_plan_scale(w.p, 1, false, w.now);
    for (uint32_t i = 0; i < 3; i++) {
        pass(&w, AS_SEC);
        died(&w, 0, AS_EXIT_CODE);
    }
    assert_int_equal(as_plan_target(w.p)->generation, 1);
    assert_int_equal(as_plan_target(w.p)->replicas, 1);
    world_fini(&w);
}

static void test_which_descriptions_are_needed(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    update(&w);
    w.t.generation = w.t.version = 3;
    deploy(&w);
    assert_true(as_plan_uses(w.p, 1)); /* stable */
    assert_true(as_plan_uses(w.p, 2)); /* a slot still runs it */
    assert_true(as_plan_uses(w.p, 3));
    ends(&w, 3);
    assert_false(as_plan_uses(w.p, 2));
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_surge_first),
        cmocka_unit_test(test_so_many_at_once),
        cmocka_unit_test(test_a_new_replica_must_run_for_min_ready),
        cmocka_unit_test(test_a_bad_version_is_rolled_back),
        cmocka_unit_test(test_the_next_deploy_forgets_the_failure),
        cmocka_unit_test(test_a_late_failure_is_rolled_back_surge_first),
        cmocka_unit_test(test_a_bad_version_without_a_good_one_goes_on_trying),
        cmocka_unit_test(test_a_fix_of_a_version_that_never_ran),
        cmocka_unit_test(test_old_ones_that_die_meanwhile),
        cmocka_unit_test(test_another_version_before_the_first_is_done),
        cmocka_unit_test(test_fewer_and_another_version_at_once),
        cmocka_unit_test(test_deaths_from_outside_do_not_fail_an_update),
        cmocka_unit_test(test_rollback_can_be_switched_off),
        cmocka_unit_test(test_a_new_config_is_sent_in_steps),
        cmocka_unit_test(test_a_refused_config_is_rolled_back),
        cmocka_unit_test(test_a_config_that_is_never_answered),
        cmocka_unit_test(test_another_config_before_the_first_is_answered),
        cmocka_unit_test(test_other_limits_alone_change_nothing),
        cmocka_unit_test(test_old_replicas_drain_by_their_own_times),
        cmocka_unit_test(test_replicas_of_a_replaced_update_drain_by_their_own_times),
        cmocka_unit_test(test_rollback_by_hand),
        cmocka_unit_test(test_a_rollback_has_the_current_size),
        cmocka_unit_test(test_restart_replaces_all_surge_first),
        cmocka_unit_test(test_a_version_without_replicas_is_not_stable),
        cmocka_unit_test(test_which_descriptions_are_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
