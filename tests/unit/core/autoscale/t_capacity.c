/* Specification of core/autoscale/capacity: which part of its replicas a deployment has, and which
 * way the part goes. */
#include "core/autoscale/capacity.h"

#include "unit.h"

#define PERCENT 1000

static uint32_t part(int32_t share, uint32_t n)
{
    return as_capacity_replicas(&(struct as_capacity){.share = share}, n);
}

static void all_is_unchanged(void **state AS_UNUSED)
{
    for (uint32_t n = 0; n <= AS_AUTOSCALE_REPLICAS_MAX; n++) {
        assert_int_equal(part(AS_CAPACITY_UNSET, n), n);
        assert_int_equal(part(100 * PERCENT, n), n);
    }
}

static void nothing_is_none(void **state AS_UNUSED)
{
    for (uint32_t n = 0; n <= AS_AUTOSCALE_REPLICAS_MAX; n++)
        assert_int_equal(part(0, n), 0);
    for (int32_t share = 0; share <= AS_CAPACITY_ALL; share += 7)
        assert_int_equal(part(share, 0), 0);
}

static void a_half_is_rounded_up(void **state AS_UNUSED)
{
    assert_int_equal(part(50 * PERCENT, 1), 1); /* 0.5; Python's round() says 0 */
    assert_int_equal(part(50 * PERCENT, 3), 2); /* 1.5 */
    assert_int_equal(part(50 * PERCENT, 5), 3); /* 2.5; Python's round() says 2 */
    assert_int_equal(part(49900, 5), 2);        /* 2.495 */
    assert_int_equal(part(49900, 1000), 499);
    assert_int_equal(part(25 * PERCENT, 10), 3); /* 2.5 */
    assert_int_equal(part(24999, 10), 2);        /* 2.4999 */
    assert_int_equal(part(99999, 1024), 1024);   /* 1023.98976 */
    assert_int_equal(part(33333, 3), 1);
}

static void above_nothing_it_is_at_least_one(void **state AS_UNUSED)
{
    assert_int_equal(part(1, 1), 1);
    assert_int_equal(part(1 * PERCENT, 1), 1);
    assert_int_equal(part(1 * PERCENT, 49), 1);  /* 0.49 */
    assert_int_equal(part(1 * PERCENT, 149), 1); /* 1.49 */
    assert_int_equal(part(1 * PERCENT, 150), 2); /* 1.5 */
    assert_int_equal(part(1, AS_AUTOSCALE_REPLICAS_MAX), 1);
}

static struct as_autoscale_config config(double least, double initial, double most)
{
    struct as_autoscale_config c;

    as_autoscale_config_init(&c, false);
    c.min_replicas = least;
    c.initial_replicas = initial;
    c.max_replicas = most;
    c.schedule.n = 1;
    c.schedule.entry[0].min_replicas = 8;
    return c;
}

static void check(int32_t share, enum as_capacity_direction direction, struct as_autoscale_config c,
                  double least, double initial, double most)
{
    as_capacity_apply(&(struct as_capacity){share, direction}, &c);
    assert_true(c.min_replicas == least && c.initial_replicas == initial && c.max_replicas == most);
    assert_int_equal(c.schedule.entry[0].min_replicas, part(share, 8));
}

static void the_bounds_of_autoscaling_are_changed(void **state AS_UNUSED)
{
    struct as_autoscale_config c = config(2, 6, 20);

    check(50 * PERCENT, AS_CAPACITY_DOWN, c, 1, 3, 10);
    check(0, AS_CAPACITY_DOWN, c, 0, 0, 0);
    check(AS_CAPACITY_UNSET, AS_CAPACITY_STEADY, c, 2, 6, 20);
    check(50 * PERCENT, AS_CAPACITY_DOWN, config(0, 0, 1), 0, 0, 1);
}

static void on_the_way_up_the_initial_number_is_the_minimum(void **state AS_UNUSED)
{
    check(50 * PERCENT, AS_CAPACITY_UP, config(2, 6, 20), 3, 3, 10);
    check(100 * PERCENT, AS_CAPACITY_UP, config(2, 6, 20), 6, 6, 20);
    check(50 * PERCENT, AS_CAPACITY_UP, config(0, 0, 20), 0, 0, 10);
    check(50 * PERCENT, AS_CAPACITY_UP, config(2, -1, 20), 1, -1, 10); /* it has none */
}

static void check_next(int32_t was, enum as_capacity_direction direction, int32_t share,
                       enum as_capacity_direction want)
{
    assert_int_equal(as_capacity_next(&(struct as_capacity){was, direction}, share), want);
}

static void the_direction_follows_the_change(void **state AS_UNUSED)
{
    for (int i = AS_CAPACITY_STEADY; i <= AS_CAPACITY_DOWN; i++) {
        enum as_capacity_direction d = (enum as_capacity_direction)i;

        check_next(50, d, 50, d);
        check_next(0, d, 0, d);
        check_next(50, d, 51, AS_CAPACITY_UP);
        check_next(50, d, 49, AS_CAPACITY_DOWN);
        check_next(0, d, AS_CAPACITY_ALL, AS_CAPACITY_UP);
        check_next(50, d, AS_CAPACITY_UNSET, AS_CAPACITY_STEADY);
    }
    check_next(AS_CAPACITY_UNSET, AS_CAPACITY_STEADY, 0, AS_CAPACITY_DOWN);
    check_next(AS_CAPACITY_UNSET, AS_CAPACITY_STEADY, AS_CAPACITY_ALL, AS_CAPACITY_DOWN);
    check_next(AS_CAPACITY_UNSET, AS_CAPACITY_STEADY, AS_CAPACITY_UNSET, AS_CAPACITY_STEADY);
}

static void what_is_new_goes_up(void **state AS_UNUSED)
{
    assert_int_equal(as_capacity_next(NULL, 0), AS_CAPACITY_UP);
    assert_int_equal(as_capacity_next(NULL, AS_CAPACITY_ALL), AS_CAPACITY_UP);
    assert_int_equal(as_capacity_next(NULL, AS_CAPACITY_UNSET), AS_CAPACITY_STEADY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_unchanged),
        cmocka_unit_test(nothing_is_none),
        cmocka_unit_test(a_half_is_rounded_up),
        cmocka_unit_test(above_nothing_it_is_at_least_one),
        cmocka_unit_test(the_bounds_of_autoscaling_are_changed),
        cmocka_unit_test(on_the_way_up_the_initial_number_is_the_minimum),
        cmocka_unit_test(the_direction_follows_the_change),
        cmocka_unit_test(what_is_new_goes_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
