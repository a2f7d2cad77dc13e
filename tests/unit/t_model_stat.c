/* Specification of core/model_stat: where the time of a request went. */
#include "core/model_stat.h"

#include "unit.h"

static const struct as_request q = {.arrived = 1000, .sent = 1300};

static void the_parts_of_a_success_add_up(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    as_model_stat_success(&s, &q, 500, 1, 1, 2000);
    assert_true(s.success == 1 && s.inferences == 1 && s.executions == 1 && s.last == 2000);
    assert_true(s.success_ns == 1000 && s.queue_ns == 300 && s.service_ns == 500);
    assert_true(s.link_ns == 200);
    assert_true(s.queue_ns + s.link_ns + s.service_ns == s.success_ns);
    assert_true(!s.fail && !s.fail_ns);
}

static void a_worker_that_does_not_measure_or_measures_too_much(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    as_model_stat_success(&s, &q, 0, 1, 1, 2000);
    as_model_stat_success(&s, &q, 9999, 1, 1, 2000);
    assert_true(s.service_ns == 2 * 700 && s.link_ns == 0);
}

static void items_and_calls_of_batches(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    as_model_stat_success(&s, &q, 500, 3, 1, 2000);
    as_model_stat_success(&s, &q, 500, 2, 0, 2000);
    assert_true(s.success == 2 && s.inferences == 5 && s.executions == 1);
}

static void failures_are_counted_apart(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    as_model_stat_fail(&s, &q, 1600);
    as_model_stat_refuse(&s);
    assert_true(s.fail == 2 && s.fail_ns == 600);
    assert_true(!s.success && !s.inferences && !s.last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_success_add_up),
        cmocka_unit_test(a_worker_that_does_not_measure_or_measures_too_much),
        cmocka_unit_test(items_and_calls_of_batches),
        cmocka_unit_test(failures_are_counted_apart),
    };

    return cmocka_run_group_tests_name("model_stat", tests, NULL, NULL);
}
