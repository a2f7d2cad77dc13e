/* link/fleet/upstream.h — what a replica's requests go to, whatever it speaks.
 *
 * core decides about a replica, its upstream carries it out. There are two: a worker on the native
 * link (link/native/link.h), and one that speaks the simple protocol (link/simple/simple.h). Both
 * embed this, so that the fleet knows neither. Thread: the dispatch loop.
 */
#ifndef AS_LINK_UPSTREAM_H
#define AS_LINK_UPSTREAM_H

#include "link/fleet/call.h"
#include "link/fleet/fleet_deployment.h"

struct as_upstream;

struct as_upstream_ops {
    const char *kind; /* for people: "native", "simple" */
    /* Of core/dispatch/deployment.h; batch and recall are NULL where replicas get neither. */
    void (*batch)(struct as_upstream *u, uint32_t n);
    void (*send)(struct as_upstream *u, struct as_call *c);
    void (*recall)(struct as_upstream *u, struct as_request *const *q, uint32_t n);
    void (*cancel)(struct as_upstream *u, struct as_call *c, int reason);
    /* Nobody waits for the answer any more: what came of it is freed, what still comes is passed
     * over. */
    void (*pass_over)(struct as_upstream *u, struct as_call *c);
    /* Of calls that are streams; NULL where no model is one. */
    void (*credit)(struct as_upstream *u, struct as_call *c, const struct as_frame_window *w);
    void (*input)(struct as_upstream *u, struct as_call *c); /* c->input, once there is room */
    void (*input_end)(struct as_upstream *u, struct as_call *c);
    /* What it holds is finished, nothing new is sent. */
    void (*drain)(struct as_upstream *u);
    /* Another dispatcher takes over: it is sent there, and counted when it is no process of ours
     * and somebody has to wait for it. False: it goes only when its link here has ended. */
    bool (*move)(struct as_upstream *u, uint32_t *foreign);
    /* Several times per ping interval: asks whether it lives, and judges what was asked before. */
    void (*tick)(struct as_upstream *u, as_ns now);
    /* The dispatcher ends. What it holds is given back to core; u may be gone afterwards. */
    void (*stop)(struct as_upstream *u);
    /* Its own part of what the status page shows. */
    void (*show)(struct as_upstream *u, struct as_fleet_replica *ret_r);
};

struct as_upstream {
    const struct as_upstream_ops *ops;
    struct as_fleet *fleet;
    struct as_fleet_deployment *deploy; /* NULL: not known yet */
    struct as_replica *replica;         /* NULL: it has no slots yet */
    char *name;                         /* of the replica; NULL: not known yet */
    bool retiring;                      /* takes nothing new; told when nothing is unanswered */
    uint64_t
        models[AS_DEPLOYMENT_MODELS_MAX / 64]; /* a bit for each that its worker has registered */
    struct as_list node;                       /* the fleet's list */
};

void as_upstream_report_retired(struct as_upstream *u);
/* After a request of it has ended or come back. */
static inline void as_upstream_check_retired(struct as_upstream *u)
{
    if (u->retiring && !as_replica_unanswered(u->replica))
        as_upstream_report_retired(u);
}

/* Has its worker registered that model? */
static inline bool as_upstream_serves(const struct as_upstream *u, uint32_t model)
{
    return u->models[model / 64] >> model % 64 & 1u;
}
/* It has, and knows that it has: its replica may be given requests from here on. */
void as_upstream_add_model(struct as_upstream *u, uint32_t model);
/* Its replica is new: what of the deployment's models it does not serve. */
void as_upstream_init_models(struct as_upstream *u);

static inline struct as_upstream *as_upstream_of(const struct as_replica *r)
{
    return as_replica_link(r);
}

#endif
