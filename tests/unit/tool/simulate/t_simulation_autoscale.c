/* Replicas that follow the load, by core/autoscale in a simulation: how soon they are there after a
 * step, that they do not swing, and that nothing is lost on the way to zero and back. */
#include "tool/simulate/simulation.h"

#include "unit.h"

#define CELL (100 * AS_MS)

static struct as_simulation_result r; /* too large for the stack */

static void run(const char *arrivals, const struct as_autoscale_config *autoscale,
                uint32_t replicas)
{
    struct as_simulation_conf conf = {
        .name = "d",
        .deployment = {.max_queued = -1,
                       .router = AS_ROUTER_CONF_DEFAULT,
                       .seed = 1,
                       .prefetch_work = 100 * AS_US},
        .replicas = replicas,
        .slots = 5,
        .prefetch = 256,
        .max_requests = 1u << 20,
        .autoscale = autoscale,
        .start_up = AS_SEC,
        .load_interval = 100 * AS_MS,
    };
    struct as_workload w = {
        .duration = AS_NEVER, .requests = UINT64_MAX, .seed = 1, .has_service = true};
    struct as_buf err = {0};

    assert_int_equal(as_arrival_pattern_parse(&w.arrivals, as_str_of(arrivals), &err), 0);
    if (w.arrivals.kind != AS_ARRIVAL_STEPS)
        w.duration = (w.arrivals.kind == AS_ARRIVAL_SINE ? 600u : 120u) * AS_SEC;
    assert_int_equal(as_service_pattern_parse(&w.service, AS_STR("constant:50ms"), &err), 0);
    assert_int_equal(as_simulation_run(&conf, &w, &r, &err), 0);
    assert_int_equal(as_simulation_failures(&r), 0);
    assert_int_equal(r.answered, r.requests);
    assert_int_equal(r.timeline.interval, CELL);
}

/* The defaults, but for one replica per two requests and these delays. */
static struct as_autoscale_config delays(double up, double down)
{
    struct as_autoscale_config c;

    as_autoscale_config_init(&c, false);
    c.max_replicas = 100;
    c.upscale_delay_s = up;
    c.downscale_delay_s = down;
    return c;
}

/* The first cell from `from` on in which nothing waits, and nothing does in the second that
 * follows. */
static uint32_t calm_from(uint32_t from)
{
    uint32_t calm = 0;

    for (uint32_t i = from; i < r.timeline.n; i++) {
        calm = r.timeline.cells[i].most_queued ? 0 : calm + 1;
        if (calm == 10)
            return i - 9;
    }
    fail_msg("it never becomes calm");
    return 0;
}

/* Ten times the load at 60 s: 1.5 × start-up + upscale_delay_s later the queue is as before. */
static void a_step_is_followed_in_time(void **state AS_UNUSED)
{
    static const double ups[] = {0, 2};

    for (size_t i = 0; i < AS_COUNT(ups); i++) {
        struct as_autoscale_config c = delays(ups[i], 600);
        uint32_t calm;

        run("steps:20@60s,200@60s", &c, 1);
        calm = calm_from(605);
        assert_true(calm - 600 <= 15 + 10 * ups[i]);
        as_simulation_result_fini(&r);
    }
}

static uint32_t turns_of(double (*value)(const struct as_timeline_cell *c))
{
    uint32_t turns = 0;
    int direction = 0;

    for (uint32_t i = 1; i < r.timeline.n; i++) {
        double d = value(&r.timeline.cells[i]) - value(&r.timeline.cells[i - 1]);
        int sign = d > 1e-6 ? 1 : d < -1e-6 ? -1 : 0;

        turns += sign && direction && sign != direction;
        direction = sign ? sign : direction;
    }
    return turns;
}

static double wanted(const struct as_timeline_cell *c)
{
    return c->covered ? (c->replicas + c->starting) / (double)c->covered : 0;
}

/* Ten periods of a minute: up and down once each. */
static void a_sine_has_two_turns_per_period(void **state AS_UNUSED)
{
    struct as_autoscale_config c = delays(2, 10);

    run("sine:20:400:60s", &c, 5);
    assert_true(turns_of(wanted) <= 20);
    assert_true(r.stopped > 10);
    as_simulation_result_fini(&r);
}

/* A burst of 5 s, and nothing for 20 s: thirty times to zero and back. */
static void to_zero_and_back_loses_nothing(void **state AS_UNUSED)
{
    struct as_autoscale_config c = delays(0, 5);
    struct as_buf steps = {0};

    c.min_replicas = 0;
    c.downscale_to_zero_delay_s = 5;
    as_buf_str(&steps, "steps:");
    for (uint32_t i = 0; i < 30; i++)
        as_buf_printf(&steps, "%s20@5s,0@20s", i ? "," : "");
    run(as_buf_cstr(&steps), &c, 0);
    assert_true(r.stopped >= 29);
    assert_int_equal(r.timeline.cells[240].replicas, 0); /* before the second burst */
    as_simulation_result_fini(&r);
    as_buf_fini(&steps);
}

/* target_latency_ms: enough replicas that the p95 is below it, and not many more. */
static void a_latency_is_met(void **state AS_UNUSED)
{
    struct as_autoscale_config c = delays(0, 30);
    struct as_timeline_cell late;

    c.target_latency_ms = 100;
    run("poisson:200", &c, 1);
    late = as_timeline_sum(&r.timeline, 300, 300);
    /* 200 per second of 50 ms are 10 slots in use, which two replicas of 5 have */
    assert_true(late.replicas >= 2 * 30e9 && late.replicas <= 5 * 30e9);
    assert_true(late.queued < 30e9);
    assert_true(r.n_decisions > 0 && r.decisions[0].why[0]);
    as_simulation_result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_followed_in_time),
        cmocka_unit_test(a_sine_has_two_turns_per_period),
        cmocka_unit_test(to_zero_and_back_loses_nothing),
        cmocka_unit_test(a_latency_is_met),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
