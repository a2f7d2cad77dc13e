/* core/dispatch/width.h — how many of its slots a replica may use now: slow start and adaptive
 * concurrency. Internal to a deployment.
 *
 * A replica that becomes ready beside another one that has served for longer than slow_start begins
 * with one slot (core/protect/slow_start.h). As soon as no other replica with all of its slots is
 * in rotation, those that warm up get all of theirs. With adaptive concurrency each replica has a
 * limit of its own (core/protect/gradient.h). What is narrower prefetches nothing. Thread: the loop
 * that owns the deployment.
 */
#ifndef AS_CORE_WIDTH_H
#define AS_CORE_WIDTH_H

#include "core/dispatch/deployment_internal.h"

/* Its grant has changed. as_dispatch_update_limits must follow. */
void as_width_on_grant(struct as_replica *r, as_ns now);
/* A call of it took so long in the handler. as_dispatch_pull must follow. */
void as_width_on_service(struct as_replica *r, as_ns service);
/* Steps that are due, or replicas that came or went: those that are wider take requests. */
void as_width_update(struct as_deployment *d, as_ns now);
/* r leaves. */
void as_width_forget(struct as_replica *r);
/* When as_width_update has something to do; AS_NEVER. */
as_ns as_width_next_due(const struct as_deployment *d);
bool as_width_ok(const struct as_deployment *d);

#endif
