/* Specification of core/queue/stat: the buckets of a histogram. */
#include "core/queue/stat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static uint32_t bucket_of(as_ns v)
{
    struct as_hist h = {0};
    uint32_t i = 0;

    as_hist_add(&h, v);
    while (i < AS_HIST_BUCKETS && !h.bucket[i])
        i++;
    return i;
}

static void test_bucket_i_ends_at_2_to_the_i_microseconds(void **state AS_UNUSED)
{
    assert_int_equal(bucket_of(0), 0);
    for (uint32_t i = 0; i + 1 < AS_HIST_BUCKETS; i++) {
        assert_int_equal(bucket_of(AS_US << i), i);
        assert_int_equal(bucket_of((AS_US << i) + 1), i + 1);
    }
}

static void test_the_last_bucket_takes_everything_longer(void **state AS_UNUSED)
{
    assert_int_equal(bucket_of(1000 * AS_SEC), AS_HIST_BUCKETS - 1);
    assert_int_equal(bucket_of(UINT64_MAX), AS_HIST_BUCKETS - 1);
}

static void test_count_and_sum(void **state AS_UNUSED)
{
    struct as_hist h = {0};

    as_hist_add(&h, 3);
    as_hist_add(&h, 5 * AS_MS);
    assert_int_equal(h.count, 2);
    assert_true(h.sum == 3 + 5 * AS_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket_i_ends_at_2_to_the_i_microseconds),
        cmocka_unit_test(test_the_last_bucket_takes_everything_longer),
        cmocka_unit_test(test_count_and_sum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
