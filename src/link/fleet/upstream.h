/* link/fleet/upstream.h — the connection to a replica's worker, whatever protocol it speaks.
 *
 * core decides what a replica does, and the upstream carries it out. There are two kinds: a worker
 * on the native link (link/native/link.h), and one that speaks the simple protocol
 * (link/simple/simple.h). Both embed struct as_upstream, so that the fleet treats them alike.
 * Thread: the dispatch loop.
 */
#ifndef AS_LINK_UPSTREAM_H
#define AS_LINK_UPSTREAM_H

#include "link/fleet/call.h"
#include "link/fleet/fleet_deployment.h"

struct as_upstream;

/* What the fleet asks of a kind of upstream, beside the operations of each. */
struct as_upstream_kind {
    void (*accept)(struct as_fleet *f, int fd); /* a worker has connected to the fleet's socket */
    void (*fini)(struct as_fleet *f);           /* the fleet ends: no upstream is left */
};
extern const struct as_upstream_kind as_upstream_native, as_upstream_simple;

struct as_upstream_ops {
    const char *kind; /* "native" or "simple", for the status page */
    /* Of core/dispatch/deployment.h; batch and recall are NULL if the protocol has neither. */
    void (*batch)(struct as_upstream *u, uint32_t n);
    void (*send)(struct as_upstream *u, struct as_call *c);
    void (*recall)(struct as_upstream *u, struct as_request *const *q, uint32_t n);
    void (*cancel)(struct as_upstream *u, struct as_call *c, int reason);
    /* Nobody waits for the answer any more: frees what has arrived and discards the rest. */
    void (*discard_answer)(struct as_upstream *u, struct as_call *c);
    /* For streams; NULL if the protocol has none. */
    void (*credit)(struct as_upstream *u, struct as_call *c, const struct as_frame_window *w);
    /* Sends c->stream->input when there is credit. */
    void (*input)(struct as_upstream *u, struct as_call *c);
    void (*input_end)(struct as_upstream *u, struct as_call *c);
    /* The worker finishes what it has and gets nothing new. */
    void (*drain)(struct as_upstream *u);
    /* Another dispatcher takes over: tells the worker to connect there. *foreign
     * counts the workers that are not our processes and stay connected here. False: the worker can
     * connect there only after its link here has ended. */
    bool (*hand_over)(struct as_upstream *u, uint32_t *foreign);
    /* Called several times per ping interval: sends pings, and checks that they were answered. */
    void (*tick)(struct as_upstream *u, as_ns now);
    /* The dispatcher ends: its requests go back to core; u may be freed by this. */
    void (*stop)(struct as_upstream *u);
    /* Of processes that we have started; NULL if the protocol has none. */
    void (*on_death)(struct as_upstream *u); /* its process is dead */
    bool (*is_up)(struct as_upstream *u);    /* its worker has slots, and its socket is open */
    void (*update_rotation)(struct as_upstream *u); /* `retiring` has changed */
    /* Sends a frame POLICY with these records; NULL if the protocol has none. */
    void (*policy)(struct as_upstream *u, struct as_str records);
    /* as_fleet_send_control. Or an error: nothing was sent; *ret_why says the reason, unless the
     * replica is not connected. */
    int (*control)(struct as_upstream *u, uint64_t id, enum as_control_op op, struct as_str text,
                   const char **ret_why);
    /* Fills in what only this kind knows for the status page. */
    void (*fill_status)(struct as_upstream *u, struct as_fleet_replica *ret_r);
    /* Whether it is a driver, and then what the status page shows of it. NULL: never. */
    bool (*fill_driver)(struct as_upstream *u, struct as_fleet_driver *ret_d);
};

struct as_upstream {
    const struct as_upstream_ops *ops;
    struct as_fleet *fleet;
    struct as_fleet_deployment *deploy; /* NULL: not known yet (native link before HELLO) */
    struct as_fleet_process *process;   /* NULL: a worker that we have not started */
    struct as_replica *replica;         /* NULL: the worker has not granted slots yet */
    char *name;                         /* of the replica; NULL: not known yet (before HELLO) */
    bool has_ended;                     /* it is being removed */
    bool policy_ready;                  /* it is a policy process that takes questions … */
    uint32_t policy_wants;              /* … and what it is told beside: AS_POLICY_WANTS_… */
    uint64_t policy_sent, policy_read;  /* bytes of records that it was sent, and has read */
    uint32_t policy_number;             /* of its replica there (policy.h); 0: none */
    uint32_t plugin_sent; /* requests that have not ended here, as a router in C was told */
    uint32_t n_reports;   /* REPORTs that were accepted */
    as_ns stats_at;       /* Unix time of its AS_REPORT_AUTOSCALING; 0: none */
    bool stats_pending;   /* the owner was not told of these yet */
    bool retiring;        /* gets nothing new; reported when all is answered */
    uint64_t models[AS_DEPLOYMENT_MODELS_MAX /
                    64]; /* a bit for each model that its worker has registered */
    struct as_list node; /* the fleet's list */
};

void as_upstream_report_retired(struct as_upstream *u);
/* To be called after one of its requests has ended or was returned. */
static inline void as_upstream_check_retired(struct as_upstream *u)
{
    if (u->retiring && !as_replica_unanswered(u->replica))
        as_upstream_report_retired(u);
}

/* Whether its worker has registered that model. */
static inline bool as_upstream_serves(const struct as_upstream *u, uint32_t model)
{
    return u->models[model / 64] >> model % 64 & 1u;
}
/* Its worker has registered the model: from now on the replica may get requests for it. */
void as_upstream_add_model(struct as_upstream *u, uint32_t model);
/* Its replica is new: tells core which of the deployment's models it serves. */
void as_upstream_init_models(struct as_upstream *u);

static inline struct as_upstream *as_upstream_of(const struct as_replica *r)
{
    return as_replica_link(r);
}

#endif
