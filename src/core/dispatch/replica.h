/* core/dispatch/replica.h — the internals of a deployment, for the files of this folder and their
 * tests only.
 *
 * deployment.c has the life of a request (submit, cancel, expire), replica.c the life of a replica,
 * dispatch.c the choice of the next request for a replica, recall.c the requests that are asked
 * back, model_coverage.c which replica serves which model, deployment_check.c the invariants. Two
 * rules hold between public calls:
 *
 * 1. If a replica has a free slot or room to prefetch, then no request in the queue could go there.
 * So a new request may be sent to any replica with room without overtaking an older one.
 * 2. There are at most as many free slots as requests under recall, unless no prefetched request
 * could be recalled for them.
 *
 * Whatever gives a replica room must therefore end with as_dispatch_pull for that replica and with
 * as_dispatch_balance.
 */
#ifndef AS_CORE_REPLICA_H
#define AS_CORE_REPLICA_H

#include "core/dispatch/deployment.h"
#include "core/queue/queue_drain.h"
#include "core/queue/deadline_heap.h"
#include "core/queue/queue.h"
#include "core/dispatch/router.h"

#define AS_NOWHERE UINT32_MAX

struct as_replica {
    struct as_deployment *deployment;
    char *name;
    void *link;
    struct as_list
        sent; /* SENT and ABANDONED requests in stream order. A call is one request, or several of a
                 batch in a row. The first `slots` calls that no cap delays execute. */
    uint32_t unanswered; /* length of `sent` */
    uint32_t slotless;   /* how many of these take no slot: all but the first of each batch */
    uint32_t behind;     /* calls that wait for their model's cap: the newest ones of each model */
    uint32_t slots, prefetch; /* as granted by the worker */
    uint32_t most_slots;      /* the most slots ever granted */
    uint32_t limit;   /* the most front calls that may be sent: slots and prefetch; 0 while it takes
                         nothing */
    uint32_t width;   /* how many of these may be in slots */
    uint32_t index;   /* in as_deployment.replicas */
    uint32_t free_at; /* in as_deployment.free, or AS_NOWHERE */
    uint32_t recalled; /* requests of the current RECALL that have not come back or ended */
    bool recalling;    /* a RECALL is not answered yet */
    bool draining;
    bool condemned; /* as_replica_set_unhealthy was called; streams up to suspect_to are suspects */
    uint64_t suspect_to;
    bool paused; /* takes nothing while a request that it gave back is placed elsewhere */
    struct as_breaker breaker;
    struct as_median pace; /* of its service times relative to their model's median, in 1/1024 */
    struct as_quarantine quarantine;
    uint64_t used_at; /* as_deployment.last_use at its last dispatch */
    uint64_t last_stream;
    as_ns service; /* moving average, weight 1/8; 0 unknown */
    struct as_replica_model
        *of_model;     /* AS_DEPLOYMENT_MODELS_MAX; NULL while the deployment has no lanes */
    uint32_t n_absent; /* models that its worker does not serve */
};

struct as_deployment {
    struct as_deployment_conf conf;
    struct as_deployment_ops ops;
    void *ctx;
    char *name;
    const struct as_router_ops *router;
    struct as_rand rand;
    struct as_queue queue;
    struct as_deadline_heap deadlines; /* QUEUED, SENT and PARKED requests with a deadline */
    struct as_replica **replicas;      /* in the order in which they were added */
    struct as_replica **free; /* those with a free slot that may take requests; in any order */
    uint32_t n_replicas, n_free, cap_replicas;
    uint32_t prefetched, ongoing, recalled; /* sums over the replicas */
    uint32_t most_slots;
    uint32_t cap_of[AS_DEPLOYMENT_MODELS_MAX]; /* 0: none */
    uint64_t last_order, last_use;
    struct as_list batch_pool; /* struct as_batch that are not in use */
    struct as_blame blame;
    struct as_list suspects; /* QUEUED requests that wait for quarantine; not in `queue` */
    uint32_t n_suspects, n_quarantines; /* n_quarantines: replicas that are RESERVED or ALONE */
    bool has_freed; /* a reserved replica lost its suspect: as_replica_requeue lets it take waiting
                       requests */
    uint32_t turns_owed; /* requests that go before the next suspect: core/dispatch/quarantine.h */
    as_ns serving_since; /* since when some replica is ready; AS_NEVER: none is */
    struct as_list verdicts; /* pending ones, oldest first */
    uint32_t n_verdicts, parked;
    uint64_t last_verdict;
    struct as_list
        to_release; /* RETAINED and not needed any more; released in portions, one for each turn */
    uint32_t n_unverified; /* suspects with `unverified` */
    const struct as_request
        *fingerprinting;        /* the request whose fingerprint is partly computed; NULL: none */
    as_ns portion_turn;         /* in the turn of this time … */
    uint64_t portion_left;      /* … this many bytes may still be read */
    uint32_t retries_in_budget; /* retries that count against the retry budget */
    struct as_queue_drain drain;
    struct as_median *medians; /* of service times, by model */
    uint32_t n_medians;
    uint32_t n_ejected; /* replicas whose breaker is not closed */
    uint32_t n_absent;  /* sum over the replicas; 0: all of them serve all models */
    bool batched;       /* some model has batching, so nothing is prefetched */
    bool down;
    struct as_stat stat;
};

/* Calls at r that do not wait for their model's cap. These are the ones that take slots. */
static inline uint32_t as_replica_front_calls(const struct as_replica *r)
{
    return r->unanswered - r->slotless - r->behind;
}

uint32_t as_dispatch_count_waiting(const struct as_replica *r);
static inline uint32_t as_replica_waiting(const struct as_replica *r) /* requests that wait there */
{
    uint32_t front = as_replica_front_calls(r);

    if (front <= r->slots)
        return r->behind;
    return r->slotless ? as_dispatch_count_waiting(r) : r->behind + front - r->slots;
}

static inline bool as_replica_is_open(const struct as_replica *r)
{
    return !r->draining && !r->paused && r->breaker.state != AS_BREAKER_OPEN &&
           (r->quarantine.state == AS_QUARANTINE_NONE ||
            r->quarantine.state == AS_QUARANTINE_SHARED);
}

/* Does its worker serve the model? */
static inline bool as_replica_serves(const struct as_replica *r, uint32_t model)
{
    return !r->of_model || !r->of_model[model].absent;
}

/* Does it serve the request's model, and would the model's cap not delay the request? */
static inline bool as_replica_can_execute(const struct as_replica *r, const struct as_request *q)
{
    const struct as_lane *l;

    if (!r->of_model)
        return true;
    l = as_queue_lane(&r->deployment->queue, q->model);
    return !l || as_lane_can_execute(l, r->of_model, r->most_slots);
}

/* Has r room for one more request that no cap delays, in a slot or prefetched? */
static inline bool as_replica_has_room(const struct as_replica *r)
{
    uint32_t front = as_replica_front_calls(r);

    return front < r->limit &&
           (!r->behind || front < r->width || as_replica_waiting(r) < r->prefetch);
}

/* May calls of the model wait at r for the model's cap? Not in a deployment with batching, where
 * nothing is sent that the cap would delay. */
static inline bool as_replica_is_capped(const struct as_replica *r, uint32_t model)
{
    const struct as_lane *l = as_queue_lane(&r->deployment->queue, model);

    return l && l->cap < r->most_slots && !r->deployment->batched;
}

/* How many calls of the model wait at r for the model's cap. */
static inline uint32_t as_replica_behind_cap(const struct as_replica *r, uint32_t model)
{
    uint32_t calls = r->of_model[model].calls, cap;

    if (!as_replica_is_capped(r, model))
        return 0;
    cap = as_queue_lane(&r->deployment->queue, model)->cap;
    return calls - AS_MIN(calls, cap);
}

/* Counts one more call of the model, before it is in `sent`. False: it waits for the model's cap.
 */
static inline bool as_replica_add_call(struct as_replica *r, uint32_t model)
{
    if (!r->of_model)
        return true;
    r->of_model[model].calls++;
    if (!as_replica_is_capped(r, model) ||
        r->of_model[model].calls <= as_queue_lane(&r->deployment->queue, model)->cap)
        return true;
    r->behind++;
    return false;
}
/* Counts one call less, after it has left `sent`. False: one call less waits for the cap, and as
 * many as before execute. */
static inline bool as_replica_remove_call(struct as_replica *r, uint32_t model)
{
    if (!r->of_model)
        return true;
    r->of_model[model].calls--;
    if (!as_replica_is_capped(r, model) ||
        r->of_model[model].calls < as_queue_lane(&r->deployment->queue, model)->cap)
        return true;
    r->behind--;
    return false;
}

/* Counts q as being recalled, or not any more. */
static inline void as_replica_mark_recalled(struct as_replica *r, struct as_request *q)
{
    q->recalled = true;
    r->recalled++;
    r->deployment->recalled++;
    if (r->of_model && as_queue_lane(&r->deployment->queue, q->model))
        r->deployment->queue.lanes[q->model]->recalled++;
}
static inline void as_replica_clear_recalled(struct as_replica *r, struct as_request *q)
{
    q->recalled = false;
    r->recalled--;
    r->deployment->recalled--;
    if (r->of_model && as_queue_lane(&r->deployment->queue, q->model))
        r->deployment->queue.lanes[q->model]->recalled--;
}

/* --- dispatch.c --- */

/* Adds r to as_deployment.free, or removes it. */
void as_dispatch_set_free(struct as_replica *r, bool is_free);
/* To be called after the load of r changed. */
static inline void as_dispatch_update_free(struct as_replica *r)
{
    bool is_free = as_replica_front_calls(r) < r->width;

    if (is_free != (r->free_at != AS_NOWHERE))
        as_dispatch_set_free(r, is_free);
}
/* How many front calls r may have in slots (width) and in all (limit). as_dispatch_update_limits
 * must be called after a change of its grant, state, recall or service time. */
uint32_t as_dispatch_width(const struct as_replica *r);
uint32_t as_dispatch_limit(const struct as_replica *r);
void as_dispatch_update_limits(struct as_replica *r);
/* A replica that can execute q at once, or can prefetch it; NULL: none. */
struct as_replica *as_dispatch_find_free(struct as_deployment *d, const struct as_request *q);
struct as_replica *as_dispatch_find_prefetch(struct as_deployment *d, const struct as_request *q);
/* Removes q (QUEUED) from the queue or the suspects; it will not be sent. */
void as_dispatch_dequeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* To be called after requests were taken out of a lane with batching: checks whether the rest is
 * due, or sets the timer for it. */
void as_dispatch_update_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends batches of a lane while it is due and there are free slots. */
void as_dispatch_send_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends queued requests to all replicas that have free slots, in the order of the queue. */
void as_dispatch_send_all(struct as_deployment *d, as_ns now);
/* Sends q (QUEUED, in no list) to r. */
void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now);
/* Removes q (SENT or ABANDONED) from its replica, which then has room: as_dispatch_pull must
 * follow. */
void as_dispatch_detach(struct as_request *q);
/* Sends q (SENT or PARKED, detached) to the best replica with room, else puts it back into the
 * queue. In a deployment with batching it always goes into the queue, where others may join it, and
 * as_dispatch_send_all must follow. q may also end here. */
void as_dispatch_requeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* (fallback.c) Checks q with has_fallback or is_mirror before it is accepted: 0, or the error to
 * refuse it with. */
int as_fallback_check(struct as_deployment *d, const struct as_request *q, bool is_full);
/* Should q, which waits or was given back, leave the deployment instead of waiting again? */
bool as_fallback_may_leave(const struct as_deployment *d, const struct as_request *q);
/* After a death: if no replica serves the model any more, ends the waiting requests that have a
 * fallback. */
void as_fallback_sweep(struct as_deployment *d, as_ns now);
/* Sends q (QUEUED, in no list) to the best replica with room, else puts it into the queue; with
 * batching as above. */
void as_dispatch_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Sends r what it may take from the queue. */
void as_dispatch_fill(struct as_replica *r, as_ns now);
static inline void as_dispatch_pull(struct as_replica *r, as_ns now)
{
    if (r->deployment->queue.n || r->deployment->n_suspects)
        as_dispatch_fill(r, now);
}
/* To be called after caps, grants or batching changed: adds lanes for the models whose cap is below
 * most_slots, and counts again which calls wait for a cap. */
void as_dispatch_update_caps(struct as_deployment *d);
/* What r could accept now. */
struct as_replica_capacity as_dispatch_capacity(const struct as_replica *r);

/* --- recall.c --- */

/* Recalls prefetched requests for which there are free slots at other replicas. */
void as_recall_start(struct as_deployment *d);
static inline void as_dispatch_balance(struct as_deployment *d)
{
    if (d->n_free && d->prefetched && d->n_replicas > 1)
        as_recall_start(d);
}
/* Should q, which is at some replica, be recalled? That is: it is not under recall, and another
 * replica could start it at once. */
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

/* --- outlier_ejection.c: replicas that fail or are slow (core/protect/breaker.h, outlier.h) --- */

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

/* --- fingerprint.c: fingerprints of bodies, computed in portions, one for each turn --- */

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

/* --- suspect.c: which requests are suspects (core/protect/blame.h) --- */

/* A request that was executing in a worker that died. */
struct as_evidence {
    struct as_request
        *q; /* PARKED or RETAINED; NULL: its fingerprint is complete, and it has left */
    struct as_fingerprint fingerprint;
    as_ns ran; /* for how long it had been at that worker */
};

/* Compares q with the requests that may have ended workers. AS_EPOISON: it is to be refused; else
 * 0, and q->blame is set if it is a suspect. If its body is too large to be compared in this turn,
 * it is a suspect until that is done (q->unverified). */
int as_suspect_check(struct as_deployment *d, struct as_request *q, as_ns now);
/* Compares the unverified suspects, as far as this turn allows. True: none is left. */
bool as_suspect_verify(struct as_deployment *d, as_ns now);
/* Makes q (in no list) a suspect without a death that counts; no effect if the table is full. */
void as_suspect_add(struct as_deployment *d, struct as_request *q, const struct as_fingerprint *p,
                    as_ns now);
/* q (in no list) is no suspect any more: it ends, or a request like it ended well. */
void as_suspect_remove(struct as_deployment *d, struct as_request *q);
/* Blames the requests that were executing in a worker that crashed or was unhealthy. Those that are
 * PARKED become suspects, and all waiting requests are compared again. alone: the only evidence ran
 * alone there, as a suspect. as_replica_requeue must follow. */
void as_suspect_blame(struct as_deployment *d, struct as_evidence *evidence, uint32_t n, bool alone,
                      as_ns now);

/* --- quarantine.c: each suspect runs alone (core/dispatch/quarantine.h) --- */

/* Could one more suspect of this model run alone at once, in a replica that is idle? */
bool as_quarantine_has_room(const struct as_deployment *d, uint32_t model);
/* Makes q (QUEUED, in no list, a suspect) wait for a replica of its own. as_quarantine_schedule
 * must follow. */
void as_quarantine_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Removes q (QUEUED, a suspect) from the waiting suspects; it is no suspect any more. Returns the
 * replica that was reserved for it and now has room, or NULL. */
struct as_replica *as_quarantine_dequeue(struct as_deployment *d, struct as_request *q);
/* The same, and sends other requests to that replica. */
void as_quarantine_remove(struct as_deployment *d, struct as_request *q, as_ns now);
/* Reserves replicas for suspects as far as it is their turn, and sends the suspects whose replica
 * is idle. Keeps rule 1. */
void as_quarantine_schedule(struct as_deployment *d, as_ns now);
/* Lets replicas that lost their reservation (has_freed) take waiting requests. */
void as_quarantine_pull_freed(struct as_deployment *d, as_ns now);
/* q was sent to r while turns are owed or r is in quarantine. */
void as_quarantine_on_sent(struct as_replica *r, const struct as_request *q);
/* The suspect q has been detached from r. well: it ended well, so requests like it are no suspects
 * any more. */
void as_quarantine_done(struct as_replica *r, struct as_request *q, bool well, as_ns now);
/* Ends the reservation of r: it drains, is ejected, has no slots, or does not serve the model. */
void as_quarantine_release(struct as_replica *r);
/* r is removed. If only a suspect ran there, this death may prove something: returns the entry of
 * that suspect, and no request like it runs until as_quarantine_resolve. Else NULL. */
struct as_blame_entry *as_quarantine_abort(struct as_replica *r);
/* The cause of that death is known, or will not be. e may be NULL. */
void as_quarantine_resolve(struct as_deployment *d, struct as_blame_entry *e);
/* After a replica was added, removed or drained: updates serving_since. */
void as_quarantine_update_serving(struct as_deployment *d, as_ns now);
/* Ends whatever has lasted too long. */
void as_quarantine_expire(struct as_deployment *d, as_ns now);
as_ns as_quarantine_next_due(const struct as_deployment *d); /* AS_NEVER: nothing */
bool as_quarantine_ok(const struct as_deployment *d);

/* --- pending_verdict.c: the requests of a worker that died, until the cause of the death is known
 * ---
 *
 *                 crash reported,
 *                or time is over                  all done, cause still unknown
 *   WAITING ────────────────────► FINGERPRINTING ──────────────────────────────► FINGERPRINTED
 *     │ no crash reported           │ no crash reported, or all done and a crash      │ cause
 * reported, └─────────────────────────────┴──────────────────► freed ◄─────────────────────┘ or too
 * many
 *
 * A worker that is known to have crashed or to be unhealthy starts with FINGERPRINTING. Bodies are
 * read only in that state, so a kill from outside that is reported in time costs nothing. */

enum as_pending_verdict_state {
    AS_PENDING_VERDICT_WAITING,
    AS_PENDING_VERDICT_FINGERPRINTING,
    AS_PENDING_VERDICT_FINGERPRINTED
};

struct as_pending_verdict {
    struct as_list node;
    uint64_t number;
    enum as_pending_verdict_state state;
    enum as_loss
        loss; /* FINGERPRINTING: the cause by which parked requests go on; UNKNOWN: time is over */
    as_ns until; /* WAITING: when it ends; else AS_NEVER */
    struct as_list parked, retained;
    struct as_blame_entry *in_quarantine; /* requests like this wait for the result; NULL: none */
    bool alone;                           /* the only evidence ran alone in that worker */
    uint32_t n_evidence, n_fingerprinted;
    struct as_evidence evidence[];
};

/* Allocates a pending verdict for the death of r. The requests that r executed, up to stream
 * `suspect_to`, are its evidence. tried: as returned by as_quarantine_abort. */
struct as_pending_verdict *as_pending_verdict_new(struct as_replica *r, uint64_t suspect_to,
                                                  struct as_blame_entry *tried, as_ns now);
/* Is q evidence in pv? pv may be NULL. */
bool as_pending_verdict_has_evidence(struct as_pending_verdict *pv, const struct as_request *q);
/* q (SENT, detached) waits for the verdict: it becomes PARKED. */
void as_pending_verdict_park(struct as_deployment *d, struct as_pending_verdict *pv,
                             struct as_request *q, as_ns now);
/* q (SENT, ABANDONED or PARKED, detached, in no list) has ended. If it is evidence it becomes
 * RETAINED, else it is released. */
void as_pending_verdict_retain(struct as_deployment *d, struct as_pending_verdict *pv,
                               struct as_request *q);
/* To be called when pv has all requests of r: sets its deadline, or puts into `back` the requests
 * that can go on now. Returns the number of pv, or 0 if pv was freed. */
uint64_t as_pending_verdict_start(struct as_deployment *d, struct as_pending_verdict *pv,
                                  enum as_loss loss, struct as_list back[AS_PRIORITIES], as_ns now);
/* q (PARKED) ends before the verdict. If its client waits, it has been answered. */
void as_pending_verdict_remove(struct as_deployment *d, struct as_request *q);
/* Computes fingerprints and releases requests that are not needed any more, as far as this turn
 * allows. True: nothing is left to do. */
bool as_pending_verdict_work(struct as_deployment *d, as_ns now);
void as_pending_verdict_expire(struct as_deployment *d, as_ns now);
as_ns as_pending_verdict_next_due(const struct as_deployment *d);
/* Does some pending verdict need a request of this model? */
bool as_pending_verdict_holds_model(const struct as_deployment *d, uint32_t model);
/* Drops the evidence of a model of which none is needed. */
void as_pending_verdict_forget_model(struct as_deployment *d, uint32_t model);
void as_pending_verdict_fail_all(struct as_deployment *d,
                                 int err); /* answers all parked requests with err */
bool as_pending_verdict_ok(const struct as_deployment *d);

/* --- replica.c --- */

/* q (SENT or PARKED) was lost. True: the rule, its attempts and the budget allow a retry, and
 * as_replica_collect_retry must follow. */
bool as_replica_may_retry(struct as_deployment *d, struct as_request *q, enum as_retry rule);
/* Adds q (in no list) to the requests that are to be retried, by arrival, so that the oldest is
 * placed first. */
void as_replica_collect_retry(struct as_list back[AS_PRIORITIES], struct as_request *q);
/* Sends or queues the collected requests again. */
void as_replica_requeue(struct as_deployment *d, struct as_list back[AS_PRIORITIES], as_ns now);

/* --- deployment.c --- */

/* Cancels q (SENT) at its worker. q becomes ABANDONED and keeps its slot until the worker answers.
 */
void as_deployment_abandon(struct as_deployment *d, struct as_request *q, int reason);
/* q ends: removes it from the blame table and the retry budget. */
static inline void as_deployment_uncount(struct as_deployment *d, struct as_request *q)
{
    if (__builtin_expect(q->blame != NULL, 0))
        as_suspect_remove(d, q);
    if (__builtin_expect(q->in_budget, 0)) {
        q->in_budget = false;
        d->retries_in_budget--;
    }
}

/* Ends q: state DONE, ops.release. */
void as_deployment_release(struct as_deployment *d, struct as_request *q);
/* Answers the client of q with err and counts that. q (QUEUED, SENT or PARKED) must end or be
 * abandoned next. */
void as_deployment_answer(struct as_deployment *d, struct as_request *q, int err);
/* Answers q (QUEUED or SENT, in no list) with err and ends it. */
void as_deployment_fail(struct as_deployment *d, struct as_request *q, int err);

#endif
