/* core/dispatch/router.h — which of the replicas with a free slot gets a request.
 *
 * A router only chooses; it changes nothing and sees the replicas through core/dispatch/replica.h. Whether
 * there is a free slot at all, the caps and the order of requests are dispatch's business.
 */
#ifndef AS_CORE_ROUTER_H
#define AS_CORE_ROUTER_H

#include "core/dispatch/deployment.h"

struct as_router_ops {
    const char *name; /* as in options */
    /* One of free[0..n), n > 0, that fits q; NULL when none does. */
    struct as_replica *(*pick)(struct as_replica *const *free, uint32_t n,
                               const struct as_request *q, struct as_rand *rand);
};

const struct as_router_ops *as_router_ops(enum as_router r);

#endif
