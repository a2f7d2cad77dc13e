/* Specification of base/memory/blob: reference-counted bytes, charged to an account, that may grow.
 */
#include "base/memory/blob.h"

#include "base/err.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "unit.h"

#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct as_budget budget;
static struct as_account *payer;
static size_t live;

static int setup(void **state AS_UNUSED)
{
    as_pages_trim();
    as_pages_trim();
    budget = (struct as_budget){.limit = 64 * MIB, .share = 100};
    payer = as_account_new(&budget);
    live = as_live_bytes();
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    assert_int_equal(as_budget_used(&budget), 0);
    assert_int_equal(as_live_bytes(), live);
    as_account_unref(payer);
    return 0;
}

static void last_unref_ends_the_charge(void **state AS_UNUSED)
{
    struct as_blob *b;

    assert_int_equal(as_blob_new_charged(payer, 10000, &b), 0);
    assert_int_equal(as_budget_used(&budget), 10000);
    as_blob_ref(b);
    as_blob_unref(b);
    assert_int_equal(as_account_charged(payer), 10000);
    as_blob_unref(b);
    assert_int_equal(as_account_charged(payer), 0);
}

static void blob_without_an_account(void **state AS_UNUSED)
{
    struct as_blob *b;

    assert_int_equal(as_blob_new_charged(NULL, 65 * MIB, &b), 0);
    as_blob_unref(b);
    assert_int_equal(as_blob_new_growing(NULL, MIB, &b), 0);
    assert_int_equal(as_blob_grow(&b, MIB), 0);
    as_blob_unref(b);
}

static void charge_over_the_limit_is_refused(void **state AS_UNUSED)
{
    struct as_blob *b = NULL;

    assert_int_equal(as_blob_new_charged(payer, 64 * MIB + 1, &b), AS_EFULL);
    assert_null(b);
    budget.limit = 128 * KIB;
    assert_int_equal(as_blob_new_growing(payer, MIB, &b), 0);
    assert_int_equal(as_blob_grow(&b, 128 * KIB + 1), AS_EFULL);
    assert_int_equal(b->n, 128 * KIB);
    as_blob_unref(b);
    budget.limit--;
    assert_int_equal(as_blob_new_growing(payer, MIB, &b), AS_EFULL);
}

/* AddressSanitizer ends a program that allocates so much. */
#ifndef __SANITIZE_ADDRESS__
static void out_of_memory_ends_the_charge(void **state AS_UNUSED)
{
    struct as_blob *b = NULL;

    budget.limit = (uint64_t)1 << 50;
    assert_int_equal(as_blob_new_charged(NULL, SIZE_MAX, &b), AS_ENOMEM);
    assert_int_equal(as_blob_new_charged(payer, (size_t)1 << 49, &b), AS_ENOMEM);
    assert_int_equal(as_budget_used(&budget), 0);
    assert_int_equal(as_blob_new_growing(payer, MIB, &b), 0);
    memset(b->data, 7, b->n);
    assert_int_equal(as_blob_grow(&b, (size_t)1 << 49), AS_ENOMEM);
    assert_int_equal(as_budget_used(&budget), 128 * KIB);
    assert_int_equal(b->data[128 * KIB - 1], 7);
    as_blob_unref(b);
}
#endif

/* The bytes that there is room for are charged; a small blob is charged at once. */
static void growing_blob_is_charged_as_it_grows(void **state AS_UNUSED)
{
    struct as_blob *b;

    assert_int_equal(as_blob_new_growing(payer, 128 * KIB, &b), 0);
    assert_int_equal(b->n, 128 * KIB);
    as_blob_unref(b);
    assert_int_equal(as_blob_new_growing(payer, 128 * KIB + 1, &b), 0);
    assert_int_equal(b->n, 128 * KIB);
    assert_int_equal(as_budget_used(&budget), 128 * KIB);
    assert_int_equal(as_blob_grow(&b, 128 * KIB + 1), 0);
    assert_int_equal(as_budget_used(&budget), 128 * KIB + 1);
    as_blob_unref(b);
}

static void growth_steps(void **state AS_UNUSED)
{
    assert_int_equal(as_blob_grow_to(1, 8), 8);
    assert_int_equal(as_blob_grow_to(1, 15), 15);
    assert_int_equal(as_blob_grow_to(1, 16), 8);
    assert_int_equal(as_blob_grow_to(128 * KIB, MIB), MIB);
    assert_int_equal(as_blob_grow_to(128 * KIB, MIB + 8), MIB);
    assert_int_equal(as_blob_grow_to(MIB, MIB), MIB);
    assert_int_equal(as_blob_grow_to(0, SIZE_MAX), 0);
}

/* After the first 128 KiB and an eighth of the bytes there is room for all. */
static void growth_follows_the_bytes_received(void **state AS_UNUSED)
{
    static const size_t totals[] = {1, 128 * KIB, 128 * KIB + 1, MIB, MIB + 8, 16 * MIB};

    for (size_t i = 0; i < AS_COUNT(totals); i++) {
        size_t total = totals[i], steps = 0;
        struct as_blob *b;

        assert_int_equal(as_blob_new_growing(payer, total, &b), 0);
        while (as_blob_grow_at(b, total) < total) {
            size_t due = as_blob_grow_at(b, total);

            assert_in_range(due, 128 * KIB, AS_MAX(total / 8, 128 * KIB));
            assert_true(as_budget_used(&budget) <= 8 * due);
            assert_int_equal(as_blob_grow(&b, as_blob_grow_to(due + 1, total)), 0);
            steps++;
        }
        assert_int_equal(as_budget_used(&budget), total);
        assert_in_range(steps, 0, 3);
        as_blob_unref(b);
    }
}

/* From 128 KiB to 2 MiB, and from the heap to pages. */
static void growing_keeps_the_bytes(void **state AS_UNUSED)
{
    static const size_t firsts[] = {1000, 100 * KIB, 128 * KIB, 200 * KIB};

    for (size_t i = 0; i < AS_COUNT(firsts); i++) {
        struct as_blob *b;
        size_t at = 0;

        assert_int_equal(as_blob_new_charged(payer, firsts[i], &b), 0);
        while (b->n < 2 * MIB) {
            for (; at < b->n; at++)
                b->data[at] = (uint8_t)(at * 31 >> 3);
            assert_int_equal(as_blob_grow(&b, 3 * b->n), 0);
            assert_int_equal((uintptr_t)b->data % AS_BLOB_ALIGN, 0);
            assert_int_equal(as_budget_used(&budget), b->n);
            assert_int_equal(as_live_bytes(), live + b->n);
        }
        for (size_t k = 0; k < at; k++)
            assert_int_equal(b->data[k], (uint8_t)(k * 31 >> 3));
        as_blob_unref(b);
    }
}

/* In a cached run that fits the blob never moves, but it is charged as it grows. */
static void a_cached_run_does_not_move(void **state AS_UNUSED)
{
    struct as_blob *b;
    const uint8_t *p AS_UNUSED; /* with AddressSanitizer all blobs are in the heap */

    assert_int_equal(as_blob_new_growing(payer, 4 * MIB, &b), 0);
    assert_int_equal(as_blob_grow(&b, 4 * MIB), 0);
    as_blob_unref(b);
    assert_int_equal(as_blob_new_growing(payer, 4 * MIB, &b), 0);
    p = b->data;
    assert_int_equal(as_budget_used(&budget), 128 * KIB);
    assert_int_equal(as_blob_grow(&b, MIB), 0);
    assert_int_equal(as_blob_grow(&b, 4 * MIB), 0);
#ifndef __SANITIZE_ADDRESS__
    assert_ptr_equal(b->data, p);
#endif
    assert_int_equal(as_budget_used(&budget), 4 * MIB);
    as_blob_unref(b);
}

static void truncating_ends_the_charge_of_the_rest(void **state AS_UNUSED)
{
    struct as_blob *b;

    assert_int_equal(as_blob_new_charged(payer, MIB, &b), 0);
    as_blob_truncate(b, 1000);
    assert_int_equal(b->n, 1000);
    assert_int_equal(as_budget_used(&budget), 1000);
    as_blob_unref(b);
}

/* The connection has gone, and its bytes are still being written. */
static void a_blob_keeps_its_account_alive(void **state AS_UNUSED)
{
    struct as_account *gone = as_account_new(&budget);
    struct as_blob *b;

    assert_int_equal(as_blob_new_charged(gone, MIB, &b), 0);
    as_account_unref(gone);
    assert_int_equal(as_budget_used(&budget), MIB);
    as_blob_unref(b);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(last_unref_ends_the_charge),          CASE(blob_without_an_account),
        CASE(charge_over_the_limit_is_refused),
#ifndef __SANITIZE_ADDRESS__
        CASE(out_of_memory_ends_the_charge),
#endif
        CASE(growing_blob_is_charged_as_it_grows), CASE(growth_steps),
        CASE(growth_follows_the_bytes_received),   CASE(growing_keeps_the_bytes),
        CASE(a_cached_run_does_not_move),          CASE(truncating_ends_the_charge_of_the_rest),
        CASE(a_blob_keeps_its_account_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
