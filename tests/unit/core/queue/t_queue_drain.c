/* Specification of core/queue/queue_drain: the hint follows the measured rate, and is bounded. */
#include "core/queue/queue_drain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW (1000 * AS_SEC)

static void test_without_knowledge_there_is_a_default(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    assert_true(as_queue_drain_time(&s, 0, 100, 0, NOW) == AS_QUEUE_DRAIN_DEFAULT);
}

static void test_the_first_hint_is_the_guess(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    /* 100 wait, one leaves every 5 ms */
    assert_true(as_queue_drain_time(&s, 0, 100, (5 * AS_MS) << 10, NOW) == 500 * AS_MS);
}

static void test_then_it_is_measured(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    as_queue_drain_time(&s, 1000, 100, AS_SEC << 10, NOW);
    /* 50 have left in 100 ms: 2 ms each */
    assert_true(as_queue_drain_time(&s, 1050, 100, AS_SEC << 10, NOW + 100 * AS_MS) == 200 * AS_MS);
    /* until the next measurement it stays */
    assert_true(as_queue_drain_time(&s, 1050, 50, 0, NOW + 150 * AS_MS) == 100 * AS_MS);
}

static void test_it_follows_a_change(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};
    uint64_t left = 0;
    as_ns now = NOW, hint = 0;

    for (int i = 0; i < 20; i++, now += 100 * AS_MS, left += 100)
        hint = as_queue_drain_time(&s, left, 1000, 0, now);
    assert_in_range(hint, 990 * AS_MS, 1010 * AS_MS);
    left -= 90; /* ten times slower from here on */
    for (int i = 0; i < 7; i++, now += 100 * AS_MS, left += 10)
        hint = as_queue_drain_time(&s, left, 1000, 0, now);
    assert_in_range(hint, 9 * AS_SEC, 10100 * AS_MS);
}

static void test_old_knowledge_is_forgotten(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    as_queue_drain_time(&s, 0, 10, 0, NOW);
    assert_true(as_queue_drain_time(&s, 1, 10, 0, NOW + 100 * AS_MS) == AS_SEC);
    assert_true(as_queue_drain_time(&s, 2, 10, AS_MS << 10, NOW + 60 * AS_SEC) == 10 * AS_MS);
}

static void test_a_queue_that_stands_still_has_a_hint(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    as_queue_drain_time(&s, 5, 10, 0, NOW);
    assert_true(as_queue_drain_time(&s, 5, 10, 0, NOW + AS_SEC) == 10 * AS_SEC);
    assert_true(as_queue_drain_time(&s, 5, 10000, 0, NOW + AS_SEC) == AS_QUEUE_DRAIN_MAX);
}

static void test_the_hint_is_bounded(void **state AS_UNUSED)
{
    struct as_queue_drain s = {0};

    assert_true(as_queue_drain_time(&s, 0, 1, 1, NOW) == AS_QUEUE_DRAIN_MIN);
    assert_true(as_queue_drain_time(&s, 0, 0, 1024, NOW) == AS_QUEUE_DRAIN_MIN);
    assert_true(as_queue_drain_time(&s, 0, UINT64_MAX, UINT64_MAX, NOW) == AS_QUEUE_DRAIN_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_knowledge_there_is_a_default),
        cmocka_unit_test(test_the_first_hint_is_the_guess),
        cmocka_unit_test(test_then_it_is_measured),
        cmocka_unit_test(test_it_follows_a_change),
        cmocka_unit_test(test_old_knowledge_is_forgotten),
        cmocka_unit_test(test_a_queue_that_stands_still_has_a_hint),
        cmocka_unit_test(test_the_hint_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
