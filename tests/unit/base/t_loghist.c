/* Specification of base/loghist: buckets without gaps, and quantiles against exact ones. */
#include "base/loghist.h"

#include "base/rand.h"
#include "unit.h"

static void buckets_follow_each_other_without_a_gap(void **state AS_UNUSED)
{
    uint32_t last = as_loghist_index(UINT64_MAX);

    for (uint32_t i = 0; i <= last; i++) {
        as_ns low = as_loghist_low(i);

        assert_int_equal(as_loghist_index(low), i);
        if (i)
            assert_int_equal(as_loghist_index(low - 1), i - 1);
    }
    assert_true(last < AS_COUNT(((struct as_loghist *)0)->bucket));
}

static void a_bucket_is_at_most_a_64th_wide(void **state AS_UNUSED)
{
    struct as_rand r = {1};

    for (int i = 0; i < 100000; i++) {
        as_ns v = as_rand_next(&r) >> as_rand_below(&r, 64),
              low = as_loghist_low(as_loghist_index(v));

        assert_true(low <= v && v - low <= v / 64);
        if (v < 128)
            assert_int_equal(low, v);
    }
}

static int by_size(const void *a, const void *b)
{
    const as_ns *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static void quantiles_are_those_of_the_sorted_samples(void **state AS_UNUSED)
{
    static const double shares[] = {0, .1, .5, .9, .99, .999, .9999};
    static struct as_loghist h;
    struct as_rand r = {7};
    size_t sizes[] = {1, 2, 10, 999, 100000};

    for (size_t k = 0; k < AS_COUNT(sizes); k++) {
        size_t n = sizes[k];
        as_ns *v = as_xalloc(n * sizeof(*v));

        h = (struct as_loghist){0};
        for (size_t i = 0; i < n; i++) { /* a few large samples among many small ones */
            v[i] = 50000 + as_rand_below(&r, 100000) * (as_rand_below(&r, 100) ? 1 : 1000);
            as_loghist_add(&h, v[i]);
        }
        qsort(v, n, sizeof(*v), by_size);
        assert_int_equal(h.n, n);
        assert_int_equal(h.max, v[n - 1]);
        for (size_t i = 0; i < AS_COUNT(shares); i++) {
            as_ns exact = v[(size_t)((double)n * shares[i])],
                  got = as_loghist_quantile(&h, shares[i]);

            assert_true(got <= exact && exact - got <= exact / 64);
        }
        assert_int_equal(as_loghist_quantile(&h, 1), v[n - 1]); /* the largest is exact */
        free(v);
    }
}

static void empty_histogram_has_no_quantile(void **state AS_UNUSED)
{
    static struct as_loghist h;

    assert_int_equal(as_loghist_quantile(&h, .5), 0);
    as_loghist_add(&h, 0);
    as_loghist_add(&h, UINT64_MAX);
    assert_int_equal(as_loghist_quantile(&h, .4), 0);
    assert_true(as_loghist_quantile(&h, 1) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_follow_each_other_without_a_gap),
        cmocka_unit_test(a_bucket_is_at_most_a_64th_wide),
        cmocka_unit_test(quantiles_are_those_of_the_sorted_samples),
        cmocka_unit_test(empty_histogram_has_no_quantile),
    };

    return cmocka_run_group_tests_name("loghist", tests, NULL, NULL);
}
