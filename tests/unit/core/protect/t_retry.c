/* Specification of core/protect/retry: the table of retries, the budget, and the loss for each kind
 * of exit. */
#include "core/protect/retry.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <cmocka.h>

static void test_what_never_started_always_goes_on(void **state AS_UNUSED)
{
    for (int loss = 0; loss < AS_LOSSES; loss++) {
        for (int idempotent = 0; idempotent < 2; idempotent++)
            assert_int_equal(as_retry_rule((enum as_loss)loss, AS_PROGRESS_SENT, idempotent),
                             AS_RETRY_UNCOUNTED);
    }
}

static void test_what_must_not_run_twice_never_does(void **state AS_UNUSED)
{
    for (int loss = 0; loss < AS_LOSSES; loss++) {
        assert_int_equal(as_retry_rule((enum as_loss)loss, AS_PROGRESS_STARTED, false),
                         AS_RETRY_NEVER);
        for (int idempotent = 0; idempotent < 2; idempotent++)
            assert_int_equal(as_retry_rule((enum as_loss)loss, AS_PROGRESS_BOUND, idempotent),
                             AS_RETRY_NEVER);
    }
}

static void test_the_loss_decides_for_the_rest(void **state AS_UNUSED)
{
    static const enum as_retry want[AS_LOSSES] = {
        [AS_LOSS_KILLED] = AS_RETRY_UNCOUNTED, [AS_LOSS_CRASHED] = AS_RETRY_ALONE,
        [AS_LOSS_UNKNOWN] = AS_RETRY_COUNTED,  [AS_LOSS_LINK] = AS_RETRY_BUDGET,
        [AS_LOSS_PENDING] = AS_RETRY_PENDING,  [AS_LOSS_UNHEALTHY] = AS_RETRY_ALONE,
    };

    for (int loss = 0; loss < AS_LOSSES; loss++)
        assert_int_equal(as_retry_rule((enum as_loss)loss, AS_PROGRESS_STARTED, true), want[loss]);
}

static void test_the_budget_is_a_share_with_a_least(void **state AS_UNUSED)
{
    struct as_retry_conf conf = {.attempts = 3, .percent = 10, .least = 3};

    assert_int_equal(as_retry_budget(&conf, 0), 3);
    assert_int_equal(as_retry_budget(&conf, 39), 3);
    assert_int_equal(as_retry_budget(&conf, 40), 4);
    assert_int_equal(as_retry_budget(&conf, 1000), 100);
    conf.percent = 0;
    assert_int_equal(as_retry_budget(&conf, 1000), 3);
}

static void test_only_some_exits_are_crashes(void **state AS_UNUSED)
{
    assert_int_equal(as_loss_from_exit(AS_EXIT_CODE), AS_LOSS_CRASHED);
    assert_int_equal(as_loss_from_exit(AS_EXIT_CRASH), AS_LOSS_CRASHED);
    assert_int_equal(as_loss_from_exit(AS_EXIT_OOM), AS_LOSS_CRASHED);
    assert_int_equal(as_loss_from_exit(AS_EXIT_KILLED), AS_LOSS_KILLED);
    assert_int_equal(as_loss_from_exit(AS_EXIT_STOPPED), AS_LOSS_KILLED);
    assert_int_equal(as_loss_from_exit(77),
                     AS_LOSS_UNKNOWN); /* a kind that this version does not know */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_never_started_always_goes_on),
        cmocka_unit_test(test_what_must_not_run_twice_never_does),
        cmocka_unit_test(test_the_loss_decides_for_the_rest),
        cmocka_unit_test(test_the_budget_is_a_share_with_a_least),
        cmocka_unit_test(test_only_some_exits_are_crashes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
