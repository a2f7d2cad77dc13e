/* Specification of core/autoscale/load_history: counts over time, weighted by how long each was
 * true. */
#include "core/autoscale/load_history.h"

#include "base/rand.h"

#include <math.h>

#include "unit.h"

#define assert_near(a, b, by) assert_true(fabs((a) - (b)) <= (by))

#define WINDOW (64 * AS_SEC) /* a bucket is a second */

static struct as_load_history h;
static bool varies;

static int begin(void **state AS_UNUSED)
{
    as_load_history_init(&h, WINDOW);
    return 0;
}

static double value(enum as_load_aggregation how, as_ns window, as_ns now)
{
    return as_load_history_value(&h, how, window, now, &varies);
}

static void test_without_counts_it_is_zero(void **state AS_UNUSED)
{
    assert_true(value(AS_LOAD_MEAN, WINDOW, 5 * AS_SEC) == 0);
    assert_false(varies);
    assert_false(h.known);
}

static void test_the_mean_is_weighted_by_time(void **state AS_UNUSED)
{
    as_load_history_set(&h, 10, 100 * AS_SEC);
    as_load_history_set(&h, 0, 101 * AS_SEC);
    assert_near(value(AS_LOAD_MEAN, WINDOW, 110 * AS_SEC), 1.0, 1e-9);
    assert_true(varies);
    assert_near(value(AS_LOAD_MAX, WINDOW, 110 * AS_SEC), 10, 0);
    assert_near(value(AS_LOAD_MIN, WINDOW, 110 * AS_SEC), 0, 0);
}

static void test_a_window_of_zero_is_the_count_of_now(void **state AS_UNUSED)
{
    as_load_history_set(&h, 10, 100 * AS_SEC);
    as_load_history_set(&h, 7, 101 * AS_SEC);
    assert_true(value(AS_LOAD_MEAN, 0, 101 * AS_SEC) == 7);
    assert_true(value(AS_LOAD_MAX, 0, 101 * AS_SEC) == 7);
    assert_false(varies);
}

static void test_what_is_older_than_the_window_has_no_effect(void **state AS_UNUSED)
{
    as_load_history_set(&h, 1000, 100 * AS_SEC);
    as_load_history_set(&h, 2, 110 * AS_SEC);
    assert_true(value(AS_LOAD_MAX, 10 * AS_SEC, 122 * AS_SEC) == 2);
    assert_false(varies);
    assert_true(value(AS_LOAD_MEAN, WINDOW, 110 * AS_SEC + WINDOW + AS_SEC) == 2);
    assert_false(varies);
}

static void test_a_constant_count_is_not_rounded(void **state AS_UNUSED)
{
    as_load_history_init(&h, 7 * AS_SEC / 3);
    as_load_history_set(&h, 3, 1);
    for (as_ns t = 1; t < 20 * AS_SEC; t += 77777777)
        assert_true(value(AS_LOAD_MEAN, 7 * AS_SEC / 3, t) == 3);
}

static void test_a_long_silence_keeps_the_count(void **state AS_UNUSED)
{
    as_load_history_set(&h, 5, AS_SEC);
    assert_true(value(AS_LOAD_MEAN, WINDOW, 86400 * 365 * AS_SEC) == 5);
    assert_false(varies);
}

static void test_forgotten_counts_are_not_known(void **state AS_UNUSED)
{
    as_load_history_set(&h, 5, AS_SEC);
    as_load_history_forget(&h);
    assert_false(h.known);
    assert_true(value(AS_LOAD_MAX, WINDOW, 2 * AS_SEC) == 0);
    as_load_history_set(&h, 3, 3 * AS_SEC);
    assert_true(value(AS_LOAD_MEAN, WINDOW, 4 * AS_SEC) == 3);
}

/* Any sequence: the mean is that of a sum over all counts, to the width of a bucket. */
static void test_random_counts_agree_with_a_sum(void **state AS_UNUSED)
{
    struct as_rand r = {.s = 7};

    for (uint32_t run = 0; run < 200; run++) {
        as_ns at[400], now = 1000 * AS_SEC, window = (1 + as_rand_next(&r) % 64) * AS_SEC;
        uint32_t count[400], high = 0, n = 400;
        double sum = 0;
        as_ns from;

        as_load_history_init(&h, WINDOW);
        for (uint32_t i = 0; i < n; i++) {
            at[i] = now;
            count[i] = (uint32_t)(as_rand_next(&r) % 100);
            as_load_history_set(&h, count[i], now);
            now += as_rand_next(&r) % (AS_SEC / 2);
        }
        now -= now % AS_SEC; /* whole buckets: no part of one is in the window by its width */
        now += AS_SEC;
        from = now - window;
        for (uint32_t i = 0; i < n; i++) {
            as_ns begin = AS_MAX(at[i], from), end = i + 1 < n ? AS_MAX(at[i + 1], from) : now;

            sum += count[i] * (double)(end - begin);
            high = end > begin ? AS_MAX(high, count[i]) : high;
        }
        assert_near(value(AS_LOAD_MEAN, window, now), sum / (double)window, 1e-6);
        assert_true(value(AS_LOAD_MAX, window, now) == high);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_without_counts_it_is_zero, begin),
        cmocka_unit_test_setup(test_the_mean_is_weighted_by_time, begin),
        cmocka_unit_test_setup(test_a_window_of_zero_is_the_count_of_now, begin),
        cmocka_unit_test_setup(test_what_is_older_than_the_window_has_no_effect, begin),
        cmocka_unit_test_setup(test_a_constant_count_is_not_rounded, begin),
        cmocka_unit_test_setup(test_a_long_silence_keeps_the_count, begin),
        cmocka_unit_test_setup(test_forgotten_counts_are_not_known, begin),
        cmocka_unit_test(test_random_counts_agree_with_a_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
