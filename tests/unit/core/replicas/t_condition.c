/* Specification of core/replicas/condition: the table of the header, row by row, and the status of
 * applications. */
#include "core/replicas/condition.h"

#include "unit.h"

#define NOW (100 * AS_SEC)

static struct as_condition in(enum as_condition_status s)
{
    struct as_condition c;

    as_condition_init(&c, NOW);
    c.status = s;
    c.trigger = AS_TRIGGER_UNSPECIFIED;
    return c;
}

/* `cause` in status `from` leads to status `to` with `trigger`; `since` changes with the status
 * only. */
static void moves(enum as_condition_status from, enum as_condition_cause cause,
                  enum as_condition_status to, enum as_condition_trigger trigger)
{
    struct as_condition c = in(from);

    as_condition_apply(&c, cause, AS_STR("why"), NOW + 1);
    assert_string_equal(as_condition_status_name(c.status), as_condition_status_name(to));
    assert_string_equal(as_condition_trigger_name(c.trigger), as_condition_trigger_name(trigger));
    assert_int_equal(c.since, from == to ? NOW : NOW + 1);
}

static const enum as_condition_status all[] = {AS_STATUS_UPDATING,  AS_STATUS_HEALTHY,
                                               AS_STATUS_UNHEALTHY, AS_STATUS_DEPLOY_FAILED,
                                               AS_STATUS_UPSCALING, AS_STATUS_DOWNSCALING};

static void test_updates_and_deletion(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_COUNT(all); i++) {
        moves(all[i], AS_CAUSE_UPDATE, AS_STATUS_UPDATING, AS_TRIGGER_CONFIG_UPDATE_STARTED);
        moves(all[i], AS_CAUSE_DELETE, AS_STATUS_UPDATING, AS_TRIGGER_DELETING);
        moves(all[i], AS_CAUSE_ROLLED_BACK, AS_STATUS_DEPLOY_FAILED,
              AS_TRIGGER_REPLICA_STARTUP_FAILED);
    }
}

static void test_scaling(void **state AS_UNUSED)
{
    for (size_t i = 1; i < AS_COUNT(all); i++) {
        moves(all[i], AS_CAUSE_SCALE_UP, AS_STATUS_UPSCALING, AS_TRIGGER_CONFIG_UPDATE_STARTED);
        moves(all[i], AS_CAUSE_SCALE_DOWN, AS_STATUS_DOWNSCALING, AS_TRIGGER_CONFIG_UPDATE_STARTED);
        if (all[i] == AS_STATUS_DEPLOY_FAILED)
            continue;
        moves(all[i], AS_CAUSE_AUTOSCALE_UP, AS_STATUS_UPSCALING, AS_TRIGGER_AUTOSCALING);
        moves(all[i], AS_CAUSE_AUTOSCALE_DOWN, AS_STATUS_DOWNSCALING, AS_TRIGGER_AUTOSCALING);
    }
    moves(AS_STATUS_UPDATING, AS_CAUSE_SCALE_UP, AS_STATUS_UPDATING, AS_TRIGGER_UNSPECIFIED);
    moves(AS_STATUS_UPDATING, AS_CAUSE_AUTOSCALE_DOWN, AS_STATUS_UPDATING, AS_TRIGGER_UNSPECIFIED);
    /* scaling by load does not change a failed deployment */
    moves(AS_STATUS_DEPLOY_FAILED, AS_CAUSE_AUTOSCALE_UP, AS_STATUS_DEPLOY_FAILED,
          AS_TRIGGER_UNSPECIFIED);
}

static void test_failures(void **state AS_UNUSED)
{
    static const enum as_condition_status running[] = {AS_STATUS_HEALTHY, AS_STATUS_UNHEALTHY,
                                                       AS_STATUS_UPSCALING, AS_STATUS_DOWNSCALING};

    for (size_t i = 0; i < AS_COUNT(running); i++) {
        moves(running[i], AS_CAUSE_STARTUP_FAILED, AS_STATUS_UNHEALTHY,
              AS_TRIGGER_REPLICA_STARTUP_FAILED);
        moves(running[i], AS_CAUSE_REPLICA_FAILED, AS_STATUS_UNHEALTHY,
              AS_TRIGGER_HEALTH_CHECK_FAILED);
    }
    moves(AS_STATUS_UPDATING, AS_CAUSE_STARTUP_FAILED, AS_STATUS_DEPLOY_FAILED,
          AS_TRIGGER_REPLICA_STARTUP_FAILED);
    moves(AS_STATUS_UPDATING, AS_CAUSE_REPLICA_FAILED, AS_STATUS_UPDATING, AS_TRIGGER_UNSPECIFIED);
    moves(AS_STATUS_DEPLOY_FAILED, AS_CAUSE_REPLICA_FAILED, AS_STATUS_DEPLOY_FAILED,
          AS_TRIGGER_UNSPECIFIED);
}

static void test_the_target_is_reached(void **state AS_UNUSED)
{
    moves(AS_STATUS_UPDATING, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY,
          AS_TRIGGER_CONFIG_UPDATE_COMPLETED);
    moves(AS_STATUS_UPSCALING, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY, AS_TRIGGER_UPSCALE_COMPLETED);
    moves(AS_STATUS_DOWNSCALING, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY,
          AS_TRIGGER_DOWNSCALE_COMPLETED);
    moves(AS_STATUS_UNHEALTHY, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY, AS_TRIGGER_UNSPECIFIED);
    moves(AS_STATUS_DEPLOY_FAILED, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY,
          AS_TRIGGER_CONFIG_UPDATE_COMPLETED);
    moves(AS_STATUS_HEALTHY, AS_CAUSE_SETTLED, AS_STATUS_HEALTHY, AS_TRIGGER_UNSPECIFIED);
}

/* Users must see that their deployment failed, whatever version serves meanwhile. */
static void test_a_rolled_back_update_stays_failed(void **state AS_UNUSED)
{
    struct as_condition c = in(AS_STATUS_UPDATING);

    assert_true(as_condition_apply(&c, AS_CAUSE_ROLLED_BACK, AS_STR("version 2 ended"), NOW));
    assert_false(as_condition_apply(&c, AS_CAUSE_SETTLED, AS_STR(""), NOW));
    assert_false(as_condition_apply(&c, AS_CAUSE_REPLICA_FAILED, AS_STR("another"), NOW));
    assert_false(as_condition_apply(&c, AS_CAUSE_AUTOSCALE_UP, AS_STR(""), NOW));
    assert_true(c.rolled_back && c.status == AS_STATUS_DEPLOY_FAILED);
    assert_true(as_str_eq(as_condition_text(&c), AS_STR("version 2 ended")));
    assert_true(as_condition_apply(&c, AS_CAUSE_UPDATE, AS_STR(""), NOW));
    assert_false(c.rolled_back);
    assert_int_equal(as_condition_text(&c).n, 0);
}

static void test_deaths_during_deletion_are_no_news(void **state AS_UNUSED)
{
    struct as_condition c = in(AS_STATUS_HEALTHY);

    assert_true(as_condition_apply(&c, AS_CAUSE_DELETE, AS_STR(""), NOW));
    as_condition_apply(&c, AS_CAUSE_STARTUP_FAILED, AS_STR("it ended"), NOW);
    assert_int_equal(c.trigger, AS_TRIGGER_DELETING);
}

static void test_only_changes_are_reported(void **state AS_UNUSED)
{
    struct as_condition c = in(AS_STATUS_HEALTHY);

    assert_false(as_condition_apply(&c, AS_CAUSE_SETTLED, AS_STR(""), NOW));
    assert_true(as_condition_apply(&c, AS_CAUSE_REPLICA_FAILED, AS_STR("a"), NOW));
    assert_false(as_condition_apply(&c, AS_CAUSE_REPLICA_FAILED, AS_STR("a"), NOW + 1));
    assert_true(as_condition_apply(&c, AS_CAUSE_REPLICA_FAILED, AS_STR("b"), NOW + 2));
    assert_int_equal(c.since, NOW); /* it has been unhealthy all the time */
}

static void test_a_long_text_is_cut(void **state AS_UNUSED)
{
    static char text[AS_CONDITION_TEXT_MAX + 1];
    struct as_condition c = in(AS_STATUS_HEALTHY);

    memset(text, 'x', sizeof(text));
    for (size_t n = AS_CONDITION_TEXT_MAX; n <= AS_CONDITION_TEXT_MAX + 1; n++) {
        as_condition_apply(&c, AS_CAUSE_REPLICA_FAILED, (struct as_str){text, n}, NOW);
        assert_int_equal(as_condition_text(&c).n, AS_CONDITION_TEXT_MAX);
    }
}

static void test_the_worst_deployment_decides(void **state AS_UNUSED)
{
    struct as_condition healthy = in(AS_STATUS_HEALTHY), updating = in(AS_STATUS_UPDATING),
                        unhealthy = in(AS_STATUS_UNHEALTHY), failed = in(AS_STATUS_DEPLOY_FAILED),
                        loaded = in(AS_STATUS_UPSCALING);
    const struct as_condition *d[] = {&healthy, &loaded, &updating, &unhealthy, &failed};
    static const enum as_application_status want[] = {
        AS_APPLICATION_NOT_STARTED, AS_APPLICATION_RUNNING,   AS_APPLICATION_RUNNING,
        AS_APPLICATION_DEPLOYING,   AS_APPLICATION_UNHEALTHY, AS_APPLICATION_DEPLOY_FAILED};

    loaded.trigger = AS_TRIGGER_AUTOSCALING;
    for (uint32_t n = 0; n <= AS_COUNT(d); n++) {
        assert_string_equal(as_application_status_name(as_application_status_of(d, n, false)),
                            as_application_status_name(want[n]));
        assert_int_equal(as_application_status_of(d, n, true), AS_APPLICATION_DELETING);
    }
    loaded.trigger = AS_TRIGGER_CONFIG_UPDATE_STARTED; /* by hand */
    assert_int_equal(as_application_status_of(d, 2, false), AS_APPLICATION_DEPLOYING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_and_deletion),
        cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_the_target_is_reached),
        cmocka_unit_test(test_a_rolled_back_update_stays_failed),
        cmocka_unit_test(test_deaths_during_deletion_are_no_news),
        cmocka_unit_test(test_only_changes_are_reported),
        cmocka_unit_test(test_a_long_text_is_cut),
        cmocka_unit_test(test_the_worst_deployment_decides),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
