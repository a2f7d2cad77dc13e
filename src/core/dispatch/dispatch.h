/* core/dispatch/dispatch.h — which queued request is sent to which replica, and when; recalls of
 * requests that wait at the wrong replica. Internal to a deployment; rules 1 and 2 are in
 * deployment_internal.h.
 *
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_DISPATCH_H
#define AS_CORE_DISPATCH_H

#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/hedge.h"

/* r is free, and the number of its requests has changed. */
void as_dispatch_move_free(struct as_replica *r);
/* Indexes of replicas have changed. */
void as_dispatch_update_free_bits(struct as_deployment *d);
/* Adds r to as_deployment.free, or removes it. */
void as_dispatch_set_free(struct as_replica *r, bool is_free);
/* To be called after the load of r changed. */
static inline void as_dispatch_update_free(struct as_replica *r)
{
    bool is_free = as_replica_front_calls(r) < r->width;

    if (is_free != (r->free_at != AS_NOWHERE))
        as_dispatch_set_free(r, is_free);
    else if (is_free && r->free_load != r->unanswered)
        as_dispatch_move_free(r);
}
/* How many front calls r may have in slots (width) and in all (limit). as_dispatch_update_limits
 * must be called after a change of its grant, state, recall or service time. */
uint32_t as_dispatch_width(const struct as_replica *r);
uint32_t as_dispatch_limit(const struct as_replica *r);
void as_dispatch_update_limits(struct as_replica *r);
/* A replica that can execute q at once, or can prefetch it; NULL: none. */
struct as_replica *as_dispatch_find_free(struct as_deployment *d, const struct as_request *q);
struct as_replica *as_dispatch_find_prefetch(struct as_deployment *d, const struct as_request *q);
/* Removes q (QUEUED) from the queue, the suspects or the stranded; it will not be sent. */
void as_dispatch_dequeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Checks whether what waits in the lanes with batching is due, or sets the timer for it. */
void as_dispatch_update_lanes(struct as_deployment *d, as_ns now);
/* The same for one lane, after requests were taken out of it. */
void as_dispatch_update_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends one call, which begins with `first`, from a lane that is due to r, which has a free slot.
 * If some of its requests had expired, or the first was shed, it sends nothing, and the caller must
 * search again for what is next. */
void as_dispatch_send_batch(struct as_replica *r, struct as_lane *l, struct as_request *first,
                            as_ns now);
/* The turn of q (QUEUED) has come. True: it had waited for too long (core/protect/codel.h), and was
 * ended. */
bool as_dispatch_shed(struct as_deployment *d, struct as_request *q, as_ns now);
/* Counts a call that begins with q and is about to be sent to r: core/queue/share.h. */
void as_dispatch_note_turn(struct as_replica *r, const struct as_request *q);
/* True: q (in no list) is in time. False: its deadline has passed, and it was ended. */
bool as_dispatch_check_deadline(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends batches of a lane while it is due and there are free slots. */
void as_dispatch_send_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends queued requests to all replicas that have free slots, in the order of the queue. */
void as_dispatch_send_all(struct as_deployment *d, as_ns now);
/* Sends q (QUEUED, in no list) to r. */
void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now);
/* The same when as_dispatch_note_turn was called. */
void as_dispatch_send_call(struct as_replica *r, struct as_request *q, as_ns now);
/* The part of sending that is common to all kinds; the load of r is not counted yet. */
void as_dispatch_bind(struct as_replica *r, struct as_request *q, as_ns now);
/* Removes q (SENT or ABANDONED) from its replica, which then has room: as_dispatch_pull must
 * follow. answered: the worker has answered it. */
void as_dispatch_detach(struct as_request *q, bool answered);
/* Sends q (SENT or PARKED, detached) to the best replica with room, or lets it wait. In a
 * deployment with batching it always waits, so that others may join it, and as_dispatch_send_all
 * and as_preference_run must follow. q may also end here. */
void as_dispatch_requeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends q (QUEUED, in no list) to the best replica with room, or lets it wait; with batching as
 * above. */
void as_dispatch_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends q (QUEUED, in no list) to any replica with room, or puts it into the queue. */
void as_dispatch_enqueue_anywhere(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends q, which had a preference, to r. as_preference_run must follow: r may have come to hold the
 * model for which others wait. Not at once: these may be younger than others that are about to be
 * placed. */
void as_dispatch_send_preferring(struct as_replica *r, struct as_request *q, as_ns now);
/* Sends r what it may take from the queue. */
void as_dispatch_fill(struct as_replica *r, as_ns now);
static inline void as_dispatch_pull(struct as_replica *r, as_ns now)
{
    const struct as_deployment *d = r->deployment;

    if (d->queue.n || d->n_preferring || d->n_suspects || d->n_stranded)
        as_dispatch_fill(r, now);
}
/* To be called after caps, grants or batching changed: adds lanes for the models whose cap is below
 * most_slots, and counts again which calls wait for a cap. */
void as_dispatch_update_caps(struct as_deployment *d);
/* What r could accept now. */
struct as_replica_capacity as_dispatch_capacity(const struct as_replica *r);

/* --- beyond.c: requests on a cycle, which execute beyond the slots --- */

/* The replica at which q would execute beyond the slots: of those in rotation the one with the
 * fewest requests. If none is in rotation: one that drains and has requests to finish, which may
 * wait for q. NULL: none of either serves it. */
struct as_replica *as_beyond_find(const struct as_deployment *d, const struct as_request *q);
/* Sends q (QUEUED, in no list) to r, beyond its slots. */
void as_beyond_send(struct as_replica *r, struct as_request *q, as_ns now);
/* Sends q (QUEUED, in no list), or lets it wait until a replica is in rotation. */
void as_beyond_place(struct as_deployment *d, struct as_request *q, as_ns now);
/* A replica may have come into rotation, or finish what it has: sends what waits for that. Those in
 * rotation have taken what they can from the queue. */
void as_beyond_fill(struct as_deployment *d, as_ns now);
/* q (QUEUED, in no list) waits until a replica is in rotation; none is. */
void as_beyond_strand(struct as_deployment *d, struct as_request *q);
/* Removes q from the stranded. */
void as_beyond_dequeue(struct as_deployment *d, struct as_request *q);
/* The oldest stranded request, of that model (UINT32_MAX: any); NULL: none. */
struct as_request *as_beyond_first(const struct as_deployment *d, uint32_t model);
bool as_beyond_ok(const struct as_deployment *d);

/* --- reservation.c: requests that take a slot before they are sent --- */

/* The first request that reserves: nothing is prefetched from now on. */
void as_reservation_begin(struct as_deployment *d);
/* q (WANTED) was bound to r: it holds a slot there. */
void as_reservation_hold(struct as_replica *r, struct as_request *q, as_ns now);
/* q (HELD) leaves its replica. */
void as_reservation_unhold(struct as_request *q);
/* q (HELD) was cancelled, or its time is over. */
void as_reservation_cancel(struct as_deployment *d, struct as_request *q, as_ns now);
void as_reservation_expire(struct as_deployment *d, struct as_request *q, as_ns now);
/* r takes no requests any more: ends the reservations there. Nothing is sent to r. */
void as_reservation_end_all(struct as_replica *r);

/* --- fallback.c: requests that need not wait here --- */

/* Checks q with has_fallback or is_mirror before it is accepted: 0, or the error to
 * refuse it with. */
int as_fallback_check(struct as_deployment *d, const struct as_request *q, bool is_full);
/* Should q, which waits or was given back, leave the deployment instead of waiting again? */
bool as_fallback_may_leave(const struct as_deployment *d, const struct as_request *q);
/* After a death: if no replica serves the model any more, ends the waiting requests that have a
 * fallback. */
void as_fallback_sweep(struct as_deployment *d, as_ns now);

/* --- model_coverage.c: models that not every replica serves --- */

/* q's model was dropped (as_deployment_drop_model). */
static inline bool as_model_coverage_is_dropped(const struct as_deployment *d,
                                                const struct as_request *q)
{
    const struct as_lane *l = as_queue_lane(&d->queue, q->model);

    return l && l->dropped;
}
/* A new replica does not serve dropped models until as_replica_set_model. */
void as_model_coverage_init(struct as_replica *r);

/* --- recall.c: requests that wait at one replica are asked back for a free slot of another --- */

/* Recalls prefetched requests for which there are free slots at other replicas. */
void as_recall_start(struct as_deployment *d);
static inline void as_dispatch_balance(struct as_deployment *d, as_ns now)
{
    if (__builtin_expect(d->prefers, 0))
        as_preference_run(d, now);
    if (d->n_free && d->prefetched && d->n_replicas > 1)
        as_recall_start(d);
    if (__builtin_expect(d->hedger != NULL, 0))
        as_hedge_run(d, now);
}
/* Should q, which is at some replica, be recalled? That is: it is not under recall, not bound to
 * its replica, and another one could start it at once. */
bool as_recall_is_due(const struct as_deployment *d, const struct as_request *q);

/* A walk over the requests that wait at r, newest first. Only one at a time for each replica. */
struct as_recall_walk {
    const struct as_replica *r;
    const struct as_list *at;
    uint32_t left;  /* requests still to come … */
    uint32_t front; /* … of which these do not wait for a cap */
};
void as_recall_walk_init(struct as_recall_walk *it, const struct as_replica *r);
struct as_request *as_recall_walk_next(struct as_recall_walk *it); /* NULL: no more */

#endif
