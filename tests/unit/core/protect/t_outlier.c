/* Specification of core/protect/outlier: the running median, which replicas are outliers, how many
 * may be ejected. */
#include "core/protect/outlier.h"

#include "base/rand.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const struct as_outlier_conf conf = {.factor = 3, .percent = 33};

static as_ns around(struct as_rand *r, as_ns mean) /* uniform, 0.5 to 1.5 times the mean */
{
    return mean / 2 + as_rand_below(r, mean);
}

static void test_the_median_settles(void **state AS_UNUSED)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct as_rand r = {seed};
        struct as_median m = {0};
        as_ns sum = 0;

        for (int i = 0; i < 100; i++)
            as_median_add(&m, around(&r, 20 * AS_MS));
        for (int i = 0; i < 1000; i++) {
            as_median_add(&m, around(&r, 20 * AS_MS));
            assert_in_range(m.value, 10 * AS_MS, 30 * AS_MS);
            sum += m.value;
        }
        assert_in_range(sum / 1000, 17 * AS_MS, 23 * AS_MS);
    }
}

static void test_rare_long_ones_do_not_move_it(void **state AS_UNUSED)
{
    struct as_rand r = {7};
    struct as_median m = {0};

    for (int i = 0; i < 5000; i++) {
        as_median_add(&m, i % 50 == 49 ? 60 * AS_SEC : around(&r, 20 * AS_MS));
        assert_true(i < 50 || m.value < 40 * AS_MS);
    }
}

static void test_it_follows_a_jump(void **state AS_UNUSED)
{
    struct as_rand r = {3};
    struct as_median m = {0};
    int n = 0;

    for (int i = 0; i < 1000; i++)
        as_median_add(&m, around(&r, 20 * AS_MS));
    for (; m.value < 100 * AS_MS; n++)
        as_median_add(&m, around(&r, 200 * AS_MS));
    assert_in_range(n, 1, 16);
    for (n = 0; m.value > 30 * AS_MS; n++)
        as_median_add(&m, around(&r, 20 * AS_MS));
    assert_in_range(n, 1, 16);
}

static void test_the_smallest_samples(void **state AS_UNUSED)
{
    struct as_median m = {0};

    for (int i = 0; i < 10; i++)
        as_median_add(&m, 1);
    assert_true(m.value == 1 && m.n == 10);
    for (int i = 0; i < 50; i++)
        as_median_add(&m, 0);
    assert_true(m.value == 1); /* 0 is no sample */
}

static void test_some_may_be_ejected_but_never_the_last(void **state AS_UNUSED)
{
    static const uint32_t most[] = {0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 3};

    for (uint32_t n = 0; n < AS_COUNT(most); n++) {
        for (uint32_t out = 0; out <= n; out++)
            assert_int_equal(as_outlier_may_eject(&conf, n, out), out < most[n]);
    }
    /* 100 % would leave no replica */
    assert_false(as_outlier_may_eject(&(struct as_outlier_conf){.percent = 100}, 4, 3));
    assert_true(as_outlier_may_eject(&(struct as_outlier_conf){.percent = 100}, 4, 2));
}

static void test_a_share_of_slow_requests(void **state AS_UNUSED)
{
    struct as_slow_share s = {0};

    for (uint32_t i = 0; i < AS_SLOW_SAMPLES - 1; i++) {
        as_slow_share_add(&s, true);
        assert_false(as_slow_share_is_high(&s)); /* too few */
    }
    as_slow_share_add(&s, true);
    assert_true(as_slow_share_is_high(&s));
    for (uint32_t i = 0; i < 21; i++) /* (31/32)^22 is below one half */
        as_slow_share_add(&s, false);
    assert_true(as_slow_share_is_high(&s));
    as_slow_share_add(&s, false);
    assert_false(as_slow_share_is_high(&s));
}

/* 19 % are above 3 times the median when the standard deviation is twice the mean. */
static void test_chance_does_not_make_a_share_high(void **state AS_UNUSED)
{
    struct as_rand rand = {1};
    struct as_slow_share s = {0};

    for (uint32_t i = 0; i < 100000; i++) {
        as_slow_share_add(&s, as_rand_below(&rand, 100) < 19);
        assert_false(as_slow_share_is_high(&s));
    }
}

static void test_slow_is_several_times_the_peers_median(void **state AS_UNUSED)
{
    as_ns peers[] = {50, 10, 1000, 10};

    assert_false(as_outlier_is_slow(&conf, 150, peers, 4));
    assert_true(as_outlier_is_slow(&conf, 153, peers, 4));
    assert_false(as_outlier_is_slow(&conf, 1000, peers, 0)); /* no peers to compare with */
    assert_false(as_outlier_is_slow(&(struct as_outlier_conf){0}, 1000, peers, 4));
}

static void test_it_fails_alone(void **state AS_UNUSED)
{
    const uint32_t well[] = {0, 2, 9}, ill[] = {0, 3, 9}, two[] = {0, 9};

    assert_true(as_outlier_is_failing(5, well, 3));
    assert_false(as_outlier_is_failing(5, ill, 3));
    assert_false(as_outlier_is_failing(5, two, 2));
    assert_false(as_outlier_is_failing(5, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_median_settles),
        cmocka_unit_test(test_rare_long_ones_do_not_move_it),
        cmocka_unit_test(test_it_follows_a_jump),
        cmocka_unit_test(test_the_smallest_samples),
        cmocka_unit_test(test_some_may_be_ejected_but_never_the_last),
        cmocka_unit_test(test_a_share_of_slow_requests),
        cmocka_unit_test(test_chance_does_not_make_a_share_high),
        cmocka_unit_test(test_slow_is_several_times_the_peers_median),
        cmocka_unit_test(test_it_fails_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
