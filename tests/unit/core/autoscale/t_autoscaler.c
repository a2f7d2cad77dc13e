/* Specification of core/autoscale/autoscaler: Ray's formula, factors, bounds and delays, in time.
 */
#include "core/autoscale/autoscaler.h"

#include "base/rand.h"

#include <math.h>

#include "unit.h"

static struct as_autoscaler a;
static struct as_autoscale_config c;
static struct as_autoscale_input in;
static as_ns now;

static int begin(void **state AS_UNUSED)
{
    as_autoscale_config_init(&c, false);
    c.min_replicas = 1;
    c.max_replicas = 10;
    c.upscale_delay_s = c.downscale_delay_s = 0;
    in = (struct as_autoscale_input){.running = 1, .startable = AS_AUTOSCALE_ANY};
    now = 1000 * AS_SEC;
    return 0;
}

static void start(uint32_t target)
{
    as_autoscaler_init(&a, &c, target);
    in.running = a.target;
}

static bool decide(uint32_t queued, uint32_t ongoing)
{
    as_autoscaler_record(&a, queued, ongoing, now);
    return as_autoscaler_decide(&a, &in, now);
}

/* Time passes, and the decision is made whenever it is due; all replicas run. */
static void run_until(as_ns end)
{
    while (a.next_due <= end) {
        now = AS_MAX(now, a.next_due);
        as_autoscaler_decide(&a, &in, now);
        in.running = a.target;
    }
    now = end;
}

static void explains(const char *text)
{
    struct as_buf b = {0};

    as_autoscaler_explain(&a, now, &b);
    assert_string_equal(as_buf_cstr(&b), text);
    as_buf_fini(&b);
}

static void test_replicas_are_requests_by_target(void **state AS_UNUSED)
{
    start(1);
    assert_false(decide(0, 2));
    assert_true(decide(1, 2)); /* 3 / 2 */
    assert_int_equal(a.target, 2);
    assert_true(decide(8, 4));
    assert_int_equal(a.target, 6);
    explains("8 queued + 4 ongoing requests, 1 running / target_ongoing_requests 2: 6 wanted; from "
             "2 to 6");
    assert_false(decide(8, 4));
    explains("8 queued + 4 ongoing requests, 1 running / target_ongoing_requests 2: 6 wanted; "
             "stays at 6");
}

static void test_the_number_stays_within_its_bounds(void **state AS_UNUSED)
{
    start(2);
    assert_true(decide(100, 0));
    assert_int_equal(a.target, 10);
    explains("100 queued + 0 ongoing requests, 2 running / target_ongoing_requests 2: 50 wanted, "
             "at most "
             "max_replicas 10; from 2 to 10");
    c.min_replicas = 3;
    as_autoscaler_set_config(&a, &c);
    in.running = 10;
    assert_true(decide(0, 0));
    assert_int_equal(a.target, 3);
    c.min_replicas = 4;
    as_autoscaler_set_config(&a, &c);
    assert_true(decide(0, 0)); /* bounds need no delay */
    assert_int_equal(a.target, 4);
    c.max_replicas = 4;
    c.min_replicas = 1;
    c.downscale_delay_s = 60;
    as_autoscaler_set_config(&a, &c);
    assert_false(decide(0, 0));
    c.max_replicas = 2;
    as_autoscaler_set_config(&a, &c);
    assert_true(decide(0, 0));
    assert_int_equal(a.target, 2);
}

/* As Ray: with a factor of 0.5 from 4 running to 2 wanted: 3, then one fewer each time at least. */
static void test_the_factors_make_smaller_or_larger_steps(void **state AS_UNUSED)
{
    c.downscaling_factor = 0.5;
    c.upscaling_factor = 0.5;
    start(4);
    decide(0, 4);
    assert_int_equal(a.target, 3);
    in.running = 3;
    decide(0, 4); /* ⌈3 - 0.5⌉ = 3 would never end: 2 */
    assert_int_equal(a.target, 2);
    in.running = 2;
    decide(0, 20); /* 10 wanted: 2 + 0.5 × 8 */
    assert_int_equal(a.target, 6);
    c.upscaling_factor = 2;
    start(1);
    decide(0, 4); /* 2 wanted: 1 + 2 × 1 */
    assert_int_equal(a.target, 3);
}

static void test_more_is_wanted_for_the_whole_delay(void **state AS_UNUSED)
{
    c.upscale_delay_s = 10;
    c.look_back_period_s = 0.001;
    start(1);
    assert_false(decide(4, 2));
    assert_int_equal(a.next_due, now + 10 * AS_SEC);
    now += 4 * AS_SEC;
    as_autoscaler_decide(&a, &in, now);
    explains("4 queued + 2 ongoing requests, 1 running; mean of 0.001 s: 6 / "
             "target_ongoing_requests 2: 3 "
             "wanted; from 1 to 3 in 6.0 s unless that changes (upscale_delay_s)");
    run_until(now + 6 * AS_SEC - 1);
    assert_int_equal(a.target, 1);
    decide(6, 2);
    run_until(now + 1);
    assert_int_equal(a.target, 4); /* what is wanted at the end of the delay */
}

static void test_an_interruption_starts_the_delay_again(void **state AS_UNUSED)
{
    c.upscale_delay_s = 10;
    c.look_back_period_s = 0.001;
    start(1);
    decide(4, 2);
    run_until(now + 9 * AS_SEC);
    decide(0, 2);
    run_until(now + AS_SEC);
    decide(4, 2);
    run_until(now + 9 * AS_SEC);
    assert_int_equal(a.target, 1);
    run_until(now + 2 * AS_SEC);
    assert_int_equal(a.target, 3);
}

/* A peak of a second in 30 s of rest is no load for a server with the default delays. */
static void test_the_mean_of_the_look_back_period_counts(void **state AS_UNUSED)
{
    c.upscale_delay_s = 30;
    start(1);
    decide(0, 1);
    run_until(now + 60 * AS_SEC);
    decide(20, 2);
    run_until(now + AS_SEC);
    decide(0, 1);
    run_until(now + 60 * AS_SEC);
    assert_int_equal(a.target, 1);
    decide(20, 2);
    run_until(now + 70 * AS_SEC);
    assert_int_equal(a.target, 10);
}

static void test_without_a_delay_the_count_of_now_decides(void **state AS_UNUSED)
{
    c.downscale_delay_s = 600;
    start(1);
    decide(0, 1);
    run_until(now + 60 * AS_SEC);
    assert_true(decide(20, 0));
    assert_int_equal(a.target, 10);
}

static void test_fewer_are_wanted_for_the_whole_delay(void **state AS_UNUSED)
{
    c.downscale_delay_s = 60;
    start(4);
    decide(0, 8);
    run_until(now + 60 * AS_SEC);
    decide(0, 1);
    run_until(now + 60 * AS_SEC); /* the mean of 30 s must fall first */
    assert_int_equal(a.target, 4);
    run_until(now + 40 * AS_SEC);
    assert_int_equal(a.target, 1);
    assert_int_equal(a.next_due, AS_NEVER); /* nothing more can happen by itself */
}

static void test_zero_comes_after_one(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    c.downscale_to_zero_delay_s = 5;
    start(3);
    decide(0, 0);
    assert_int_equal(a.target, 1);
    in.running = 1;
    run_until(now + 3 * AS_SEC);
    assert_int_equal(a.target, 1);
    explains("0 queued + 0 ongoing requests, 1 running / target_ongoing_requests 2: 0 wanted; from "
             "1 to 0 in 2.1 s "
             "unless that changes (downscale_to_zero_delay_s)");
    run_until(now + 3 * AS_SEC);
    assert_int_equal(a.target, 0);
    assert_int_equal(a.next_due, AS_NEVER);
}

static void test_zero_needs_a_delay_without_any_request(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    c.downscale_to_zero_delay_s = 5;
    start(1);
    for (uint32_t i = 0; i < 10; i++) {
        decide(0, 1);
        now += AS_MS;
        decide(0, 0);
        run_until(now + 4900 * AS_MS);
        assert_int_equal(a.target, 1);
    }
    run_until(now + AS_SEC);
    assert_int_equal(a.target, 0);
}

static void test_the_first_request_starts_a_replica_at_once(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    c.upscale_delay_s = 30;
    start(0);
    assert_false(decide(0, 0));
    assert_true(decide(1, 0));
    assert_int_equal(a.target, 1);
    explains("1 queued + 0 ongoing requests, 0 running; mean of 30 s: 1; no replica runs: 1 wanted "
             "at once; "
             "from 0 to 1");
    in.running = 0; /* it starts */
    assert_false(decide(50, 0));
    assert_int_equal(a.target, 1);
    c.upscaling_factor = 3;
    start(0);
    assert_true(decide(1, 0));
    assert_int_equal(a.target, 3);
}

static void test_what_the_machine_cannot_start_is_not_asked_for(void **state AS_UNUSED)
{
    c.min_replicas = 2;
    start(2);
    in.startable = 3;
    in.lack = AS_STR("num_gpus: 1; none is free");
    assert_true(decide(20, 0));
    assert_int_equal(a.target, 3);
    explains("20 queued + 0 ongoing requests, 2 running / target_ongoing_requests 2: 10 wanted, 3 "
             "can start: num_gpus: "
             "1; none is free; from 2 to 3");
    in.startable = 1; /* what there is stays */
    assert_false(decide(20, 0));
    assert_int_equal(a.target, 3);
    in.startable = AS_AUTOSCALE_ANY;
    assert_true(decide(20, 0));
    assert_int_equal(a.target, 10);
}

static void test_the_minimum_is_asked_for_in_any_case(void **state AS_UNUSED)
{
    c.min_replicas = 5;
    start(5);
    in.startable = 1;
    assert_false(decide(0, 0));
    assert_int_equal(a.target, 5);
}

static void test_a_schedule_raises_the_minimum_at_once(void **state AS_UNUSED)
{
    c.schedule.n = 1;
    c.schedule.entry[0] = (struct as_schedule_entry){0x7f, 480, 1080, 4};
    c.upscale_delay_s = 30;
    start(1);
    in.wall = (struct as_wall_time){.minute = 479, .left = 20 * AS_SEC};
    assert_false(decide(0, 0));
    assert_int_equal(a.next_due, now + 20 * AS_SEC);
    now += 20 * AS_SEC;
    in.wall = (struct as_wall_time){.minute = 480, .left = 60 * AS_SEC};
    assert_true(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 4);
    explains("0 queued + 0 ongoing requests, 1 running / target_ongoing_requests 2: 0 wanted, at "
             "least 4 by schedule; "
             "from 1 to 4");
    in.wall.minute = 1080;
    in.running = 4;
    as_autoscaler_decide(&a, &in, now += 60 * AS_SEC);
    assert_int_equal(a.target, 1);
}

static void test_a_latency_target_uses_the_service_times(void **state AS_UNUSED)
{
    struct as_service_times t = {
        .rate = 100, .mean = 0.01, .p95 = 0.03, .cv2 = 1, .latency_p95 = 0.08, .slots = 1};

    c.target_latency_ms = 48.9;
    start(1);
    assert_true(decide(4, 0)); /* nothing is known yet: by target_ongoing_requests */
    assert_int_equal(a.target, 2);
    in.running = 2;
    as_autoscaler_set_times(&a, &t);
    assert_true(decide(0, 1));
    assert_int_equal(a.target, 3);
    explains("0 queued + 1 ongoing requests, 2 running; 100 requests/s, service 10 ms (p95 30 ms), "
             "latency p95 80 ms, "
             "target_latency_ms 48.9: 3 wanted; from 2 to 3");
    t = (struct as_service_times){.rate = 0, .slots = 1}; /* no answer lately: the times stay */
    as_autoscaler_set_times(&a, &t);
    assert_true(a.times.mean == 0.01);
    assert_true(decide(0, 0));
    assert_int_equal(a.target, 1);
}

static void test_an_answer_from_outside_replaces_the_policy(void **state AS_UNUSED)
{
    static const double bad[] = {-1, 1e9, (double)NAN, (double)INFINITY};

    start(1);
    decide(0, 1);
    assert_int_equal(as_autoscaler_set_answer(&a, 4.2), 0);
    assert_true(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 5);
    explains("0 queued + 1 ongoing requests, 1 running; the policy wants 4.2; from 1 to 5");
    as_autoscaler_set_answer(&a, 500);
    as_autoscaler_decide(&a, &in, now);
    assert_int_equal(a.target, 10);
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        as_autoscaler_set_answer(&a, 5);
        assert_int_equal(as_autoscaler_set_answer(&a, bad[i]), AS_EINVALID);
        assert_false(a.has_answer);
        assert_int_equal(a.bad_answers, i + 1);
    }
    as_autoscaler_decide(&a, &in, now);
    assert_int_equal(a.target, 1); /* by target_ongoing_requests again */
}

/* Only a policy outside decides: without its answer the number stays. */
static void test_without_the_expected_answer_the_number_stays(void **state AS_UNUSED)
{
    start(2);
    as_autoscaler_set_external(&a, true);
    assert_false(decide(0, 40));
    assert_int_equal(a.last.source, AS_AUTOSCALE_HOLD);
    explains("0 queued + 40 ongoing requests, 2 running; stays at 2");
    as_autoscaler_set_answer(&a, 4);
    assert_true(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 4);
    assert_int_equal(as_autoscaler_set_answer(&a, (double)NAN), AS_EINVALID);
    assert_false(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 4);
    as_autoscaler_set_answer(&a, 7);
    as_autoscaler_set_external(&a, false); /* the built-in policy again */
    assert_false(a.has_answer);
    assert_true(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 10);
}

/* Its answer counts although nothing runs, but the first request is served whatever it says. */
static void test_an_answer_counts_at_zero(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    start(0);
    as_autoscaler_set_external(&a, true);
    as_autoscaler_set_answer(&a, 3);
    assert_true(decide(0, 0));
    assert_int_equal(a.target, 3);
    start(0);
    as_autoscaler_set_external(&a, true);
    assert_true(decide(1, 0));
    assert_int_equal(a.last.source, AS_AUTOSCALE_COLD);
    assert_int_equal(a.target, 1);
}

/* A delay that has begun goes on while there is no answer, and nothing is decided meanwhile. */
static void test_a_missing_answer_does_not_restart_a_delay(void **state AS_UNUSED)
{
    c.upscale_delay_s = 10;
    start(1);
    as_autoscaler_set_external(&a, true);
    as_autoscaler_set_answer(&a, 4);
    assert_false(decide(0, 1));
    as_autoscaler_clear_answer(&a);
    now += 6 * AS_SEC;
    assert_false(as_autoscaler_decide(&a, &in, now));
    as_autoscaler_set_answer(&a, 4);
    now += 3 * AS_SEC;
    assert_false(as_autoscaler_decide(&a, &in, now));
    as_autoscaler_clear_answer(&a);
    now += 3 * AS_SEC;
    assert_false(as_autoscaler_decide(&a, &in, now));
    as_autoscaler_set_answer(&a, 4);
    assert_true(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 4);
}

static void test_without_counts_the_number_stays(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    start(5);
    assert_false(as_autoscaler_decide(&a, &in, now));
    explains("the dispatcher has not counted yet; stays at 5");
    decide(0, 9);
    as_autoscaler_forget(&a);
    run_until(now + 3600 * AS_SEC);
    assert_false(as_autoscaler_decide(&a, &in, now));
    assert_int_equal(a.target, 5);
}

static void test_a_new_controller_begins_with_the_number_that_there_is(void **state AS_UNUSED)
{
    c.min_replicas = 0;
    start(7);
    assert_int_equal(a.target, 7);
    start(0);
    assert_int_equal(a.target, 0);
    start(11);
    assert_int_equal(a.target, 10);
}

/* A load that rises and falls once a minute, with noise: the number rises once and falls once. */
static void test_a_wave_changes_the_direction_twice_each_time(void **state AS_UNUSED)
{
    struct as_rand r = {.s = 3};
    uint32_t turns = 0;
    int32_t direction = 0;

    c.max_replicas = 30;
    c.downscale_delay_s = 10;
    c.look_back_period_s = 10;
    start(1);
    for (uint32_t tick = 0; tick < 10 * 600; tick++) {
        double wave = 20 - 20 * cos(2 * 3.14159265358979 * tick / 600);
        uint32_t was = a.target;

        now += 100 * AS_MS;
        decide(0, (uint32_t)wave + (uint32_t)(as_rand_next(&r) % 4));
        in.running = a.target;
        if (a.target == was)
            continue;
        turns += direction != 0 && direction != (a.target > was ? 1 : -1);
        direction = a.target > was ? 1 : -1;
    }
    assert_in_range(turns, 10, 20); /* ten waves */
}

/* Any load and any settings: the number is within the bounds, 0 comes from 1, nothing changes
 * before its delay, and a load that stays leads to a number that stays. */
static void check_random_run(struct as_rand *r)
{
    as_ns changed_at = 0;

    as_autoscale_config_init(&c, false);
    c.min_replicas = (double)(as_rand_next(r) % 4);
    c.max_replicas = c.min_replicas + 1 + (double)(as_rand_next(r) % 20);
    c.target_ongoing_requests = 0.5 + (double)(as_rand_next(r) % 8);
    c.upscale_delay_s = (double)(as_rand_next(r) % 3) * 5;
    c.downscale_delay_s = (double)(as_rand_next(r) % 3) * 10;
    c.upscaling_factor = as_rand_next(r) % 2 ? -1 : 0.3;
    c.downscaling_factor = as_rand_next(r) % 2 ? -1 : 0.3;
    c.aggregation = (enum as_load_aggregation)(as_rand_next(r) % 3);
    now = 1000 * AS_SEC;
    start((uint32_t)c.min_replicas);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t was = a.target, load = (uint32_t)(as_rand_next(r) % 60);

        if (as_rand_next(r) % 4 == 0)
            decide(load / 2, load / 2);
        else
            as_autoscaler_decide(&a, &in, now);
        assert_in_range(a.target, (uint64_t)c.min_replicas, (uint64_t)c.max_replicas);
        assert_true(a.target > 0 || was <= 1);
        if (a.target != was) {
            as_ns delay =
                a.target > was ? as_autoscale_up_delay(&c) : as_autoscale_down_delay(&c, false);

            assert_true(a.last.source == AS_AUTOSCALE_COLD || now - changed_at >= delay);
            changed_at = now;
        }
        in.running = as_rand_next(r) % 3 ? a.target : in.running;
        now += as_rand_next(r) % (3 * AS_SEC);
    }
    decide(3, 4);
    run_until(now + 3600 * AS_SEC);
    assert_int_equal(a.direction, 0);
    assert_int_equal(a.next_due, AS_NEVER);
}

static void test_random_runs_keep_the_rules(void **state AS_UNUSED)
{
    struct as_rand r = {.s = 1};

    for (uint32_t i = 0; i < 2000; i++)
        check_random_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_replicas_are_requests_by_target, begin),
        cmocka_unit_test_setup(test_the_number_stays_within_its_bounds, begin),
        cmocka_unit_test_setup(test_the_factors_make_smaller_or_larger_steps, begin),
        cmocka_unit_test_setup(test_more_is_wanted_for_the_whole_delay, begin),
        cmocka_unit_test_setup(test_an_interruption_starts_the_delay_again, begin),
        cmocka_unit_test_setup(test_the_mean_of_the_look_back_period_counts, begin),
        cmocka_unit_test_setup(test_without_a_delay_the_count_of_now_decides, begin),
        cmocka_unit_test_setup(test_fewer_are_wanted_for_the_whole_delay, begin),
        cmocka_unit_test_setup(test_zero_comes_after_one, begin),
        cmocka_unit_test_setup(test_zero_needs_a_delay_without_any_request, begin),
        cmocka_unit_test_setup(test_the_first_request_starts_a_replica_at_once, begin),
        cmocka_unit_test_setup(test_what_the_machine_cannot_start_is_not_asked_for, begin),
        cmocka_unit_test_setup(test_the_minimum_is_asked_for_in_any_case, begin),
        cmocka_unit_test_setup(test_a_schedule_raises_the_minimum_at_once, begin),
        cmocka_unit_test_setup(test_a_latency_target_uses_the_service_times, begin),
        cmocka_unit_test_setup(test_an_answer_from_outside_replaces_the_policy, begin),
        cmocka_unit_test_setup(test_without_the_expected_answer_the_number_stays, begin),
        cmocka_unit_test_setup(test_an_answer_counts_at_zero, begin),
        cmocka_unit_test_setup(test_a_missing_answer_does_not_restart_a_delay, begin),
        cmocka_unit_test_setup(test_without_counts_the_number_stays, begin),
        cmocka_unit_test_setup(test_a_new_controller_begins_with_the_number_that_there_is, begin),
        cmocka_unit_test_setup(test_a_wave_changes_the_direction_twice_each_time, begin),
        cmocka_unit_test_setup(test_random_runs_keep_the_rules, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
