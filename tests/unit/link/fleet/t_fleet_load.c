/* link/fleet/fleet_load: when the owner is told what a deployment has to do, and what a deployment
 * is that is to have no replica. */
#include "link_world.h"

#define APP  AS_STR("default#app")
#define LONG (3600 * AS_SEC)

static void count(as_ns interval)
{
    as_fleet_count(w.fleet, APP, true, false, interval);
}

/* A deployment whose model is known, without a worker. */
static void begin_known(void)
{
    struct as_frame_register r = model(false);
    struct as_buf frames = {0};
    struct as_outq q;
    const char *why;

    begin(usual());
    as_outq_init(&q);
    assert_int_equal(as_frame_put_register(&q, &r), 0);
    as_outq_peek(&q, &frames);
    assert_int_equal(as_fleet_restore(w.fleet,
                                      &(struct as_fleet_record){.deployment = APP,
                                                                .model = AS_STR("m:1"),
                                                                .frames = as_buf_slice(&frames)},
                                      &why),
                     0);
    as_buf_fini(&frames);
    as_outq_fini(&q);
    as_outq_init(&q);
    as_frame_put_options(&q, &no_options);
    as_frame_put_traffic(&q, &(struct as_frame_traffic){0});
    as_outq_peek(&q, &frames);
    assert_int_equal(as_fleet_restore(w.fleet,
                                      &(struct as_fleet_record){.deployment = APP,
                                                                .frames = as_buf_slice(&frames),
                                                                .whole = true},
                                      &why),
                     0);
    as_buf_fini(&frames);
    as_outq_fini(&q);
    as_fleet_set_flag(&w.fleet->accepting, true);
    as_fleet_republish(w.fleet);
}

static void it_is_told_at_once_and_then_when_something_changes(void **state AS_UNUSED)
{
    begin_known();
    submit();
    turn();
    assert_int_equal(w.loads, 0); /* nobody counts */
    count(AS_MS);
    UNTIL(w.loads == 1);
    assert_int_equal(w.queued, 1);
    for (uint32_t i = 0; i < 20; i++)
        turn(); /* nothing changes */
    assert_int_equal(w.loads, 1);
    submit();
    UNTIL(w.loads == 2);
    assert_int_equal(w.queued, 2);
    as_fleet_count(w.fleet, APP, false, false, 0);
    submit();
    for (uint32_t i = 0; i < 20; i++)
        turn();
    assert_int_equal(w.loads, 2);
    end();
}

/* With an interval of an hour: the first request of a deployment without a replica is told, the
 * ones behind it are not. */
static void the_first_request_without_a_replica_is_told_at_once(void **state AS_UNUSED)
{
    begin_known();
    count(LONG);
    UNTIL(w.loads == 1);
    assert_int_equal(w.queued, 0);
    submit();
    UNTIL(w.loads == 2);
    assert_int_equal(w.queued, 1);
    submit();
    for (uint32_t i = 0; i < 20; i++)
        turn();
    assert_int_equal(w.loads, 2);
    count(LONG); /* a new controller */
    UNTIL(w.loads == 3);
    assert_int_equal(w.queued, 2);
    end();
}

static void with_a_replica_the_interval_holds(void **state AS_UNUSED)
{
    begin(usual());
    join(0, "t0", false, &no_options);
    count(LONG);
    UNTIL(w.loads == 1);
    submit();
    for (uint32_t i = 0; i < 20; i++)
        turn();
    assert_int_equal(w.loads, 1);
    count(LONG);
    UNTIL(w.loads == 2);
    assert_int_equal(w.queued + w.ongoing, 1);
    end();
}

/* It takes what waits, so that other replicas have other numbers of requests. */
static void another_replica_is_told(void **state AS_UNUSED)
{
    uint32_t before;

    begin(usual());
    join(0, "t0", false, &no_options);
    count(AS_MS);
    UNTIL(w.loads == 1);
    for (uint32_t i = 0; i < 20; i++)
        turn();
    before = w.loads;
    join(1, "t1", false, &no_options);
    UNTIL(w.loads > before);
    end();
}

static void what_could_not_be_told_is_told_later(void **state AS_UNUSED)
{
    begin_known();
    w.refuse_loads = true;
    count(AS_MS);
    UNTIL(w.loads > 3);
    w.refuse_loads = false;
    submit();
    UNTIL(w.queued == 1);
    end();
}

static void a_deployment_that_is_to_have_none_is_ready(void **state AS_UNUSED)
{
    begin_known();
    assert_false(as_fleet_ready(w.fleet));
    as_fleet_set_wanted(w.fleet, APP, 0);
    assert_false(as_fleet_ready(w.fleet)); /* scaled by hand: nobody starts one for a request */
    count(AS_MS);
    assert_true(as_fleet_ready(w.fleet));
    assert_true(as_fleet_deployment_ready(
        w.fleet, as_registry_find(w.client.registry, AS_STR("m"), AS_STR("1"), NULL)->deployment));
    as_fleet_set_wanted(w.fleet, APP, 1);
    assert_false(as_fleet_ready(w.fleet));
    as_fleet_set_wanted(w.fleet, APP, 0);
    as_fleet_count(w.fleet, APP, false, false, 0);
    assert_false(as_fleet_ready(w.fleet));
    end();
}

static void a_deployment_may_be_counted_before_it_is_known(void **state AS_UNUSED)
{
    begin(usual());
    as_fleet_count(w.fleet, AS_STR("default#later"), true, true, AS_MS);
    UNTIL(w.loads == 1);
    assert_int_equal(w.queued + w.ongoing, 0);
    as_fleet_count(w.fleet, AS_STR("default#other"), false, false, 0);
    as_fleet_delete_deployment(w.fleet, AS_STR("default#later"), true);
    turn();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_told_at_once_and_then_when_something_changes),
        cmocka_unit_test(the_first_request_without_a_replica_is_told_at_once),
        cmocka_unit_test(with_a_replica_the_interval_holds),
        cmocka_unit_test(another_replica_is_told),
        cmocka_unit_test(what_could_not_be_told_is_told_later),
        cmocka_unit_test(a_deployment_that_is_to_have_none_is_ready),
        cmocka_unit_test(a_deployment_may_be_counted_before_it_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
