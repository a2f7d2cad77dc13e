/* Specification of base/memory/pages: freed runs are cached, the cache is bounded, and unused runs
 * are returned to the system. */
#include "base/memory/pages.h"
#include "unit.h"

#include <pthread.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* The cache is empty when a test starts. */
static int setup(void **state AS_UNUSED)
{
    as_pages_trim();
    as_pages_trim();
    assert_int_equal(as_pages_cached(), 0);
    return 0;
}

static void a_run_is_aligned_and_a_little_larger_than_asked(void **state AS_UNUSED)
{
    static const size_t sizes[] = {0, 1, AS_PAGES_MIN, AS_PAGES_MIN + 1, MIB, MIB + 1, 9 * MIB - 1};

    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        size_t n;
        uint8_t *p = as_pages_get(sizes[i], &n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 4096, 0);
        assert_in_range(n, sizes[i], sizes[i] + sizes[i] / 8 + 4096);
        memset(p, 1, n);
        as_pages_put(p, n);
        as_pages_trim();
        as_pages_trim();
    }
}

static void huge_runs_are_refused(void **state AS_UNUSED)
{
    size_t n;

    assert_null(as_pages_get(SIZE_MAX, &n));
    assert_null(as_pages_get(SIZE_MAX / 4, &n));
}

static void a_freed_run_is_used_again(void **state AS_UNUSED)
{
    size_t n, m;
    void *p = as_pages_get(MIB, &n), *q;

    as_pages_put(p, n);
    assert_int_equal(as_pages_cached(), n);
    q = as_pages_get(MIB - 5, &m);
    assert_ptr_equal(q, p);
    assert_int_equal(m, n);
    assert_int_equal(as_pages_cached(), 0);
    as_pages_put(q, m);
}

static void a_cached_run_of_another_size_stays_cached(void **state AS_UNUSED)
{
    size_t n, m;
    void *p = as_pages_get(MIB, &n), *q;

    as_pages_put(p, n);
    q = as_pages_get(2 * MIB, &m); /* too large for it */
    assert_ptr_not_equal(q, p);
    as_pages_put(q, m);
    assert_int_equal(as_pages_cached(), n + m);
    q = as_pages_get(MIB / 4, &m); /* would waste more than half */
    assert_ptr_not_equal(q, p);
    as_pages_put(q, m);
}

static void reuse_takes_only_cached_runs(void **state AS_UNUSED)
{
    size_t n, m;
    void *p = as_pages_get(MIB, &n);

    assert_null(as_pages_reuse(MIB, &m));
    as_pages_put(p, n);
    assert_null(as_pages_reuse(2 * MIB, &m));
    assert_ptr_equal(as_pages_reuse(MIB, &m), p);
    assert_int_equal(m, n);
    as_pages_put(p, n);
}

static void a_run_grows_with_its_bytes(void **state AS_UNUSED)
{
    size_t n, m;
    uint8_t *p = as_pages_get(AS_PAGES_MIN, &n), *q;

    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i / 4096 + i);
    q = as_pages_grow(p, n, 40 * MIB, &m);
    assert_non_null(q);
    assert_in_range(m, 40 * MIB, 45 * MIB + 4096);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(q[i], (uint8_t)(i / 4096 + i));
    q[m - 1] = 1;
    assert_null(as_pages_grow(q, m, SIZE_MAX / 4, &n));
    assert_int_equal(q[m - 1], 1);
    as_pages_put(q, m);
}

static void the_number_of_cached_runs_is_bounded(void **state AS_UNUSED)
{
    void *p[AS_PAGES_SLOTS + 1];
    size_t n = 0;

    for (size_t i = 0; i <= AS_PAGES_SLOTS; i++)
        p[i] = as_pages_get(AS_PAGES_MIN, &n);
    assert_int_equal(n, AS_PAGES_MIN);
    for (size_t i = 0; i <= AS_PAGES_SLOTS; i++)
        as_pages_put(p[i], n);
    assert_int_equal(as_pages_cached(), AS_PAGES_SLOTS * n);
}

static void the_bytes_of_cached_runs_are_bounded(void **state AS_UNUSED)
{
    void *p[5];
    size_t n = 0;

    for (size_t i = 0; i < 5; i++)
        p[i] = as_pages_get(AS_PAGES_CACHE_MAX / 4, &n);
    assert_int_equal(n, AS_PAGES_CACHE_MAX / 4);
    for (size_t i = 0; i < 5; i++)
        as_pages_put(p[i], n);
    assert_int_equal(as_pages_cached(), AS_PAGES_CACHE_MAX);
}

static void sizes_that_nobody_asks_for_make_room(void **state AS_UNUSED)
{
    void *old[4], *p;
    size_t n[4], m, k;

    for (size_t i = 0; i < 4; i++)
        old[i] = as_pages_get(AS_PAGES_CACHE_MAX / 4, &n[i]);
    for (size_t i = 0; i < 4; i++)
        as_pages_put(old[i], n[i]);
    p = as_pages_get(MIB, &m);
    as_pages_put(p, m);
    assert_int_equal(as_pages_cached(), 3 * n[0] + m);
    assert_ptr_equal(as_pages_reuse(MIB, &k), p);
    as_pages_put(p, k);
    p = as_pages_get(AS_PAGES_CACHE_MAX + 1, &m); /* never cached, and makes nobody go */
    as_pages_put(p, m);
    assert_int_equal(as_pages_cached(), 3 * n[0] + k);
}

static void a_run_that_is_large_enough_does_not_grow(void **state AS_UNUSED)
{
    size_t n, m;
    void *p = as_pages_get(2 * MIB, &n);

    as_pages_put(p, n);
    assert_ptr_equal(as_pages_reuse(MIB, &m), p);
    assert_ptr_equal(as_pages_grow(p, m, 2 * MIB, &n), p);
    assert_int_equal(n, m);
    as_pages_put(p, n);
}

/* As the bodies of 16 connections are, which come and go in pieces of several sizes. */
static void runs_of_mixed_sizes_are_all_used_again(void **state AS_UNUSED)
{
    enum { N = 128 };
    void *p[N], *q[N];
    size_t n[N], m, found = 0;

    for (size_t i = 0; i < N; i++)
        p[i] = as_pages_get(AS_PAGES_MIN + i % 3 * (AS_PAGES_MIN / 2), &n[i]);
    for (size_t i = 0; i < N; i++)
        as_pages_put(p[i], n[i]);
    for (size_t i = 0; i < N; i++) {
        q[i] = as_pages_reuse(n[N - 1 - i], &m);
        found += q[i] != NULL;
    }
    assert_int_equal(found, N);
    assert_int_equal(as_pages_cached(), 0);
    for (size_t i = 0; i < N; i++)
        as_pages_put(p[i], n[i]);
}

static void an_unused_run_is_unmapped_at_the_second_trim(void **state AS_UNUSED)
{
    size_t n, m;
    void *p = as_pages_get(MIB, &n), *q = as_pages_get(4 * MIB, &m);

    as_pages_put(p, n);
    as_pages_trim();
    as_pages_put(q, m);
    assert_int_equal(as_pages_cached(), n + m);
    as_pages_trim();
    assert_int_equal(as_pages_cached(), m);
    as_pages_trim();
    assert_int_equal(as_pages_cached(), 0);
}

static void *get_and_put(void *arg)
{
    uint64_t mark = (uintptr_t)arg;

    for (size_t i = 0; i < 3000; i++) {
        size_t n, size = AS_PAGES_MIN << (i * 7 + mark) % 4;
        uint64_t *p = as_pages_get(size, &n);

        assert_non_null(p);
        assert_true(n >= size);
        p[0] = p[n / 8 - 1] = mark << 32 | i; /* no other thread may write here */
        if (i % 64 == 0)
            as_pages_trim();
        assert_true(p[0] == (mark << 32 | i) && p[n / 8 - 1] == (mark << 32 | i));
        as_pages_put(p, n);
    }
    return NULL;
}

static void threads_never_share_a_run(void **state AS_UNUSED)
{
    pthread_t t[4];

    for (uintptr_t i = 0; i < AS_COUNT(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, get_and_put, (void *)(i + 1)), 0);
    for (size_t i = 0; i < AS_COUNT(t); i++)
        pthread_join(t[i], NULL);
    assert_in_range(as_pages_cached(), 0, AS_PAGES_CACHE_MAX);
}

#define FRESH(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_run_is_aligned_and_a_little_larger_than_asked),
        FRESH(huge_runs_are_refused),
        FRESH(a_freed_run_is_used_again),
        FRESH(a_cached_run_of_another_size_stays_cached),
        FRESH(reuse_takes_only_cached_runs),
        FRESH(a_run_grows_with_its_bytes),
        FRESH(the_number_of_cached_runs_is_bounded),
        FRESH(the_bytes_of_cached_runs_are_bounded),
        FRESH(sizes_that_nobody_asks_for_make_room),
        FRESH(a_run_that_is_large_enough_does_not_grow),
        FRESH(runs_of_mixed_sizes_are_all_used_again),
        FRESH(an_unused_run_is_unmapped_at_the_second_trim),
        FRESH(threads_never_share_a_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
