/* Specification of tool/bench/arrival_schedule: times do not drift, and Poisson arrivals have the
 * right distribution. */
#include "tool/bench/arrival_schedule.h"

#include "unit.h"

#include <math.h>

static void constant_times_do_not_drift(void **state AS_UNUSED)
{
    static const uint64_t rates[] = {1, 3, 7, 1000, 999983, 1000000};

    for (size_t i = 0; i < AS_COUNT(rates); i++) {
        struct as_arrival_schedule s;

        as_arrival_schedule_init(&s, 5 * AS_SEC, rates[i], false, 0);
        assert_int_equal(as_arrival_schedule_next(&s), 5 * AS_SEC);
        for (uint64_t n = 1; n <= rates[i]; n++) {
            as_ns at = as_arrival_schedule_next(&s);

            assert_int_equal(at, 5 * AS_SEC + n * AS_SEC / rates[i]);
        }
    }
}

static void a_long_run_does_not_overflow(void **state AS_UNUSED)
{
    struct as_arrival_schedule s;

    as_arrival_schedule_init(&s, 0, 1000000, false, 0);
    s.n = (uint64_t)86400 * 1000000; /* after a day */
    assert_int_equal(as_arrival_schedule_next(&s), 86400 * AS_SEC);
}

static void poisson_distances_are_exponential(void **state AS_UNUSED)
{
    const uint32_t n = 200000;
    const double mean = 1e5; /* ns, at 10000/s */
    struct as_arrival_schedule s;
    as_ns last = AS_SEC;
    double sum = 0, squares = 0;
    uint32_t above = 0;

    as_arrival_schedule_init(&s, AS_SEC, 10000, true, 42);
    for (uint32_t i = 0; i < n; i++) {
        as_ns at = as_arrival_schedule_next(&s);
        double gap = (double)(at - last);

        assert_true(at >= last);
        sum += gap;
        squares += gap * gap;
        above += gap > mean;
        last = at;
    }
    /* within five standard errors of an exponential distribution */
    assert_true(fabs(sum / n - mean) < 5 * mean / sqrt(n));
    assert_true(fabs(squares / n - 2 * mean * mean) < 5 * sqrt(20) * mean * mean / sqrt(n));
    assert_true(fabs((double)above / n - exp(-1)) < 5 * .5 / sqrt(n));
}

static void the_same_seed_gives_the_same_times(void **state AS_UNUSED)
{
    struct as_arrival_schedule a, b, c;
    uint32_t same = 0;

    as_arrival_schedule_init(&a, 0, 100, true, 1);
    as_arrival_schedule_init(&b, 0, 100, true, 1);
    as_arrival_schedule_init(&c, 0, 100, true, 2);
    for (int i = 0; i < 1000; i++) {
        as_ns at = as_arrival_schedule_next(&a);

        assert_int_equal(at, as_arrival_schedule_next(&b));
        same += at == as_arrival_schedule_next(&c);
    }
    assert_true(same < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_times_do_not_drift),
        cmocka_unit_test(a_long_run_does_not_overflow),
        cmocka_unit_test(poisson_distances_are_exponential),
        cmocka_unit_test(the_same_seed_gives_the_same_times),
    };

    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
