/* core/dispatch/choice/multiplex.h — which replicas hold which multiplexed models.
 *
 * A replica holds what it reports, and a model of which it has an unanswered request, since it is
 * loading that. A request for a model prefers the replicas that hold it, and waits for them for
 * as_router_conf.max_wait up to twice as long. Then it may go anywhere; so may the first request
 * for a model that nobody holds, at once, and the free replica with the fewest models gets it.
 * Only one request of a model at a time does that (the *loader*), and none while a replica is
 * loading it: so a model is loaded once, however many requests for it come together. A model that
 * all its holders are too busy for is loaded by one more replica at a time.
 *
 * Thread: the loop that owns the deployment. Internal to a deployment.
 */
#ifndef AS_CORE_MULTIPLEX_H
#define AS_CORE_MULTIPLEX_H

#include "core/dispatch/deployment_internal.h"

static inline bool as_multiplex_applies(const struct as_deployment *d, const struct as_request *q)
{
    return d->multiplexed && q->model_key;
}
/* g, the group of a model, has r as a member. */
bool as_multiplex_is_member(const struct as_replica *r, struct as_group *g);
/* r holds q's model, or is loading it. */
bool as_multiplex_holds(const struct as_replica *r, const struct as_request *q);
/* Fills the preference of a request for a model. */
void as_multiplex_prefer(struct as_deployment *d, struct as_request *q, struct as_preference *t,
                         as_ns now);
/* The free replica with the fewest models that can execute q; NULL: none is free. */
struct as_replica *as_multiplex_pick(struct as_deployment *d, const struct as_request *q);
/* A replica that holds q's model and can execute q at once: of these the one with the fewest
 * requests; NULL: none. */
struct as_replica *as_multiplex_find_holder(const struct as_deployment *d,
                                            const struct as_request *q);
/* q's time is over, or nobody holds its model. True: it may go to any replica, and is the loader
 * until it is sent or ends. False: another one is, or its model is being loaded. */
bool as_multiplex_become_loader(struct as_deployment *d, struct as_request *q);
/* q was sent to r; q left r unanswered or answered; q ends, or is not the loader any more. */
void as_multiplex_on_sent(struct as_replica *r, struct as_request *q);
void as_multiplex_on_left(struct as_replica *r, struct as_request *q, bool answered);
void as_multiplex_on_end(struct as_deployment *d, struct as_request *q);
/* r takes no requests for now: another replica may load what only r holds. */
void as_multiplex_on_closed(struct as_replica *r);
/* r goes. */
void as_multiplex_remove_replica(struct as_replica *r);
bool as_multiplex_ok(const struct as_deployment *d);
void as_multiplex_fini(struct as_deployment *d);

#endif
