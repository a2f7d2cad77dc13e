/* Specification of core/autoscale/queue_model: replicas for a latency, by Erlang's formula. */
#include "core/autoscale/queue_model.h"

#include <math.h>

#include "unit.h"

static struct as_service_times times(double rate, double mean_ms, double p95_ms, double slots)
{
    return (struct as_service_times){
        .rate = rate, .mean = mean_ms / 1e3, .p95 = p95_ms / 1e3, .cv2 = 1, .slots = slots};
}

static uint32_t replicas(struct as_service_times t, double queued, double target_ms,
                         enum as_queue_model_result want)
{
    uint32_t n = 0;

    assert_int_equal(as_queue_model_replicas(&t, queued, target_ms / 1e3, 1000, &n), want);
    return n;
}

static void test_without_service_times_nothing_is_known(void **state AS_UNUSED)
{
    uint32_t n = 7;
    struct as_service_times t = times(100, 0, 0, 1);

    assert_int_equal(as_queue_model_replicas(&t, 0, 1, 10, &n), AS_QUEUE_MODEL_UNKNOWN);
    assert_int_equal(n, 7);
    t = times((double)NAN, 10, 20, 1);
    assert_int_equal(as_queue_model_replicas(&t, 0, 1, 10, &n), AS_QUEUE_MODEL_UNKNOWN);
}

static void test_without_load_no_replica_is_needed(void **state AS_UNUSED)
{
    assert_int_equal(replicas(times(0, 10, 20, 1), 0, 100, AS_QUEUE_MODEL_OK), 0);
}

/* One server, load 0.5: C = 0.5, the wait of those that wait has the mean 10/(1-0.5) = 20 ms, so
 * its p95 of all is 20 ln(0.5/0.05) = 46.1 ms, with the service's 30 ms: 76.1 ms. */
static void test_one_server_is_as_the_formula_of_m_m_1(void **state AS_UNUSED)
{
    assert_int_equal(replicas(times(50, 10, 30, 1), 0, 77, AS_QUEUE_MODEL_OK), 1);
    assert_int_equal(replicas(times(50, 10, 30, 1), 0, 76, AS_QUEUE_MODEL_OK), 2);
}

/* Two servers, a = 1: C = 1/3 (Erlang's table), so the p95 is 10/(2-1) × ln(20/3) = 18.97 ms. */
static void test_two_servers_share_one_queue(void **state AS_UNUSED)
{
    assert_int_equal(replicas(times(100, 10, 30, 1), 0, 49.0, AS_QUEUE_MODEL_OK), 2);
    assert_int_equal(replicas(times(100, 10, 30, 1), 0, 48.9, AS_QUEUE_MODEL_OK), 3);
    assert_int_equal(replicas(times(100, 10, 30, 2), 0, 49.0, AS_QUEUE_MODEL_OK),
                     1); /* two slots */
}

static void test_a_wider_spread_needs_more(void **state AS_UNUSED)
{
    struct as_service_times t = times(50, 10, 30, 1);

    t.cv2 = 4;
    assert_true(replicas(t, 0, 77, AS_QUEUE_MODEL_OK) > 1);
    t.cv2 = 0;
    assert_int_equal(replicas(t, 0, 54, AS_QUEUE_MODEL_OK), 1);
}

static void test_what_waits_is_worked_off(void **state AS_UNUSED)
{
    assert_int_equal(replicas(times(0, 100, 100, 1), 10, 1000, AS_QUEUE_MODEL_OK), 2);
}

static void test_a_service_time_above_the_target_is_unreachable(void **state AS_UNUSED)
{
    uint32_t n = replicas(times(50, 100, 200, 1), 0, 150, AS_QUEUE_MODEL_UNREACHABLE);

    assert_in_range(n, 9, 12); /* so many that few wait, and no more */
}

static void test_too_few_replicas_are_said(void **state AS_UNUSED)
{
    struct as_service_times t = times(1000, 100, 100, 1);
    uint32_t n;

    assert_int_equal(as_queue_model_replicas(&t, 0, 1, 20, &n), AS_QUEUE_MODEL_MORE);
    assert_int_equal(n, 20);
}

static void test_more_load_never_needs_fewer(void **state AS_UNUSED)
{
    uint32_t before = 0;

    for (double rate = 0; rate < 5000; rate += 13) {
        uint32_t n = replicas(times(rate, 10, 30, 4), 0, 40, AS_QUEUE_MODEL_OK);

        assert_true(n >= before);
        before = n;
    }
}

static void test_very_many_servers_are_judged_by_load(void **state AS_UNUSED)
{
    /* 950,000 busy slots of 1000 replicas × 1000 */
    assert_in_range(replicas(times(900e3, 1000, 1000, 1000), 0, 2000, AS_QUEUE_MODEL_OK), 940, 950);
    /* a load of 97 %: the formula knows that nobody waits with so many servers; behind its bound
     * the load alone counts */
    assert_int_equal(
        replicas(times(97e3, 1000, 1000, AS_QUEUE_MODEL_SERVERS), 0, 2000, AS_QUEUE_MODEL_OK), 1);
    assert_int_equal(
        replicas(times(97e3, 1000, 1000, AS_QUEUE_MODEL_SERVERS + 1), 0, 2000, AS_QUEUE_MODEL_OK),
        2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_service_times_nothing_is_known),
        cmocka_unit_test(test_without_load_no_replica_is_needed),
        cmocka_unit_test(test_one_server_is_as_the_formula_of_m_m_1),
        cmocka_unit_test(test_two_servers_share_one_queue),
        cmocka_unit_test(test_a_wider_spread_needs_more),
        cmocka_unit_test(test_what_waits_is_worked_off),
        cmocka_unit_test(test_a_service_time_above_the_target_is_unreachable),
        cmocka_unit_test(test_too_few_replicas_are_said),
        cmocka_unit_test(test_more_load_never_needs_fewer),
        cmocka_unit_test(test_very_many_servers_are_judged_by_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
