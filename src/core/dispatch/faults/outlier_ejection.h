/* core/dispatch/faults/outlier_ejection.h — replicas that fail or are slow get no requests for a
 * while (core/protect/breaker.h, core/protect/outlier.h). Internal to a deployment.
 *
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_OUTLIER_EJECTION_H
#define AS_CORE_OUTLIER_EJECTION_H

#include "core/dispatch/deployment_internal.h"

void as_outlier_add_model(struct as_deployment *d, uint32_t model); /* adds a median for it */
void as_outlier_forget_model(struct as_deployment *d, uint32_t model);
/* A call of the model took `service`. */
void as_outlier_on_service(struct as_replica *r, uint32_t model, as_ns service, as_ns now);
void as_outlier_on_result(struct as_replica *r, bool failed, as_ns now);
/* An answer of r to q has come. */
static inline void as_outlier_on_answer(struct as_replica *r, const struct as_request *q, as_ns now)
{
    if (__builtin_expect(q->failed || r->breaker.streak || r->breaker.state, 0))
        as_outlier_on_result(r, q->failed, now);
}
/* q's deadline passed at r: counts as a failure if the time would have been enough at its peers. */
void as_outlier_on_deadline(struct as_replica *r, const struct as_request *q, as_ns now);
/* Lets ejected replicas whose time is over be probed. */
void as_outlier_expire(struct as_deployment *d, as_ns now);
as_ns as_outlier_next_due(const struct as_deployment *d); /* AS_NEVER: none */
/* After a replica was added, removed or drained: if all that are left are ejected, readmits them.
 */
void as_outlier_readmit_all(struct as_deployment *d, as_ns now);

#endif
