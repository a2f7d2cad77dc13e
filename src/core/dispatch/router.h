/* core/dispatch/router.h — which of the replicas with a free slot gets a request.
 *
 * A router only chooses and changes nothing; it reads replicas through
 * core/dispatch/deployment_internal.h. Free slots, caps and the order of requests are handled by
 * dispatch.c. Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_ROUTER_H
#define AS_CORE_ROUTER_H

#include "core/dispatch/deployment.h"

struct as_router_ops {
    const char *name; /* value of --router */
    /* Returns one of free[0..n), n > 0, that can execute q at once; NULL: none can. */
    struct as_replica *(*pick)(struct as_replica *const *free, uint32_t n,
                               const struct as_request *q, struct as_rand *rand);
};

const struct as_router_ops *as_router_ops(enum as_router r);

#endif
