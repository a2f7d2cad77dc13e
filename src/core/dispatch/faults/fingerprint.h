/* core/dispatch/faults/fingerprint.h — fingerprints of request bodies, computed in portions, one
 * for each turn of the loop. Internal to a deployment. Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_FINGERPRINT_H
#define AS_CORE_FINGERPRINT_H

#include "core/dispatch/deployment_internal.h"

/* Computes the fingerprint of q, or a part of it. True: *ret_p is complete. False: the rest follows
 * in another turn, from as_deployment_work. */
bool as_fingerprint_compute(struct as_deployment *d, const struct as_request *q,
                            struct as_fingerprint *ret_p, as_ns now);
/* Forgets a fingerprint of q that is partly computed: the body of q must not be read any more. */
static inline void as_fingerprint_cancel(struct as_deployment *d, const struct as_request *q)
{
    if (d->fingerprinting == q)
        d->fingerprinting = NULL;
}
/* May this many more bytes be read or freed in this turn? The first call of a turn always may. */
bool as_fingerprint_use_budget(struct as_deployment *d, uint64_t bytes, as_ns now);

#endif
