/* Specification of core/protect/codel. */
#include "core/protect/codel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct as_codel_conf conf = {5 * AS_MS, 100 * AS_MS};

/* One turn each millisecond for so long, of requests that have waited for `waited`; how many are
 * shed. */
static uint32_t run(struct as_codel *c, as_ns *now, as_ns lasts, as_ns waited)
{
    uint32_t n = 0;

    for (as_ns end = *now + lasts; *now < end; *now += AS_MS)
        n += as_codel_sheds(c, &conf, waited, *now);
    return n;
}

static void test_short_waits_are_never_shed(void **state AS_UNUSED)
{
    struct as_codel c = {0};
    as_ns now = AS_SEC;

    assert_int_equal(run(&c, &now, 10 * AS_SEC, conf.target), 0);
}

static void test_long_waits_are_shed_after_an_interval(void **state AS_UNUSED)
{
    struct as_codel c = {0};
    as_ns now = AS_SEC;

    assert_int_equal(run(&c, &now, conf.interval, 50 * AS_MS), 0);
    assert_int_equal(run(&c, &now, conf.interval, 50 * AS_MS), 100);
}

static void test_a_burst_is_served(void **state AS_UNUSED)
{
    struct as_codel c = {0};
    as_ns now = AS_SEC;

    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(run(&c, &now, 90 * AS_MS, 50 * AS_MS), 0);
        assert_int_equal(run(&c, &now, 10 * AS_MS, AS_MS), 0);
    }
}

/* Under overload requests that have waited for up to twice the target are served. */
static void test_only_more_than_twice_the_target_is_shed(void **state AS_UNUSED)
{
    struct as_codel c = {0};
    as_ns now = AS_SEC;

    run(&c, &now, 2 * conf.interval, 50 * AS_MS);
    assert_false(as_codel_sheds(&c, &conf, 2 * conf.target, now));
    assert_true(as_codel_sheds(&c, &conf, 2 * conf.target + 1, now));
}

static void test_it_ends_with_an_interval_that_had_a_short_wait(void **state AS_UNUSED)
{
    struct as_codel c = {0};
    as_ns now = AS_SEC;

    run(&c, &now, 2 * conf.interval, 50 * AS_MS);
    assert_true(as_codel_sheds(&c, &conf, 50 * AS_MS, now));
    assert_false(as_codel_sheds(&c, &conf, conf.target, now));
    assert_true(as_codel_sheds(&c, &conf, 50 * AS_MS, now));
    now += conf.interval;
    assert_false(as_codel_sheds(&c, &conf, 50 * AS_MS, now));
}

static void test_a_target_of_0_sheds_nothing(void **state AS_UNUSED)
{
    struct as_codel c = {0};

    for (uint32_t i = 1; i < 100; i++)
        assert_false(as_codel_sheds(&c, &(struct as_codel_conf){0, AS_MS}, AS_SEC, i * AS_SEC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_waits_are_never_shed),
        cmocka_unit_test(test_long_waits_are_shed_after_an_interval),
        cmocka_unit_test(test_a_burst_is_served),
        cmocka_unit_test(test_only_more_than_twice_the_target_is_shed),
        cmocka_unit_test(test_it_ends_with_an_interval_that_had_a_short_wait),
        cmocka_unit_test(test_a_target_of_0_sheds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
