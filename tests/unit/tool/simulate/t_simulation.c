/* Specification of tool/simulate/simulation: latencies that can be computed by hand, limits, and
 * equal results of equal runs. */
#include "tool/simulate/simulation.h"

#include "unit.h"

#include <math.h>
#include <unistd.h>

static struct as_simulation_result r; /* too large for the stack */

/* What the server does without options. */
static struct as_simulation_conf default_conf(uint32_t replicas, uint32_t slots)
{
    return (struct as_simulation_conf){
        .name = "d",
        .deployment = {.max_queued = -1,
                       .router = AS_ROUTER_CONF_DEFAULT,
                       .seed = 1,
                       .prefetch_work = 100 * AS_US,
                       .breaker = {5, 3, AS_SEC, 30 * AS_SEC},
                       .outlier = {3, 5 * AS_MS, 33}},
        .replicas = replicas,
        .slots = slots,
        .prefetch = 256,
        .max_requests = 1u << 20,
    };
}

/* Follows the load at once, from `least` to `most` replicas. */
static struct as_autoscale_config autoscaling(uint32_t least, uint32_t most)
{
    struct as_autoscale_config c;

    as_autoscale_config_init(&c, false);
    c.min_replicas = least;
    c.max_replicas = most;
    c.target_ongoing_requests = 1;
    c.upscale_delay_s = 0;
    c.downscale_delay_s = 10;
    return c;
}

/* Runs a trace; the result is freed by as_simulation_result_fini. */
static void run_trace(const struct as_simulation_conf *conf, const char *text,
                      struct as_simulation_result *ret_r)
{
    char path[] = "/tmp/t_simulationXXXXXX";
    struct as_workload w = {.duration = AS_NEVER, .requests = UINT64_MAX, .seed = 1};
    struct as_buf err = {0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    assert_int_equal(as_trace_file_open(&w.trace, path, &err), 0);
    assert_int_equal(as_simulation_run(conf, &w, ret_r, &err), 0);
    assert_int_equal(err.n, 0);
    as_trace_file_close(w.trace);
    unlink(path);
}

static double mean_ms(const struct as_simulation_latency *l)
{
    return as_simulation_mean(l) / 1e6;
}

static void check(double got, double expected)
{
    if (got < expected - 1e-9 || got > expected + 1e-9)
        fail_msg("%.9f instead of %.9f", got, expected);
}

/* One slot, 10 ms each: 0, 5 and 6 ms queue one after the other, the last one finds it free. */
static void one_slot_serves_in_order(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    run_trace(&conf, "arrival_s,service_ms\n0,10\n0.005,10\n0.006,10\n0.1,10\n", &r);
    assert_int_equal(r.requests, 4);
    assert_int_equal(r.answered, 4);
    check(mean_ms(&r.queue), (0 + 5 + 14 + 0) / 4.0);
    check(mean_ms(&r.service), 10);
    check(mean_ms(&r.total), (10 + 15 + 24 + 10) / 4.0);
    assert_int_equal(r.total.hist.max, 24 * AS_MS);
    assert_int_equal(r.end, 110 * AS_MS);
    as_simulation_result_fini(&r);
}

static void two_replicas_share_a_queue(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(2, 1);

    run_trace(&conf, "arrival_s,service_ms\n0,30\n0,10\n0,10\n0,10\n", &r);
    /* late binding: the short ones follow each other, beside the long one */
    check(mean_ms(&r.total), (30 + 10 + 20 + 30) / 4.0);
    as_simulation_result_fini(&r);
    conf.slots = 2;
    run_trace(&conf, "arrival_s,service_ms\n0,30\n0,10\n0,10\n0,10\n", &r);
    check(mean_ms(&r.total), (30 + 10 + 10 + 10) / 4.0);
    as_simulation_result_fini(&r);
}

/* ρ = 0.8, service 10 ms: the mean wait of M/D/1 is 10 · ρ / 2(1 - ρ) = 20 ms. */
static void a_queue_with_poisson_arrivals_has_the_known_mean(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);
    struct as_workload w = {
        .duration = AS_NEVER, .requests = 400000, .seed = 3, .has_service = true};
    struct as_buf err = {0};

    assert_int_equal(as_arrival_pattern_parse(&w.arrivals, AS_STR("poisson:80"), &err), 0);
    assert_int_equal(as_service_pattern_parse(&w.service, AS_STR("constant:10ms"), &err), 0);
    assert_int_equal(as_simulation_run(&conf, &w, &r, &err), 0);
    assert_true(mean_ms(&r.queue) > 19 && mean_ms(&r.queue) < 21);
    as_simulation_result_fini(&r);
}

static void a_full_queue_refuses(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    conf.deployment.max_queued = 2;
    run_trace(&conf, "arrival_s,service_ms\n0,10\n0,10\n0,10\n0,10\n0,10\n", &r);
    assert_int_equal(r.answered, 3);
    assert_int_equal(r.failed[-AS_EFULL], 2);
    assert_int_equal(as_simulation_failures(&r), 2);
    as_simulation_result_fini(&r);
    conf.deployment.max_queued = -1;
    conf.max_requests = 4;
    run_trace(&conf, "arrival_s,service_ms\n0,10\n0,10\n0,10\n0,10\n0,10\n", &r);
    assert_int_equal(r.failed[-AS_EFULL], 1);
    as_simulation_result_fini(&r);
}

static void a_deadline_ends_a_wait_but_no_execution(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    /* the second expires in the queue, the third is served when the first, which has expired while
     * it executes, has ended */
    run_trace(&conf, "arrival_s,service_ms,deadline_ms\n0,100,50\n0.001,10,20\n0.002,10,\n", &r);
    assert_int_equal(r.failed[-AS_EDEADLINE], 2);
    assert_int_equal(r.answered, 1);
    assert_int_equal(r.total.hist.max, 108 * AS_MS);
    as_simulation_result_fini(&r);
    conf.request_timeout = 50 * AS_MS;
    run_trace(&conf, "arrival_s,service_ms\n0,100\n", &r);
    assert_int_equal(r.failed[-AS_EDEADLINE], 1);
    assert_int_equal(r.end, 50 * AS_MS);
    as_simulation_result_fini(&r);
}

static void urgent_requests_go_first(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    run_trace(&conf, "arrival_s,service_ms,priority\n0,10,\n0,10,3\n0,10,1\n", &r);
    assert_int_equal(r.of_priority[0].hist.max, 20 * AS_MS);
    assert_int_equal(r.of_priority[1].hist.max, 10 * AS_MS);
    assert_int_equal(r.of_priority[2].hist.max, 30 * AS_MS);
    as_simulation_result_fini(&r);
}

/* b's only request goes before those that a sent earlier. */
static void tenants_get_their_shares(void **state AS_UNUSED)
{
    static const char text[] =
        "arrival_s,service_ms,tenant\n0,10,a\n0,10,a\n0,10,a\n0,10,a\n0.001,10,b\n";
    struct as_simulation_conf conf = default_conf(1, 1);

    conf.order.codel.interval = AS_CODEL_INTERVAL;
    run_trace(&conf, text, &r);
    check(mean_ms(&r.total), (10 + 20 + 30 + 40 + 49) / 5.0);
    assert_int_equal(r.total.hist.max, 49 * AS_MS);
    as_simulation_result_fini(&r);
    conf.order.fair = true;
    run_trace(&conf, text, &r);
    assert_int_equal(r.total.hist.max, 50 * AS_MS);
    as_simulation_result_fini(&r);
}

/* With more load than it can serve, CoDel sheds instead of letting all wait. */
static void an_overload_is_shed(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);
    struct as_buf text = {0};
    double unbounded;

    as_buf_str(&text, "arrival_s,service_ms\n");
    for (uint32_t i = 0; i < 1000; i++)
        as_buf_printf(&text, "%.3f,10\n", i * 0.008);
    run_trace(&conf, as_buf_cstr(&text), &r);
    unbounded = mean_ms(&r.queue);
    assert_int_equal(r.answered, 1000);
    as_simulation_result_fini(&r);
    conf.order.codel = (struct as_codel_conf){5 * AS_MS, 100 * AS_MS};
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_true(r.failed[-AS_EFULL] > 50);
    assert_true(mean_ms(&r.queue) < unbounded / 5);
    as_simulation_result_fini(&r);
    as_buf_fini(&text);
}

/* One request in 200 takes a hundred times as long: a second replica answers it. */
static void slow_requests_are_hedged(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(2, 1);
    struct as_buf text = {0};

    as_buf_str(&text, "arrival_s,service_ms\n");
    for (uint32_t i = 0; i < 1000; i++)
        as_buf_printf(&text, "%.3f,%u\n", i * 0.02, i % 200 == 199 ? 1000 : 10);
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_int_equal(r.total.hist.max, 1000 * AS_MS);
    as_simulation_result_fini(&r);
    conf.order.hedging = (struct as_hedging_conf){.quantile = 950, .budget = 20, .samples = 100};
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_int_equal(r.answered, 1000);
    assert_int_equal(r.hedges, 5);
    assert_int_equal(r.hedges_won, 5);
    assert_true(r.total.hist.max < 50 * AS_MS);
    as_simulation_result_fini(&r);
    as_buf_fini(&text);
}

static void requests_are_batched(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    conf.batching = (struct as_batch_conf){.max_size = 4};
    conf.batch_cost = 0.5;
    /* one alone, then what has come meanwhile: 20 + (10 + 10 + 10) / 2 */
    run_trace(&conf, "arrival_s,service_ms\n0,10\n0.001,10\n0.002,20\n0.003,10\n0.004,10\n", &r);
    assert_int_equal(r.batches, 1);
    assert_int_equal(r.batched, 4);
    assert_int_equal(r.end, 45 * AS_MS);
    as_simulation_result_fini(&r);
    /* a batch waits for others */
    conf.batching.max_wait = 5 * AS_MS;
    conf.batch_cost = 0;
    run_trace(&conf, "arrival_s,service_ms\n0,10\n0.004,10\n", &r);
    assert_int_equal(r.batched, 2);
    assert_int_equal(r.end, 15 * AS_MS);
    as_simulation_result_fini(&r);
}

/* A message takes 1 ms: the slot stays empty while DONE and the next request travel. */
static void messages_take_their_time(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);

    conf.link_latency = AS_MS;
    run_trace(&conf, "arrival_s,service_ms\n0,10\n0,10\n", &r);
    assert_int_equal(r.answered, 2);
    assert_int_equal(r.end, 24 * AS_MS);
    as_simulation_result_fini(&r);
}

/* Fast requests are prefetched, and recalled for a replica that becomes free. */
static void prefetched_requests_are_recalled(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(2, 1);
    struct as_buf text = {0};

    conf.link_latency = 10 * AS_US;
    conf.deployment.prefetch_work = 100 * AS_MS;
    as_buf_str(&text, "arrival_s,service_ms\n");
    for (uint32_t i = 0; i < 200; i++)
        as_buf_printf(&text, "%u,1\n", i / 2);
    for (uint32_t i = 0; i < 20; i++)
        as_buf_printf(&text, "1000,%u\n", i % 2 ? 1 : 50);
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_int_equal(r.answered, 220);
    assert_true(r.recalled > 0);
    as_simulation_result_fini(&r);
    as_buf_fini(&text);
}

static void what_nobody_serves_is_unavailable(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(0, 1);

    run_trace(&conf, "arrival_s,service_ms\n0,10\n1,10\n", &r);
    assert_int_equal(r.answered, 0);
    assert_int_equal(r.failed[-AS_EUNAVAILABLE], 2);
    as_simulation_result_fini(&r);
}

static void equal_seeds_give_equal_results(void **state AS_UNUSED)
{
    static struct as_simulation_result results[3];
    struct as_simulation_conf conf = default_conf(8, 2);
    struct as_buf err = {0};

    for (uint32_t i = 0; i < 3; i++) {
        struct as_workload w = {.duration = 20 * AS_SEC,
                                .requests = UINT64_MAX,
                                .seed = 5 + i / 2,
                                .has_service = true};

        assert_int_equal(as_arrival_pattern_parse(&w.arrivals, AS_STR("sine:100:2000:5s"), &err),
                         0);
        assert_int_equal(as_service_pattern_parse(&w.service, AS_STR("lognormal:10ms:2"), &err), 0);
        assert_int_equal(as_simulation_run(&conf, &w, &results[i], &err), 0);
    }
    assert_memory_equal(&results[0].total, &results[1].total, sizeof(results[0].total));
    assert_memory_equal(results[0].timeline.cells, results[1].timeline.cells,
                        AS_TIMELINE_CELLS * sizeof(struct as_timeline_cell));
    assert_int_not_equal(results[0].end, results[2].end);
    for (uint32_t i = 0; i < 3; i++)
        as_simulation_result_fini(&results[i]);
}

/* A request for a deployment at zero waits until a replica has started; the replica goes when
 * nothing came for the delay. */
static void a_request_starts_the_first_replica(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(0, 1);
    struct as_autoscale_config autoscale = autoscaling(0, 4);

    conf.autoscale = &autoscale;
    conf.start_up = AS_SEC;
    conf.load_interval = 100 * AS_MS;
    conf.horizon = 60 * AS_SEC;
    run_trace(&conf, "arrival_s,service_ms\n0,10\n30,10\n", &r);
    assert_int_equal(r.answered, 2);
    assert_int_equal(r.total.hist.max, 1010 * AS_MS);
    check(mean_ms(&r.total), 1010);
    assert_int_equal(r.started, 2);
    assert_int_equal(r.stopped, 2);
    as_simulation_result_fini(&r);
}

/* 10 requests per second, then 100, of 50 ms each: one replica suffices, then five and more are
 * needed; then one again. */
static void replicas_follow_the_load(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 1);
    struct as_autoscale_config autoscale = autoscaling(1, 20);
    struct as_workload w = {
        .duration = AS_NEVER, .requests = UINT64_MAX, .seed = 1, .has_service = true};
    struct as_timeline_cell early, late, end;
    struct as_buf err = {0};

    conf.autoscale = &autoscale;
    conf.start_up = AS_SEC;
    conf.load_interval = 100 * AS_MS;
    assert_int_equal(
        as_arrival_pattern_parse(&w.arrivals, AS_STR("steps:4@50s,100@50s,4@50s"), &err), 0);
    assert_int_equal(as_service_pattern_parse(&w.service, AS_STR("constant:50ms"), &err), 0);
    assert_int_equal(as_simulation_run(&conf, &w, &r, &err), 0);
    assert_int_equal(as_simulation_failures(&r), 0);
    assert_int_equal(r.timeline.interval, 100 * AS_MS);
    early = as_timeline_sum(&r.timeline, 0, 500);
    late = as_timeline_sum(&r.timeline, 600, 400);
    end = as_timeline_sum(&r.timeline, 1300, 190);
    assert_true(early.replicas < 3 * 50e9);
    assert_true(late.replicas > 5 * 40e9 && late.most_replicas <= 20);
    assert_true(end.replicas < 3 * 19e9);
    assert_int_equal(r.started - r.stopped, end.most_replicas - 1);
    as_simulation_result_fini(&r);
}

/* What was under way when a row of the trace is wrong is freed; the sanitizers see it. */
static void a_wrong_row_ends_the_run(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(2, 1);
    struct as_workload w = {.duration = AS_NEVER, .requests = 20, .seed = 1, .has_service = true};
    char path[] = "/tmp/t_simulationXXXXXX";
    struct as_buf err = {0};
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    for (uint32_t i = 0; i < 20; i++)
        assert_true(dprintf(fd, "%s",
                            i == 19 ? "bad\n"
                            : i     ? "0,10\n"
                                    : "arrival_s,service_ms\n") > 0);
    close(fd);
    conf.link_latency = AS_MS;
    conf.deployment.prefetch_work = AS_SEC;
    assert_int_equal(as_trace_file_open(&w.trace, path, &err), 0);
    assert_int_equal(as_simulation_run(&conf, &w, &r, &err), AS_EINVALID);
    assert_non_null(strstr(as_buf_cstr(&err), ":20:1: arrival_s: 'bad' is not a number"));
    as_simulation_result_fini(&r);
    as_trace_file_close(w.trace);
    as_buf_fini(&err);
    unlink(path);
}

/* Two models on two replicas that hold one each: loaded once each, then every request goes to its
 * holder. */
static void models_are_loaded_once(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(2, 1);
    struct as_buf text = {0};

    conf.max_models = 1;
    conf.model_load = AS_SEC;
    as_buf_str(&text, "arrival_s,service_ms,model_id\n");
    for (uint32_t i = 0; i < 40; i++)
        as_buf_printf(&text, "%u,10,%c\n", 2 * i, "ab"[i * 7 / 3 % 2]);
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_int_equal(r.model_loads, 2);
    assert_int_equal(r.model_hits, 38);
    assert_int_equal(r.total.hist.max, 1010 * AS_MS);
    as_simulation_result_fini(&r);
    /* without affinity both would be loaded by both; a third model has no room */
    text.n = 0;
    as_buf_str(&text, "arrival_s,service_ms,model_id\n0,10,a\n2,10,b\n4,10,c\n6,10,c\n");
    run_trace(&conf, as_buf_cstr(&text), &r);
    assert_int_equal(r.model_loads, 3);
    assert_int_equal(r.model_hits, 1);
    as_simulation_result_fini(&r);
    as_buf_fini(&text);
}

/* A request for a model that is being loaded waits for that, and does not load it again. */
static void a_model_that_loads_is_waited_for(void **state AS_UNUSED)
{
    struct as_simulation_conf conf = default_conf(1, 2);

    conf.max_models = 2;
    conf.model_load = AS_SEC;
    run_trace(&conf, "arrival_s,service_ms,model_id\n0,10,a\n0.5,10,a\n", &r);
    assert_int_equal(r.model_loads, 1);
    check(mean_ms(&r.total), (1010 + 510) / 2.0);
    as_simulation_result_fini(&r);
}

/* Random settings and requests: every request ends once, and nothing asserts. */
static void every_request_ends(void **state AS_UNUSED)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct as_rand rand = {seed};
        struct as_simulation_conf conf =
            default_conf((uint32_t)as_rand_below(&rand, 5), 1 + (uint32_t)as_rand_below(&rand, 3));
        struct as_autoscale_config autoscale = autoscaling((uint32_t)as_rand_below(&rand, 2), 8);
        struct as_buf text = {0};
        uint32_t requests = 300;
        double at = 0;

        conf.deployment.max_queued = as_rand_below(&rand, 2) ? 20 : -1;
        conf.deployment.prefetch_work = as_rand_below(&rand, 2) * 20 * AS_MS;
        conf.link_latency = as_rand_below(&rand, 3) * AS_MS / 2;
        conf.request_timeout = as_rand_below(&rand, 2) * 30 * AS_MS;
        conf.max_models = (uint32_t)as_rand_below(&rand, 3);
        conf.model_load = 20 * AS_MS;
        conf.start_up = as_rand_below(&rand, 200) * AS_MS;
        conf.load_interval = 10 * AS_MS;
        autoscale.downscale_delay_s = 0.05;
        if (as_rand_below(&rand, 3) == 0)
            conf.batching = (struct as_batch_conf){.max_size = 4, .max_wait = 2 * AS_MS};
        if (as_rand_below(&rand, 2)) {
            conf.autoscale = &autoscale;
            conf.replicas = AS_MAX(conf.replicas, (uint32_t)autoscale.min_replicas);
        }
        as_buf_str(&text, "arrival_s,service_ms,model_id,session_id,priority,deadline_ms\n");
        for (uint32_t i = 0; i < requests; i++) {
            at += as_rand_below(&rand, 50) ? -log(as_rand_unit(&rand)) / 300 : 0.3;
            as_buf_printf(&text, "%.6f,%.3f,m%u,s%u,%u,", at, -log(as_rand_unit(&rand)) * 8,
                          (uint32_t)as_rand_below(&rand, 5), (uint32_t)as_rand_below(&rand, 9),
                          (uint32_t)as_rand_below(&rand, 4));
            if (as_rand_below(&rand, 4) == 0)
                as_buf_printf(&text, "%u", (uint32_t)as_rand_below(&rand, 60));
            as_buf_str(&text, "\n");
        }
        run_trace(&conf, as_buf_cstr(&text), &r);
        if (r.answered + as_simulation_failures(&r) != requests || r.total.hist.n != r.answered)
            fail_msg("seed %llu: %llu answered", (unsigned long long)seed,
                     (unsigned long long)r.answered);
        as_simulation_result_fini(&r);
        as_buf_fini(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slot_serves_in_order),
        cmocka_unit_test(two_replicas_share_a_queue),
        cmocka_unit_test(a_queue_with_poisson_arrivals_has_the_known_mean),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_deadline_ends_a_wait_but_no_execution),
        cmocka_unit_test(urgent_requests_go_first),
        cmocka_unit_test(tenants_get_their_shares),
        cmocka_unit_test(an_overload_is_shed),
        cmocka_unit_test(slow_requests_are_hedged),
        cmocka_unit_test(requests_are_batched),
        cmocka_unit_test(messages_take_their_time),
        cmocka_unit_test(prefetched_requests_are_recalled),
        cmocka_unit_test(what_nobody_serves_is_unavailable),
        cmocka_unit_test(equal_seeds_give_equal_results),
        cmocka_unit_test(a_request_starts_the_first_replica),
        cmocka_unit_test(replicas_follow_the_load),
        cmocka_unit_test(a_wrong_row_ends_the_run),
        cmocka_unit_test(models_are_loaded_once),
        cmocka_unit_test(a_model_that_loads_is_waited_for),
        cmocka_unit_test(every_request_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
