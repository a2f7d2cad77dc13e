/* Specification of core/protect/gradient. */
#include "core/protect/gradient.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define SLOTS 100u

/* n calls, while as many execute as the limit allows. */
static void serve(struct as_gradient *g, uint32_t n, as_ns took)
{
    for (uint32_t i = 0; i < n; i++)
        (void)as_gradient_add(g, SLOTS, took, as_gradient_limit(g, SLOTS));
}

static void test_it_begins_with_twenty_and_grows_while_nothing_is_slower(void **state AS_UNUSED)
{
    struct as_gradient g = {0};

    assert_int_equal(as_gradient_limit(&g, SLOTS), 20);
    serve(&g, 10, AS_MS);
    assert_int_equal(as_gradient_limit(&g, SLOTS), 20); /* 20.8 */
    serve(&g, 90, AS_MS);
    assert_int_equal(as_gradient_limit(&g, SLOTS), 28);
    serve(&g, 10000, AS_MS);
    assert_int_equal(as_gradient_limit(&g, SLOTS), SLOTS);
}

static void test_it_falls_when_calls_take_longer_and_recovers(void **state AS_UNUSED)
{
    struct as_gradient g = {0};
    uint32_t low;

    serve(&g, 10000, AS_MS);
    serve(&g, 200, 10 * AS_MS);
    low = as_gradient_limit(&g, SLOTS);
    assert_in_range(low, 8, 40);
    serve(&g, 10000, AS_MS);
    assert_int_equal(as_gradient_limit(&g, SLOTS), SLOTS);
}

static void test_half_as_much_again_is_tolerated(void **state AS_UNUSED)
{
    struct as_gradient g = {0};

    serve(&g, 10000, AS_MS);
    serve(&g, 100, AS_MS + AS_MS / 2 - AS_US);
    assert_int_equal(as_gradient_limit(&g, SLOTS), SLOTS);
}

static void test_a_replica_that_is_not_busy_does_not_grow(void **state AS_UNUSED)
{
    struct as_gradient g = {0};

    for (uint32_t i = 0; i < 1000; i++)
        assert_false(as_gradient_add(&g, SLOTS, AS_MS, 9));
    assert_int_equal(as_gradient_limit(&g, SLOTS), 20);
    for (uint32_t i = 0; i < 1000; i++)
        (void)as_gradient_add(&g, SLOTS, AS_MS, 11);
    assert_int_equal(as_gradient_limit(&g, SLOTS), 22);
}

/* The worst that it can be: half of it, and four. */
static void test_eight_slots_are_never_limited(void **state AS_UNUSED)
{
    struct as_gradient g = {0};
    as_ns took = 1;

    for (uint32_t i = 0; i < 1000; i++) {
        (void)as_gradient_add(&g, 8, took, 8);
        assert_int_equal(as_gradient_limit(&g, 8), 8);
        took = AS_MIN(took * 2, 3600 * AS_SEC);
    }
}

static void test_extreme_values(void **state AS_UNUSED)
{
    struct as_gradient g = {0};

    assert_int_equal(as_gradient_limit(&g, 0), 0);
    assert_int_equal(as_gradient_limit(&g, 1), 1);
    for (uint32_t i = 0; i < 100; i++)
        (void)as_gradient_add(&g, SLOTS, i % 2 ? 0 : AS_NEVER, UINT32_MAX);
    assert_in_range(as_gradient_limit(&g, SLOTS), 1, SLOTS);
    for (uint32_t i = 0; i < 100; i++)
        (void)as_gradient_add(&g, 0, 0, 0);
    assert_int_equal(as_gradient_limit(&g, 0), 0);
    assert_in_range(as_gradient_limit(&g, SLOTS), 1, SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_begins_with_twenty_and_grows_while_nothing_is_slower),
        cmocka_unit_test(test_it_falls_when_calls_take_longer_and_recovers),
        cmocka_unit_test(test_half_as_much_again_is_tolerated),
        cmocka_unit_test(test_a_replica_that_is_not_busy_does_not_grow),
        cmocka_unit_test(test_eight_slots_are_never_limited),
        cmocka_unit_test(test_extreme_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
