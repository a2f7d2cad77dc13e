/* core/dispatch/choice/router.h — which replica gets a request: the policies.
 *
 * A router is asked in both directions. For a request, `prefer` names ranked groups of replicas and
 * from when each of them will do (core/dispatch/choice/preference.h keeps them), and `pick` chooses
 * among the replicas that are free. A replica with a free slot takes the oldest request that
 * prefers it or that has waited out its preference; that needs no policy. What the policies count
 * is updated by the hooks. Caps, slots and the order of requests are handled by dispatch.c.
 *
 * The model that a request is for comes before the policy (core/dispatch/choice/multiplex.h): such
 * a request prefers the replicas that hold the model, and the policy picks among the others.
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_ROUTER_H
#define AS_CORE_ROUTER_H

#include "core/dispatch/deployment.h"

struct as_preference;

struct as_router_ops {
    const char *name;
    /* A free replica that can execute q at once; NULL: there is none. d->n_free > 0. */
    struct as_replica *(*pick)(struct as_deployment *d, const struct as_request *q);
    /* Which replicas q prefers: fills links and any_from of an empty preference. NULL: the policy
     * has no preferences. Called only for a request with a session_key. */
    void (*prefer)(struct as_deployment *d, const struct as_request *q, struct as_preference *t,
                   as_ns now);
    /* Each may be NULL. */
    void (*on_routed)(struct as_deployment *d, const struct as_request *q, struct as_replica *r,
                      as_ns now);
    void (*on_replica_added)(struct as_deployment *d, struct as_replica *r);
    void (*on_replica_removed)(struct as_deployment *d, struct as_replica *r);
};

/* A free replica that can execute q at once, by the policy; NULL: there is none. d->n_free > 0. */
struct as_replica *as_router_pick(struct as_deployment *d, const struct as_request *q);
/* AS_EINVALID: some value is out of range. */
int as_router_check(const struct as_router_conf *c);
/* Begins with the policy of d->conf.router, for the replicas that there are. */
void as_router_start(struct as_deployment *d);
/* Frees what the policy knows. */
void as_router_stop(struct as_deployment *d);

#endif
