/* Specification of core/protect/quantile. */
#include "core/protect/quantile.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int compare(const void *a, const void *b)
{
    as_ns x = *(const as_ns *)a, y = *(const as_ns *)b;

    return x < y ? -1 : x > y;
}

/* Of the last durations of all that were added. */
static as_ns exact(const as_ns *all, uint32_t n, uint32_t per_mille)
{
    as_ns sorted[AS_QUANTILE_WINDOW];
    uint32_t of = AS_MIN(n, AS_QUANTILE_WINDOW);

    memcpy(sorted, all + n - of, of * sizeof(sorted[0]));
    qsort(sorted, of, sizeof(sorted[0]), compare);
    return sorted[(of * per_mille + 999) / 1000 - 1];
}

static void test_nothing_is_known_at_first(void **state AS_UNUSED)
{
    struct as_quantile q;

    as_quantile_init(&q, 950);
    assert_int_equal(as_quantile_get(&q), 0);
    as_quantile_add(&q, AS_MS);
    assert_in_range(as_quantile_get(&q), AS_MS, AS_MS + AS_MS / 16);
}

static void test_it_is_close_to_the_exact_one(void **state AS_UNUSED)
{
    static const uint32_t quantiles[] = {1, 500, 950, 999};
    static as_ns all[5000];
    struct as_rand rand = {.s = 7};

    for (size_t k = 0; k < AS_COUNT(quantiles); k++) {
        struct as_quantile q;

        as_quantile_init(&q, quantiles[k]);
        for (uint32_t n = 0; n < AS_COUNT(all); n++) {
            as_ns want;

            all[n] = as_rand_below(&rand, 1000) << as_rand_below(&rand, n < 2500 ? 30 : 15);
            as_quantile_add(&q, all[n]);
            want = exact(all, n + 1, quantiles[k]);
            assert_in_range(as_quantile_get(&q), want, want + want / 16 + 64);
        }
    }
}

static void test_it_forgets_what_left_the_window(void **state AS_UNUSED)
{
    struct as_quantile q;

    as_quantile_init(&q, 950);
    for (uint32_t i = 0; i < AS_QUANTILE_WINDOW; i++)
        as_quantile_add(&q, AS_SEC);
    for (uint32_t i = 0; i < AS_QUANTILE_WINDOW * 95 / 100; i++)
        as_quantile_add(&q, AS_MS);
    assert_true(as_quantile_get(&q) >= AS_SEC);
    as_quantile_add(&q, AS_MS);
    assert_true(as_quantile_get(&q) < 2 * AS_MS);
}

static void test_any_duration_is_accepted(void **state AS_UNUSED)
{
    struct as_quantile q;

    as_quantile_init(&q, 999);
    as_quantile_add(&q, 0);
    assert_int_equal(as_quantile_get(&q), 64);
    as_quantile_add(&q, AS_NEVER);
    assert_in_range(as_quantile_get(&q), AS_QUANTILE_MAX, AS_QUANTILE_MAX + AS_QUANTILE_MAX / 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known_at_first),
        cmocka_unit_test(test_it_is_close_to_the_exact_one),
        cmocka_unit_test(test_it_forgets_what_left_the_window),
        cmocka_unit_test(test_any_duration_is_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
