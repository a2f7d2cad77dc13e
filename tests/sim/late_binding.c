/* Late binding against binding at arrival, for the same requests: Poisson arrivals, log-normal
 * service (mean 10 ms, CV 2), 16 replicas with one slot each, 0.9 of which are in use.
 *
 * The oracle is a power of two choices that binds at arrival, as routers without a queue of their
 * own do: of two replicas at random, the request joins the line of the one with fewer requests, and
 * stays there. core's p99 must be at most half of the oracle's.
 */
#include "base/str.h"
#include "tool/simulate/simulation.h"

#include <inttypes.h>

#define REPLICAS 16u
#define LINE     65536u /* departures of one replica that are remembered; more never wait */
#define SHARE    0.5    /* of the oracle's p99 */

struct line { /* a replica of the oracle: when its requests depart, oldest first */
    as_ns departs[LINE];
    uint32_t first, n;
    as_ns free_at;
};

static struct line lines[REPLICAS];
static struct as_loghist of_oracle;
static struct as_simulation_result of_core;

static uint32_t waiting(struct line *l, as_ns now)
{
    while (l->n && l->departs[l->first] <= now) {
        l->first = (l->first + 1) % LINE;
        l->n--;
    }
    return l->n;
}

static as_ns join(struct line *l, as_ns now, as_ns service)
{
    AS_ASSERT(l->n < LINE);
    l->free_at = AS_MAX(l->free_at, now) + service;
    l->departs[(l->first + l->n++) % LINE] = l->free_at;
    return l->free_at - now;
}

static struct as_workload load_of(uint64_t seed, uint64_t requests)
{
    struct as_workload w = {
        .duration = AS_NEVER, .requests = requests, .seed = seed, .has_service = true};
    struct as_buf err = {0};

    /* 0.9 × 16 slots / 10 ms */
    AS_ASSERT(as_arrival_pattern_parse(&w.arrivals, AS_STR("poisson:1440"), &err) == 0);
    AS_ASSERT(as_service_pattern_parse(&w.service, AS_STR("lognormal:10ms:2"), &err) == 0);
    return w;
}

static void run_oracle(uint64_t seed, uint64_t requests)
{
    struct as_workload w = load_of(seed, requests);
    struct as_rand rand = {seed + 1};
    struct as_trace_row row;
    struct as_buf err = {0};

    memset(lines, 0, sizeof(lines));
    memset(&of_oracle, 0, sizeof(of_oracle));
    while (as_workload_next(&w, &row, &err) > 0) {
        uint32_t i = (uint32_t)as_rand_below(&rand, REPLICAS),
                 k = (uint32_t)as_rand_below(&rand, REPLICAS - 1);

        k += k >= i;
        if (waiting(&lines[k], row.arrival) < waiting(&lines[i], row.arrival))
            i = k;
        as_loghist_add(&of_oracle, join(&lines[i], row.arrival, row.service));
    }
}

static void run_core(uint64_t seed, uint64_t requests)
{
    struct as_workload w = load_of(seed, requests);
    struct as_simulation_conf conf = {
        .name = "late_binding",
        .deployment = {.max_queued = -1,
                       .router = AS_ROUTER_CONF_DEFAULT,
                       .seed = seed,
                       .prefetch_work = 100 * AS_US},
        .replicas = REPLICAS,
        .slots = 1,
        .prefetch = 256,
        .max_requests = UINT32_MAX,
    };
    struct as_buf err = {0};

    AS_ASSERT(as_simulation_run(&conf, &w, &of_core, &err) == 0);
    AS_ASSERT(of_core.answered == requests);
}

static bool run_seed(uint64_t seed, uint64_t requests)
{
    as_ns core, oracle;

    run_core(seed, requests);
    run_oracle(seed, requests);
    core = as_loghist_quantile(&of_core.total.hist, 0.99);
    oracle = as_loghist_quantile(&of_oracle, 0.99);
    printf("seed %" PRIu64 ": p50 %.1f ms, p99 %.1f ms; bound at arrival p50 %.1f ms, p99 %.1f ms: "
           "%.2f\n",
           seed, (double)as_loghist_quantile(&of_core.total.hist, 0.5) / 1e6, (double)core / 1e6,
           (double)as_loghist_quantile(&of_oracle, 0.5) / 1e6, (double)oracle / 1e6,
           (double)core / (double)oracle);
    as_simulation_result_fini(&of_core);
    return (double)core <= SHARE * (double)oracle;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 5, requests = 200000, failed = 0;

    if (argc > 3 || (argc > 1 && as_str_u64(as_str_of(argv[1]), &seeds) < 0) ||
        (argc > 2 && as_str_u64(as_str_of(argv[2]), &requests) < 0)) {
        fprintf(stderr, "usage: late_binding_sim [SEEDS [REQUESTS]]\n");
        return 2;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        failed += !run_seed(seed, requests);
    printf("%" PRIu64 " of %" PRIu64 " seeds failed\n", failed, seeds);
    return failed ? 1 : 0;
}
