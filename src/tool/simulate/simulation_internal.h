/* tool/simulate/simulation_internal.h — the state of a run, for its parts: simulation.c has the
 * dispatcher's side, simulated_worker.c the workers, simulated_controller.c which replicas there
 * are.
 */
#ifndef AS_TOOL_SIMULATE_SIMULATION_INTERNAL_H
#define AS_TOOL_SIMULATE_SIMULATION_INTERNAL_H

#include "base/container/event_heap.h"
#include "core/autoscale/service_window.h"
#include "tool/simulate/simulation.h"

struct sim_model { /* a multiplexed model that a worker holds */
    uint64_t key;
    as_ns loaded; /* when it is, or was */
};

enum sim_worker_state { SIM_GONE, SIM_STARTING, SIM_READY, SIM_DRAINING };

struct sim_worker { /* one replica */
    enum sim_worker_state state;
    bool cancelled;             /* STARTING: it is not needed any more */
    struct as_replica *replica; /* NULL while it starts */
    uint32_t reports;           /* of its models that have not reached the dispatcher */
    struct sim_model *models;   /* the most recently used first */
    uint32_t n_models;
    uint32_t recalls;       /* that are not answered yet */
    uint32_t running;       /* slots in which a call executes */
    struct as_list waiting; /* struct sim_execution that wait for one, oldest first */
};

/* A call of a handler: one request, or those of a batch. */
struct sim_execution {
    struct as_list node; /* in sim_worker.waiting, or free */
    struct sim_worker *worker;
    struct sim_call *first, *last;
    uint32_t n;    /* requests of it that have not ended */
    bool executes; /* else it waits in the worker, or is on its way */
    bool waits;    /* in sim_worker.waiting */
    bool batch;
};

struct sim_call { /* a request */
    struct as_request q;
    struct sim_call *next; /* of its execution, or free */
    struct sim_execution *execution;
    as_ns service, started, ran;
    as_ns service_before; /* of the request that came before it */
};

struct sim_recall { /* a RECALL, and its answer */
    struct sim_worker *worker;
    uint32_t n;
    struct {
        struct sim_call *call;
        uint64_t stream; /* which tells whether it is still that request */
    } of[];
};

enum sim_event_type {
    SIM_ARRIVE,   /* an execution is at its worker */
    SIM_FINISH,   /* its handler returns */
    SIM_DONE,     /* the dispatcher reads that */
    SIM_CANCEL,   /* a CANCEL is at the worker */
    SIM_DROPPED,  /* the dispatcher reads that a request was not started */
    SIM_RECALL,   /* a RECALL is at the worker */
    SIM_RETURNED, /* the dispatcher reads the answer */
    SIM_HELD,     /* it reads which models a worker holds */
    SIM_STARTED,  /* a replica becomes ready */
    SIM_COUNT,    /* the autoscaler gets the counts */
    SIM_DECIDE,   /* it decides without new ones */
    SIM_HORIZON   /* the run goes on until here at least */
};

struct sim_event {
    struct as_event_due due;
    enum sim_event_type type;
    uint64_t stream; /* CANCEL */
    void *of;        /* sim_execution, sim_call, sim_recall or sim_worker */
};

struct sim {
    const struct as_simulation_conf *conf;
    struct as_simulation_result *result;
    struct as_deployment *d;
    as_ns now;
    struct as_event_heap heap;
    struct sim_worker **workers;
    uint32_t n_workers;
    uint32_t open; /* requests */
    uint64_t last_stream;
    as_ns last_service;          /* of the request that came last */
    struct sim_execution *batch; /* that core announced and has not sent yet */
    uint32_t batch_left;
    struct sim_call *free_calls;
    struct as_list free_executions;
    struct as_timeline_levels levels;
    uint32_t n_draining; /* workers */
    bool beyond_horizon;
    /* with autoscaling */
    struct as_autoscaler *scaler;
    struct as_service_window *window; /* for target_latency_ms */
    bool count_due;
    as_ns counted_at, decide_at;
    uint32_t counted_queued, counted_ongoing;
};

void sim_schedule(struct sim *s, as_ns when, enum sim_event_type type, void *of, uint64_t stream);
struct sim_execution *sim_execution_new(struct sim *s, struct sim_worker *w);
void sim_execution_free(struct sim *s, struct sim_execution *x);

/* --- simulated_worker.c --- */

/* An execution has come: it begins, or waits. */
void sim_worker_receive(struct sim *s, struct sim_execution *x);
/* Its handler returns; the next one begins. */
void sim_worker_finish(struct sim *s, struct sim_execution *x);
/* Takes a request out that has not begun. False: it executes, or has ended. */
bool sim_worker_drop(struct sim_call *c, uint64_t stream);

/* The worker's models have changed, or it begins: reports them. */
void sim_worker_report(struct sim *s, struct sim_worker *w);
/* The report is at the dispatcher. */
void sim_worker_reported(struct sim *s, struct sim_worker *w);

/* --- simulated_controller.c --- */

/* The replicas of the beginning are ready. */
void sim_controller_start(struct sim *s);
/* Frees what is left. */
void sim_controller_end(struct sim *s);
/* To be called after each event: replicas that have drained end, changed counts are sent. */
void sim_controller_notice(struct sim *s);
/* The events of these names. */
void sim_controller_started(struct sim *s, struct sim_worker *w);
void sim_controller_count(struct sim *s);
void sim_controller_decide(struct sim *s);

#endif
