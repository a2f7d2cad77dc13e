/* Specification of core/autoscale/service_window: rates and times of the last seconds, from
 * counters. */
#include "core/autoscale/service_window.h"

#include <math.h>

#include "unit.h"

static struct as_service_window w;
static struct as_service_sample s;
static struct as_service_times t;

static int begin(void **state AS_UNUSED)
{
    as_service_window_init(&w, 10 * AS_SEC);
    s = (struct as_service_sample){.at = 100 * AS_SEC};
    return 0;
}

/* n requests of 8 ms (bucket 13) each are answered in the next second. */
static void second(uint32_t n)
{
    s.at += AS_SEC;
    s.accepted += n;
    s.service_sum += n * 8 * AS_MS;
    s.service[13] += n;
    s.latency[14] += n;
    as_service_window_add(&w, &s);
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 + 1e-3 * fabs(b);
}

static void test_one_sample_says_nothing(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    as_service_window_times(&w, 4, s.at, &t);
    assert_true(t.rate == 0 && t.mean == 0 && t.slots == 4);
}

static void test_the_difference_of_the_counters_counts(void **state AS_UNUSED)
{
    s.accepted = 1000000;
    s.service[3] = 1000000;
    as_service_window_add(&w, &s);
    for (uint32_t i = 0; i < 5; i++)
        second(50);
    as_service_window_times(&w, 1, s.at, &t);
    assert_true(is_near(t.rate, 50));
    assert_true(is_near(t.mean, 0.008));
    assert_true(t.p95 >= 0.0079 && t.p95 <= 0.0082); /* within the bucket from 4.096 to 8.192 ms */
    assert_true(is_near(t.latency_p95, 0.008192 + 0.95 * 0.008192));
    assert_true(is_near(t.cv2, 0));
}

static void test_the_window_moves_on(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    for (uint32_t i = 0; i < 30; i++)
        second(10);
    for (uint32_t i = 0; i < 12; i++)
        second(100);
    as_service_window_times(&w, 1, s.at, &t);
    assert_true(is_near(t.rate, 100));
}

static void test_silence_is_a_lower_rate_and_then_none(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    for (uint32_t i = 0; i < 5; i++)
        second(10);
    as_service_window_times(&w, 1, s.at + 5 * AS_SEC, &t);
    assert_true(is_near(t.rate, 5));
    as_service_window_times(&w, 1, s.at + 10 * AS_SEC, &t);
    assert_true(t.rate == 0 && t.mean == 0);
}

static void test_a_new_dispatcher_begins_the_window_anew(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    for (uint32_t i = 0; i < 5; i++)
        second(1000);
    s = (struct as_service_sample){.at = s.at};
    second(3);
    assert_int_equal(w.n, 1);
    second(3);
    as_service_window_times(&w, 1, s.at, &t);
    assert_true(is_near(t.rate, 3));
}

static void test_many_samples_stay_within_the_window(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    for (uint32_t i = 0; i < 1000; i++) {
        s.at += 100 * AS_MS;
        s.accepted += 5;
        as_service_window_add(&w, &s);
        assert_true(w.n <= AS_SERVICE_SAMPLES);
    }
    assert_in_range(s.at - w.sample[0].at, 9 * AS_SEC, 12 * AS_SEC);
    as_service_window_times(&w, 1, s.at, &t);
    assert_true(is_near(t.rate, 50));
}

static void test_the_spread_is_that_of_the_buckets(void **state AS_UNUSED)
{
    as_service_window_add(&w, &s);
    s.at += AS_SEC;
    s.service[10] = 900; /* about 0.77 ms */
    s.service[17] = 100; /* about 98 ms */
    s.service_sum = 900 * 768 * AS_US + 100 * 98304 * AS_US;
    as_service_window_add(&w, &s);
    as_service_window_times(&w, 1, s.at, &t);
    assert_true(is_near(t.mean, 0.01052160));
    assert_true(t.cv2 > 7 && t.cv2 < 9);
    assert_true(t.p95 > 0.065 && t.p95 < 0.132);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_sample_says_nothing, begin),
        cmocka_unit_test_setup(test_the_difference_of_the_counters_counts, begin),
        cmocka_unit_test_setup(test_the_window_moves_on, begin),
        cmocka_unit_test_setup(test_silence_is_a_lower_rate_and_then_none, begin),
        cmocka_unit_test_setup(test_a_new_dispatcher_begins_the_window_anew, begin),
        cmocka_unit_test_setup(test_many_samples_stay_within_the_window, begin),
        cmocka_unit_test_setup(test_the_spread_is_that_of_the_buckets, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
