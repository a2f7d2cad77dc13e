/* Specification of core/autoscale/autoscale_config: names, defaults and bounds of
 * autoscaling_config. */
#include "core/autoscale/autoscale_config.h"

#include <math.h>

#include "unit.h"

static struct as_autoscale_config c;

static int begin(void **state AS_UNUSED)
{
    as_autoscale_config_init(&c, false);
    return 0;
}

static void sets(const char *key, double v)
{
    struct as_buf why = {0};

    assert_int_equal(as_autoscale_config_set(&c, as_str_of(key), v, &why), 0);
    as_buf_fini(&why);
}

static void refuses(const char *key, double v, const char *text)
{
    struct as_autoscale_config before = c;
    struct as_buf why = {0};

    assert_int_equal(as_autoscale_config_set(&c, as_str_of(key), v, &why), AS_EINVALID);
    if (text)
        assert_string_equal(as_buf_cstr(&why), text);
    assert_memory_equal(&before, &c, sizeof(c));
    as_buf_fini(&why);
}

static void check_refuses(const char *text)
{
    struct as_buf why = {0};

    assert_int_equal(as_autoscale_config_check(&c, &why), AS_EINVALID);
    assert_string_equal(as_buf_cstr(&why), text);
    as_buf_fini(&why);
}

static void test_the_defaults_are_those_of_ray(void **state AS_UNUSED)
{
    struct as_buf why = {0};

    assert_true(c.min_replicas == 1 && c.max_replicas == 1 && c.target_ongoing_requests == 2);
    assert_int_equal(as_autoscale_initial(&c), 1);
    assert_true(as_autoscale_up_factor(&c) == 1 && as_autoscale_down_factor(&c) == 1);
    assert_int_equal(as_autoscale_up_delay(&c), 30 * AS_SEC);
    assert_int_equal(as_autoscale_down_delay(&c, false), 600 * AS_SEC);
    assert_int_equal(as_autoscale_down_delay(&c, true), 600 * AS_SEC);
    assert_int_equal(as_autoscale_look_back(&c), 30 * AS_SEC);
    assert_int_equal(c.aggregation, AS_LOAD_MEAN);
    assert_int_equal(as_autoscale_config_check(&c, &why), 0);
    as_autoscale_config_init(&c, true);
    assert_true(c.max_replicas == 100);
}

static void test_numbers_out_of_bounds_are_named(void **state AS_UNUSED)
{
    refuses("min_replicas", -1, "min_replicas must be a whole number from 0 to 1024, not -1");
    refuses("max_replicas", 0, "max_replicas must be a whole number from 1 to 1024, not 0");
    refuses("max_replicas", 1e9,
            "max_replicas must be a whole number from 1 to 1024, not 1000000000");
    refuses("max_replicas", 1025, NULL);
    refuses("min_replicas", 1.5, NULL);
    refuses("target_ongoing_requests", 0,
            "target_ongoing_requests must be a number above 0 and at most 1000000, not 0");
    refuses("target_ongoing_requests", (double)NAN, NULL);
    refuses("upscale_delay_s", -0.5,
            "upscale_delay_s must be a number of at least 0 and at most 86400, not -0.5");
    refuses("downscale_delay_s", (double)INFINITY, NULL);
    refuses("upscaling_factor", 1e7, NULL);
    refuses("look_back_period_s", 0, NULL);
    refuses("target_latency_ms", -5, NULL);
}

static void test_bounds_themselves_are_accepted(void **state AS_UNUSED)
{
    sets("min_replicas", 0);
    sets("max_replicas", 1024);
    sets("upscale_delay_s", 0);
    sets("downscale_delay_s", 86400);
    refuses("downscale_delay_s", 86401, NULL);
    sets("target_ongoing_requests", 0.001);
    sets("smoothing_factor", 1e6);
}

static void test_an_unknown_key_is_not_found(void **state AS_UNUSED)
{
    struct as_buf why = {0};

    assert_int_equal(as_autoscale_config_set(&c, AS_STR("min_replica"), 1, &why), AS_ENOTFOUND);
    assert_int_equal(why.n, 0);
}

static void test_the_numbers_fit_together(void **state AS_UNUSED)
{
    struct as_buf why = {0};

    sets("min_replicas", 3);
    sets("max_replicas", 2);
    check_refuses("max_replicas (2) must be at least min_replicas (3)");
    sets("max_replicas", 5);
    sets("initial_replicas", 2);
    check_refuses("initial_replicas (2) must be from min_replicas (3) to max_replicas (5)");
    sets("initial_replicas", 6);
    check_refuses("initial_replicas (6) must be from min_replicas (3) to max_replicas (5)");
    sets("initial_replicas", 5);
    assert_int_equal(as_autoscale_config_check(&c, &why), 0);
    assert_int_equal(as_autoscale_initial(&c), 5);
    c.schedule.n = 1;
    c.schedule.entry[0].min_replicas = 6;
    check_refuses("min_replicas (6) of schedule[0] must be at most max_replicas (5)");
}

static void test_former_names_of_the_factors_count_less(void **state AS_UNUSED)
{
    sets("smoothing_factor", 0.5);
    assert_true(as_autoscale_up_factor(&c) == 0.5 && as_autoscale_down_factor(&c) == 0.5);
    sets("upscale_smoothing_factor", 2);
    assert_true(as_autoscale_up_factor(&c) == 2 && as_autoscale_down_factor(&c) == 0.5);
    sets("upscaling_factor", 3);
    sets("downscaling_factor", 0.25);
    assert_true(as_autoscale_up_factor(&c) == 3 && as_autoscale_down_factor(&c) == 0.25);
}

static void test_zero_may_have_a_delay_of_its_own(void **state AS_UNUSED)
{
    sets("downscale_to_zero_delay_s", 0);
    assert_int_equal(as_autoscale_down_delay(&c, true), 0);
    assert_int_equal(as_autoscale_down_delay(&c, false), 600 * AS_SEC);
}

static void test_aggregations_have_names(void **state AS_UNUSED)
{
    assert_true(as_autoscale_config_set_aggregation(&c, AS_STR("max")));
    assert_string_equal(as_autoscale_aggregation_name(c.aggregation), "max");
    assert_false(as_autoscale_config_set_aggregation(&c, AS_STR("median")));
    assert_int_equal(c.aggregation, AS_LOAD_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_defaults_are_those_of_ray, begin),
        cmocka_unit_test_setup(test_numbers_out_of_bounds_are_named, begin),
        cmocka_unit_test_setup(test_bounds_themselves_are_accepted, begin),
        cmocka_unit_test_setup(test_an_unknown_key_is_not_found, begin),
        cmocka_unit_test_setup(test_the_numbers_fit_together, begin),
        cmocka_unit_test_setup(test_former_names_of_the_factors_count_less, begin),
        cmocka_unit_test_setup(test_zero_may_have_a_delay_of_its_own, begin),
        cmocka_unit_test_setup(test_aggregations_have_names, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
