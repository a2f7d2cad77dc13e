/* Specification of core/replicas/plan: updates that retire old replicas first, because of the
 * policy or because no device is free; and replicas that wait for a device. */
#include "plan_world.h"

/* Three healthy replicas of version 1 that need `need` devices each, on a machine with `devices`.
 */
static void world_with(struct world *w, uint32_t devices, uint32_t need)
{
    world_init(w);
    w->devices = devices;
    w->need[1] = need;
    deploy(w);
    as_plan_set_serving(w->p, true, w->now);
    as_plan_run(w->p, w->now);
    calm(w);
    assert_true(as_plan_is_settled(w->p));
}

static void update(struct world *w, uint32_t need)
{
    w->t.generation++;
    w->t.version++;
    w->need[w->t.version] = need;
    deploy(w);
}

static bool lacks(struct world *w, const char *what)
{
    return strncmp(as_condition_lack(as_plan_condition(w->p)).p, what, strlen(what)) == 0 &&
           as_condition_lack(as_plan_condition(w->p)).n == strlen(what);
}

/* --- max_surge, max_unavailable --- */

static void test_without_surge_one_is_retired_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.unavailable.n = 1;
    update(&w, 0);
    expect(&w, "UPDATING -2");
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    expect(&w, "!2"); /* there are three processes until it is dead */
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2 +2");
    ready(&w, 2);
    expect(&w, "-1");
    ends(&w, 1);
    ready(&w, 1);
    expect(&w, "~1 +1 -0");
    ends(&w, 0);
    ready(&w, 0);
    expect(&w, "~0 +0 *2 HEALTHY");
    world_fini(&w);
}

static void test_surge_and_unavailable_together(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.surge.n = w.t.policy.unavailable.n = 1;
    update(&w, 0);
    expect(&w, "UPDATING -2 +3"); /* two serve, four exist */
    ready(&w, 3);
    expect(&w, "-1"); /* three are available, and two are enough */
    ends(&w, 2);
    expect(&w, "~2 +2");
    ends(&w, 1);
    expect(&w, "~1 +1");
    ready(&w, 1);
    expect(&w, "-0");
    calm(&w);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

/* Rounds as Kubernetes does: max_surge up, max_unavailable down. */
static void test_percentages_of_n(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    as_plan_scale(w.p, 10, false, w.now);
    calm(&w);
    w.t.replicas = 10;
    w.t.policy.has_surge = true;
    w.t.policy.surge = (struct as_plan_amount){25, true};
    w.t.policy.unavailable = (struct as_plan_amount){25, true};
    update(&w, 0);
    expect(&w, "UPDATING -9 -8 +10 +11 +12"); /* 13 exist, two of them end */
    world_fini(&w);
}

static void test_one_of_both_is_at_least_one(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.surge = (struct as_plan_amount){0, true};
    w.t.policy.unavailable = (struct as_plan_amount){33, true}; /* 0.99 of three */
    update(&w, 0);
    expect(&w, "UPDATING -2");
    ends(&w, 2);
    expect(&w, "~2 +2");
    world_fini(&w);
}

static void test_all_at_once(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.unavailable = (struct as_plan_amount){100, true};
    update(&w, 0);
    expect(&w, "UPDATING -2 -1 -0");
    ends(&w, 2);
    ends(&w, 1);
    expect(&w, "~2 +2 ~1 +1");
    world_fini(&w);
}

static void test_bounds(void **state_ AS_UNUSED)
{
    struct as_plan_target t = usual;

    t.policy.has_surge = true;
    t.policy.surge = (struct as_plan_amount){AS_PLAN_REPLICAS_MAX, false};
    assert_null(as_plan_check(&t));
    t.policy.surge.n++;
    assert_non_null(as_plan_check(&t));
    t.policy.surge.n = 0;
    t.policy.unavailable = (struct as_plan_amount){100, true};
    assert_null(as_plan_check(&t));
    t.policy.unavailable.n++;
    assert_non_null(as_plan_check(&t));
}

/* Replicas that do not serve are the first that may be missing; the new version may fix them. */
static void test_dead_replicas_are_replaced_first(void **state_ AS_UNUSED)
{
    struct world w;

    world_healthy(&w);
    died(&w, 0, AS_EXIT_CRASH);
    expect(&w, "UNHEALTHY");
    w.t.policy.has_surge = true;
    w.t.policy.unavailable.n = 1;
    update(&w, 0);
    expect(&w, "UPDATING ~0 +0");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 0))->version, 2);
    world_fini(&w);
}

/* The next controller knows which slot must end before another may replace it. */
static void test_a_new_controller_starts_none_too_early(void **state_ AS_UNUSED)
{
    struct as_replica_slot_facts facts[3];
    struct as_replica_slot *slot;
    struct world w;

    world_healthy(&w);
    w.t.policy.has_surge = true;
    w.t.policy.unavailable.n = 1;
    update(&w, 0);
    expect(&w, "UPDATING -2");
    for (uint32_t i = 0; i < 3; i++)
        facts[i] = *as_replica_slot_facts(slot_of(&w, i));
    assert_true(facts[2].early);
    as_plan_free(w.p);
    w = (struct world){.now = START, .t = w.t, .free = &w.devices};
    as_start_limit_init(&w.starts, 100);
    assert_int_equal(as_plan_new(&w.p, AS_STR("d"), &w.starts, 7, &world_ops, &w), 0);
    deploy(&w);
    as_plan_restore(w.p, &usual, NULL, AS_STR(""), w.now);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(as_plan_adopt(w.p, &facts[i], w.now, &slot), 0);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    ready(&w, 0);
    ready(&w, 1);
    w.n = 0;
    ends(&w, 2);
    expect(&w, "~2 +2");
    facts[2].retiring = false; /* impossible facts */
    facts[2].number = 7;
    assert_int_equal(as_plan_adopt(w.p, &facts[2], w.now, &slot), AS_EINVALID);
    world_fini(&w);
}

/* --- devices --- */

static void test_one_waits_for_a_device(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 4, 1);
    as_plan_scale(w.p, 5, false, w.now);
    expect(&w, "UPSCALING +3 ?0 ?1 ?2");
    assert_true(lacks(&w, "d-4 waits: no device"));
    assert_true(as_str_eq(as_replica_slot_lack(slot_of(&w, 4)), AS_STR("no device")));
    assert_int_equal(as_plan_lacking(w.p), 1);
    ready(&w, 3);
    calm_but(&w, 4);
    pass(&w, 1000 * AS_SEC); /* waiting is neither an attempt nor a failure */
    expect(&w, "");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 4))->starts, 0);
    assert_int_equal(w.status, AS_STATUS_UPSCALING);
    w.devices++;
    as_plan_tick(w.p, w.now);
    expect(&w, "+4");
    assert_true(lacks(&w, ""));
    assert_int_equal(as_plan_lacking(w.p), 0);
    world_fini(&w);
}

static void test_several_wait(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    as_plan_scale(w.p, 6, false, w.now);
    expect(&w, "UPSCALING ?0 ?1 ?2");
    assert_true(lacks(&w, "d-3 and 2 more wait: no device"));
    as_plan_scale(w.p, 3, false, w.now);
    calm(&w);
    assert_true(lacks(&w, ""));
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

/* All devices are used: an update retires one replica, and the next when the new one is available.
 */
static void test_an_update_that_cannot_surge(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    w.t.policy.min_ready = AS_SEC;
    update(&w, 1);
    expect(&w, "UPDATING -2");
    assert_true(lacks(&w, "d-3 waits: no device"));
    as_replica_slot_retired(slot_of(&w, 2), w.now);
    pass(&w, AS_SEC);
    expect(&w, "!2");
    died(&w, 2, AS_EXIT_STOPPED);
    expect(&w, "~2 +3");
    assert_true(lacks(&w, ""));
    ready(&w, 3);
    expect(&w, "");
    pass(&w, AS_SEC); /* its min_ready */
    expect(&w, "-1");
    ends(&w, 1);
    ready(&w, 2);
    pass(&w, AS_SEC);
    expect(&w, "~1 +2 -0");
    ends(&w, 0);
    w.n = 0;
    ready(&w, 1);
    pass(&w, AS_SEC);
    calm(&w);
    assert_true(as_plan_is_settled(w.p));
    assert_int_equal(w.status, AS_STATUS_HEALTHY);
    world_fini(&w);
}

static void test_a_replica_that_needs_more_retires_more(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 4, 1);
    update(&w, 3);
    expect(&w, "UPDATING -2 -1"); /* one device is free, two more are needed */
    ends(&w, 2);
    expect(&w, "~2");
    ends(&w, 1);
    expect(&w, "~1 +3");
    ready(&w, 3);
    expect(&w, ""); /* a second one could not start, whichever replica ends */
    assert_int_equal(as_plan_running(w.p), 2);
    pass(&w, 1000 * AS_SEC);
    expect(&w, "");
    world_fini(&w);
}

/* Only replicas whose resources help are retired. */
static void test_none_is_retired_in_vain(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 0, 0);
    update(&w, 1); /* the first version that needs a device: other deployments have them all */
    expect(&w, "UPDATING");
    assert_true(lacks(&w, "d-3 waits: no device"));
    pass(&w, 1000 * AS_SEC);
    expect(&w, "");
    w.devices = 1;
    as_plan_tick(w.p, w.now);
    expect(&w, "+3");
    world_fini(&w);
}

static void test_only_replicas_with_devices_are_retired(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 1, 0);
    as_plan_scale(w.p, 4, false, w.now);
    calm(&w);
    w.has[1] = 1; /* as if a slot of an earlier version had it */
    w.devices = 0;
    w.t.replicas = 4;
    update(&w, 1);
    expect(&w, "UPDATING -1");
    world_fini(&w);
}

/* A killed replica is started again with the device that it had, although a new one waits for a
 * device. */
static void test_one_that_died_keeps_its_device(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    as_plan_scale(w.p, 4, false, w.now);
    calm_but(&w, 3);
    died(&w, 1, AS_EXIT_CRASH);
    expect(&w, "UNHEALTHY");
    pass(&w, AS_SEC);
    expect(&w, "+1");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 3))->starts, 0);
    world_fini(&w);
}

static void test_a_slot_that_was_given_up_frees_its_device(void **state_ AS_UNUSED)
{
    struct world w;

    world_init(&w);
    w.devices = w.need[1] = 1;
    w.t.replicas = 2;
    w.t.policy.restart.give_up = 1;
    deploy(&w);
    as_plan_set_serving(w.p, true, w.now);
    as_plan_run(w.p, w.now);
    expect(&w, "+0");
    died(&w, 0, AS_EXIT_CODE);
    expect(&w, "DEPLOY_FAILED +1");
    world_fini(&w);
}

/* The update fails: a replica of the version before gets the device back. */
static void test_a_failed_update_frees_its_device(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    w.t.policy.roll_failures = 1;
    update(&w, 1);
    ends(&w, 2);
    expect(&w, "UPDATING -2 ~2 +3");
    died(&w, 3, AS_EXIT_CODE);
    expect(&w, "DEPLOY_FAILED 1<2 ~3 +2");
    assert_int_equal(as_replica_slot_facts(slot_of(&w, 2))->version, 1);
    ready(&w, 2);
    assert_true(as_plan_is_settled(w.p));
    world_fini(&w);
}

/* The missing device may belong to a dead replica: that one is retired, and none that serves. */
static void test_a_dead_one_makes_room(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    died(&w, 0, AS_EXIT_CRASH); /* it waits for its restart */
    expect(&w, "UNHEALTHY");
    update(&w, 1);
    expect(&w, "UPDATING ~0 +3");
    world_fini(&w);
}

/* A replica is starting and may serve soon: none is retired meanwhile. */
static void test_not_while_something_changes(void **state_ AS_UNUSED)
{
    struct world w;

    world_with(&w, 3, 1);
    as_replica_slot_lost(slot_of(&w, 1), w.now);
    update(&w, 1);
    expect(&w, "UPDATING");
    ready(&w, 1);
    expect(&w, "-2");
    world_fini(&w);
}

/* Another deployment on the machine of w. */
static void world_beside(struct world *b, struct world *w)
{
    *b = (struct world){.now = START, .t = usual, .need = {1, 1}, .free = w->free};
    assert_int_equal(as_plan_new(&b->p, AS_STR("b"), &w->starts, 9, &world_ops, b), 0);
    deploy(b);
    as_plan_set_serving(b->p, true, b->now);
    as_plan_run(b->p, b->now);
}

/* Other deployments do not get what an update has freed, or it would have to retire more. */
static void test_freed_devices_stay_reserved(void **state_ AS_UNUSED)
{
    struct world w, b;

    world_with(&w, 3, 1);
    world_beside(&b, &w);
    expect(&b, ""); /* it came first, and waits */
    assert_int_equal(as_plan_lacking(b.p), 3);
    update(&w, 2);
    expect(&w, "UPDATING -2 -1");
    ends(&w, 2);
    expect(&b, "");
    ends(&w, 1);
    expect(&w, "~2 ~1 +3");
    expect(&b, "");
    ready(&w, 3);
    as_plan_scale(w.p, 1, false, w.now);
    expect(&w, "-0 ~1 ?3");
    ends(&w, 0);
    expect(&b, "+0"); /* devices that no update has freed are for all */
    as_plan_free(b.p);
    world_fini(&w);
}

/* It is due for a check when an event of another deployment has changed what it lacks. */
static void test_another_deployment_checks_again(void **state_ AS_UNUSED)
{
    struct world w, b;

    world_with(&w, 3, 1);
    world_beside(&b, &w);
    assert_true(as_plan_next_due(b.p) == AS_NEVER);
    assert_true(lacks(&b, "b-0 and 2 more wait: no device"));
    as_plan_scale(w.p, 2, false, w.now);
    ends(&w, 2);
    expect(&b, "+0");
    assert_true(as_plan_next_due(b.p) <= w.now);
    as_plan_tick(b.p, w.now);
    assert_true(as_plan_next_due(b.p) > w.now);
    assert_true(lacks(&b, "b-1 and 1 more wait: no device"));
    as_plan_free(b.p);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_surge_one_is_retired_first),
        cmocka_unit_test(test_surge_and_unavailable_together),
        cmocka_unit_test(test_percentages_of_n),
        cmocka_unit_test(test_one_of_both_is_at_least_one),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_dead_replicas_are_replaced_first),
        cmocka_unit_test(test_a_new_controller_starts_none_too_early),
        cmocka_unit_test(test_one_waits_for_a_device),
        cmocka_unit_test(test_several_wait),
        cmocka_unit_test(test_an_update_that_cannot_surge),
        cmocka_unit_test(test_a_replica_that_needs_more_retires_more),
        cmocka_unit_test(test_none_is_retired_in_vain),
        cmocka_unit_test(test_only_replicas_with_devices_are_retired),
        cmocka_unit_test(test_one_that_died_keeps_its_device),
        cmocka_unit_test(test_a_slot_that_was_given_up_frees_its_device),
        cmocka_unit_test(test_a_failed_update_frees_its_device),
        cmocka_unit_test(test_a_dead_one_makes_room),
        cmocka_unit_test(test_not_while_something_changes),
        cmocka_unit_test(test_freed_devices_stay_reserved),
        cmocka_unit_test(test_another_deployment_checks_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
