/* core/dispatch/hedge.h — hedges: requests that execute in a second replica, too
 * (core/protect/hedging.h says when).
 *
 *   NONE ── sent ──► WATCHED ── the delay has passed ──► DUE ── another replica is free ──► SENT
 *
 * Only a request that may run twice and has one input and one answer is watched: no stream, no
 * member of a batch, no suspect, no copy for a mirror, none that is bound to its replica. A hedge
 * is a struct as_request of its own (state SECOND) that ops.hedge makes. It takes a free slot of
 * another replica, and is sent only while no request waits. A multiplexed model's goes only to a
 * replica that holds the model.
 *
 * While both execute they are each other's `twin`. The first answer is delivered, and the other
 * execution is abandoned: cancelled, and it keeps its slot until its worker ends it. An execution
 * that is lost, handed back, or answered with an error that counts against its replica
 * (as_request.failed) leaves silently, as if its client had left, and the twin goes on as any other
 * request. So a client is answered once, through whichever of the two is left.
 *
 * The time of a request counts for the quantile when it is answered, and, if its hedge was faster,
 * with what it had run until then. That is not less than the quantile, so the quantile stays right.
 *
 * Thread: the loop that owns the deployment. Internal to a deployment.
 */
#ifndef AS_CORE_HEDGE_H
#define AS_CORE_HEDGE_H

#include "core/dispatch/deployment_internal.h"

struct as_hedger {
    struct as_hedging_conf conf;
    struct as_quantile times;
    uint32_t tokens;
    struct as_list watched; /* by the time when they were sent */
    struct as_list due;     /* likewise */
    uint32_t n_due;
    as_ns wake_at; /* as_deployment_expire will be called then; AS_NEVER: not for hedges */
};

/* q was sent; the deployment hedges. */
void as_hedge_on_sent(struct as_deployment *d, struct as_request *q, as_ns now);
/* q (WATCHED or DUE) leaves its replica, or its client has left. */
void as_hedge_unwatch(struct as_deployment *d, struct as_request *q);
/* The worker has answered q, which may have a twin; good: the answer is to be delivered if it is
 * the first. Afterwards q is ABANDONED if its twin goes on instead. */
void as_hedge_on_answer(struct as_deployment *d, struct as_request *q, bool good, as_ns now);
/* q, a hedge, is answered by its worker, and its client gets that. */
void as_hedge_on_delivered(struct as_deployment *d, const struct as_request *q);
/* q (SENT) has a twin, which goes on alone: q is ABANDONED, and its worker is not told. */
void as_hedge_yield(struct as_deployment *d, struct as_request *q);
/* The same because q was lost. That counts as a lost execution of the twin, unless it is not known
 * yet whether the loss counts. */
void as_hedge_on_lost(struct as_deployment *d, struct as_request *q, enum as_progress progress,
                      enum as_retry rule);
/* The request ends: cancels the twin of q, too, which will not be answered. */
void as_hedge_cancel_twin(struct as_deployment *d, struct as_request *q, int reason);
/* q, a hedge whose twin has gone, ends unanswered by its worker. */
void as_hedge_on_end(struct as_deployment *d, int err);
/* Sends hedges for which there are slots and tokens. */
void as_hedge_run(struct as_deployment *d, as_ns now);
/* Finds out which requests are due, and when the next one is. */
void as_hedge_expire(struct as_deployment *d, as_ns now);
as_ns as_hedge_next_due(const struct as_deployment *d); /* AS_NEVER: none */
void as_hedge_fini(struct as_deployment *d);
bool as_hedge_ok(const struct as_deployment *d);

#endif
