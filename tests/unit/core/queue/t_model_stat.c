/* Specification of core/queue/model_stat: the phases of a request's time, and the times of calls.
 */
#include "core/queue/model_stat.h"

#include "core/queue/batch.h"
#include "unit.h"

static const struct as_request q = {.arrived = 1000, .sent = 1300, .items = 1};

static void succeed(struct as_model_stat *s, as_ns service, as_ns back)
{
    as_model_stat_success(s, &q, (struct as_model_times){service, back}, 1, 2000);
}

static void the_parts_of_a_success_add_up(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    succeed(&s, 500, 50);
    assert_true(s.success == 1 && s.inferences == 1 && s.executions == 1 && s.last == 2000);
    assert_true(s.success_ns == 1000 && s.queue_ns == 300 && s.service_ns == 500);
    assert_true(s.input_ns == 150 && s.output_ns == 50);
    assert_true(s.queue_ns + s.input_ns + s.service_ns + s.output_ns == s.success_ns);
    assert_true(s.queue.count == 1 && s.queue.sum == 300);
    assert_true(!s.fail && !s.fail_ns);
    as_model_stat_fini(&s);
}

static void a_worker_that_does_not_measure_or_measures_too_much(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    succeed(&s, 0, 0);
    succeed(&s, 9999, 9999);
    succeed(&s, UINT64_MAX, UINT64_MAX);
    assert_true(s.service_ns == 3 * 700 && s.input_ns == 0 && s.output_ns == 0);
    succeed(&s, 600, 9999); /* the way back takes at most the rest of the time */
    assert_true(s.service_ns == 3 * 700 + 600 && s.input_ns == 0 && s.output_ns == 100);
    succeed(&s, 600, 0); /* not measured: the rest is one number */
    assert_true(s.input_ns == 100 && s.output_ns == 100);
    as_model_stat_fini(&s);
}

static void items_and_calls_of_batches(void **state AS_UNUSED)
{
    const struct as_request three = {.arrived = 1000, .sent = 1300, .items = 3};
    const struct as_request two = {.arrived = 1200, .sent = 1300, .items = 2};
    const struct as_model_times t = {500, 50};
    struct as_model_stat s = {0};

    as_model_stat_success(&s, &three, t, 5, 2000);
    as_model_stat_success(&s, &two, t, 0, 2000); /* of the same call */
    as_model_stat_success(&s, &two, t, 2, 2000);
    assert_true(s.success == 3 && s.inferences == 7 && s.executions == 2);
    for (uint32_t i = 0; i < s.n_calls; i++)
        assert_int_equal(s.calls[i].n, i + 1 == 5 || i + 1 == 2);
    assert_true(s.calls[4].input_ns == 150 && s.calls[4].infer_ns == 500);
    assert_true(s.calls[4].output_ns == 50);
    as_model_stat_fini(&s);
}

static void the_sizes_grow_to_the_largest_there_can_be(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    for (uint32_t size = 1; size; size = size < AS_BATCH_MAX ? 2 * size + 1 : 0)
        as_model_stat_success(&s, &q, (struct as_model_times){1, 0}, size, 2000);
    assert_int_equal(s.n_calls, AS_BATCH_MAX);
    assert_int_equal(s.calls[AS_BATCH_MAX - 1].n, 1);
    assert_int_equal(s.calls[0].n + s.calls[2].n + s.calls[6].n, 3);
    assert_int_equal(s.calls[1].n, 0);
    assert_int_equal(s.executions, 16);
    as_model_stat_fini(&s);
    assert_null(s.calls);
}

static void failures_are_counted_apart(void **state AS_UNUSED)
{
    struct as_model_stat s = {0};

    as_model_stat_fail(&s, &q, 1600);
    as_model_stat_refuse(&s);
    assert_true(s.fail == 2 && s.fail_ns == 600);
    assert_true(!s.success && !s.inferences && !s.last && !s.n_calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_success_add_up),
        cmocka_unit_test(a_worker_that_does_not_measure_or_measures_too_much),
        cmocka_unit_test(items_and_calls_of_batches),
        cmocka_unit_test(the_sizes_grow_to_the_largest_there_can_be),
        cmocka_unit_test(failures_are_counted_apart),
    };

    return cmocka_run_group_tests_name("model_stat", tests, NULL, NULL);
}
