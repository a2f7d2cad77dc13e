/* tool/simulate/simulation.h — one deployment under virtual time: core/dispatch decides as in the
 * server, and the workers are simulated.
 *
 * A worker executes as many calls as it has slots, in the order in which they came; a call takes
 * the time that its request says. A cancel ends a request that waits in the worker, and lets one
 * that executes go on, as a handler that does not watch for cancels. Messages between dispatcher
 * and worker take link_latency each way. Nothing fails but by limits and deadlines.
 *
 * With max_models a worker holds so many multiplexed models, the least recently used one makes
 * room, and a request for a model that is not there yet executes for longer until that is loaded.
 *
 * Equal configurations and requests give equal results. Memory is bounded by the requests that are
 * open at once, not by all of them.
 */
#ifndef AS_TOOL_SIMULATE_SIMULATION_H
#define AS_TOOL_SIMULATE_SIMULATION_H

#include "base/loghist.h"
#include "core/autoscale/autoscaler.h"
#include "core/dispatch/deployment.h"
#include "tool/simulate/timeline.h"
#include "tool/simulate/workload.h"

/* Which request goes first, and what is shed: core/dispatch/deployment.h. */
struct as_simulation_order {
    uint32_t share; /* 0: the default */
    bool fair;
    enum as_fair_cost cost;
    struct as_codel_conf codel;
    as_ns slow_start;
    bool adaptive;
    struct as_hedging_conf hedging; /* all requests may be executed twice */
};

#define AS_SIMULATION_MODELS_MAX 1024u

struct as_simulation_conf {
    const char *name; /* of the deployment */
    struct as_deployment_conf deployment;
    uint32_t replicas; /* that are ready at the beginning */
    /* how their number follows the load; NULL: it does not change */
    const struct as_autoscale_config *autoscale;
    as_ns start_up;      /* until a replica that is started is ready */
    as_ns load_interval; /* least time between two counts that the autoscaler gets */
    as_ns horizon;       /* the run lasts until then at least; 0: until its last request ends */
    uint32_t slots, prefetch; /* of each replica: what its worker grants */
    struct as_simulation_order order;
    struct as_batch_conf batching;
    /* a batch takes as long as its longest request, and this part (0 … 1) of the time of the others
     */
    double batch_cost;
    uint32_t max_models; /* that a replica holds, at most AS_SIMULATION_MODELS_MAX; 0: it is not
                            multiplexed */
    as_ns model_load;    /* how long it takes to load one */
    as_ns link_latency;
    as_ns request_timeout; /* deadline of requests without one; 0: none */
    uint32_t max_requests; /* open at once; more are refused */
};

struct as_simulation_latency {
    struct as_loghist hist;
    double sum; /* ns */
};

/* Changes of the number of replicas that are kept, the first ones. */
#define AS_SIMULATION_DECISIONS 200u

struct as_simulation_decision { /* of the autoscaler */
    as_ns at;
    uint32_t from, to;
    char *why; /* a line for people */
};

struct as_simulation_result {
    uint64_t requests, answered;
    uint64_t failed[AS_ERR_ROWS]; /* by error, at -AS_E… */
    as_ns end;                    /* when the last one ended */
    /* of answered requests: until the handler began; while it ran; from arrival to answer */
    struct as_simulation_latency queue, service, total;
    struct as_simulation_latency of_priority[AS_PRIORITIES]; /* total, by priority */
    uint64_t batches, batched; /* calls with several requests, and requests in them */
    uint64_t recalled;         /* requests that a worker gave back for another one */
    uint64_t started, stopped; /* replicas, by the autoscaler */
    struct as_simulation_decision decisions[AS_SIMULATION_DECISIONS];
    uint32_t n_decisions;
    uint64_t model_hits,
        model_loads;             /* requests whose model was there, or being loaded; the others */
    uint64_t hedges, hedges_won; /* requests that went to a second replica, which was faster */
    uint64_t ejected;            /* times that a replica was ejected because it was slow */
    struct as_timeline timeline;
};

/* Runs until all requests have ended. as_simulation_result_fini is due in any case. AS_EINVALID,
 * AS_EIO: `err` gets a line. */
int as_simulation_run(const struct as_simulation_conf *conf, struct as_workload *workload,
                      struct as_simulation_result *ret_r, struct as_buf *err);
void as_simulation_result_fini(struct as_simulation_result *r);

uint64_t as_simulation_failures(const struct as_simulation_result *r);         /* of all errors */
static inline double as_simulation_mean(const struct as_simulation_latency *l) /* ns */
{
    return l->hist.n ? l->sum / (double)l->hist.n : 0;
}

#endif
