/* core/dispatch/replica.h — the inside of a deployment, for the files of this folder only.
 *
 * deploy.c holds the requests' lives (submit, cancel, expire), replica.c the replicas' lives,
 * dispatch.c who gets what, recall.c what is asked back, absent.c who has which model, deploy_ok.c
 * the invariants. Two rules hold between public calls:
 *
 * 1. A replica with a free slot or prefetch room has nothing in the queue that it could take. So a
 *    new request may go straight to any replica with room without passing an older one.
 * 2. Free slots are at most as many as requests under recall, unless nothing that is prefetched
 *    elsewhere could be recalled for them.
 *
 * Whatever gives a replica room must therefore end with as_dispatch_pull for it and
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
    struct as_list sent; /* SENT and ABANDONED, in stream order: calls, each of one or several
                          * that stand together; the first `slots` of those that no cap holds
                          * up execute */
    uint32_t unanswered; /* length of sent */
    uint32_t slotless;   /* how many of these take no slot, being in a batch with others */
    uint32_t behind;     /* calls that wait behind their model's cap: the newest of each model */
    uint32_t slots, prefetch; /* granted */
    uint32_t most_slots;      /* ever granted */
    uint32_t limit;           /* of calls in front: slots and prefetch; 0 while it takes nothing */
    uint32_t width;           /* of these, in slots */
    uint32_t index;           /* in deploy->replicas */
    uint32_t free_at;         /* in deploy->free, or AS_NOWHERE */
    uint32_t recalled; /* requests of the RECALL under way that have not come back or ended */
    bool recalling;    /* a RECALL is under way */
    bool draining;
    bool condemned; /* its worker is to be ended; streams up to suspect_to are to blame */
    uint64_t suspect_to;
    bool paused; /* takes nothing while a request that it gave back finds a place */
    struct as_breaker breaker;
    struct as_median pace; /* of service times, in 1/1024 of what their model takes */
    struct as_quarantine quarantine;
    uint64_t used_at; /* deploy->last_use at the last dispatch */
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
    struct as_deadline_heap deadlines; /* of QUEUED and SENT */
    struct as_replica **replicas;      /* in the order they came */
    struct as_replica **free; /* those that have a free slot and may take requests; any order */
    uint32_t n_replicas, n_free, cap_replicas;
    uint32_t prefetched, ongoing, recalled; /* sums over the replicas */
    uint32_t most_slots;
    uint32_t cap_of[AS_DEPLOYMENT_MODELS_MAX]; /* 0: none */
    uint64_t last_order, last_use;
    struct as_list batch_pool; /* that are not in use */
    struct as_blame blame;
    struct as_list suspects;            /* QUEUED, and not in the queue */
    uint32_t n_suspects, n_quarantines; /* trials: replicas that are KEPT or ALONE */
    bool has_freed; /* one was let go whose suspect was refused: as_replica_requeue has it take what
                       waits */
    uint32_t
        turns_owed; /* others that go before a suspect has its turn: core/dispatch/quarantine.h */
    as_ns serving_since;     /* since when there is a replica that serves; AS_NEVER: none */
    struct as_list verdicts; /* oldest first */
    uint32_t n_verdicts, parked;
    uint64_t last_verdict;
    struct as_list to_release; /* RETAINED, and not needed any more: let go a few in each turn */
    uint32_t n_unverified;     /* of the suspects */
    const struct as_request *fingerprinting; /* whose fingerprint has been begun; NULL: nobody's */
    as_ns portion_turn;                      /* the turn in which … */
    uint64_t portion_left;                   /* … so many bytes may still be read */
    uint32_t retries_in_budget;              /* replays in the budget */
    struct as_queue_drain drain;
    struct as_median *medians; /* of service times, by model */
    uint32_t n_medians;
    uint32_t n_ejected; /* replicas whose breaker is not closed */
    uint32_t n_absent;  /* sum over the replicas; 0: all serve the same models */
    bool batched;       /* some model has batching: nothing is prefetched */
    bool down;
    struct as_stat stat;
};

/* Calls there that no cap holds up, which is what slots are counted in. */
static inline uint32_t as_replica_front_calls(const struct as_replica *r)
{
    return r->unanswered - r->slotless - r->behind;
}

uint32_t as_dispatch_count_waiting(const struct as_replica *r);
static inline uint32_t
as_replica_waiting(const struct as_replica *r) /* requests prefetched there */
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

/* Does it serve the request's model, and would no cap hold it up? */
static inline bool as_replica_can_execute(const struct as_replica *r, const struct as_request *q)
{
    const struct as_lane *l;

    if (!r->of_model)
        return true;
    l = as_queue_lane(&r->deployment->queue, q->model);
    return !l || as_lane_can_execute(l, r->of_model, r->most_slots);
}

/* Has r room for one more that no cap holds up, in a slot or behind them? */
static inline bool as_replica_has_room(const struct as_replica *r)
{
    uint32_t front = as_replica_front_calls(r);

    return front < r->limit &&
           (!r->behind || front < r->width || as_replica_waiting(r) < r->prefetch);
}

/* Does the cap of the model bound what r executes of it? In a deployment with batching nothing is
 * sent that it would hold up. */
static inline bool as_replica_is_capped(const struct as_replica *r, uint32_t model)
{
    const struct as_lane *l = as_queue_lane(&r->deployment->queue, model);

    return l && l->cap < r->most_slots && !r->deployment->batched;
}

/* Of the calls of the model in r: how many wait behind its cap. */
static inline uint32_t as_replica_behind_cap(const struct as_replica *r, uint32_t model)
{
    uint32_t calls = r->of_model[model].calls, cap;

    if (!as_replica_is_capped(r, model))
        return 0;
    cap = as_queue_lane(&r->deployment->queue, model)->cap;
    return calls - AS_MIN(calls, cap);
}

/* One more call of the model, before it is in `sent`. False: it waits behind the model's cap. */
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
/* One less, which is in `sent` no more. False: fewer wait behind the cap, and as many execute. */
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

/* q is asked back, or no longer. */
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

/* Puts r into deploy->free, or takes it out. */
void as_dispatch_set_free(struct as_replica *r, bool is_free);
/* After the load of r changed. */
static inline void as_dispatch_update_free(struct as_replica *r)
{
    bool is_free = as_replica_front_calls(r) < r->width;

    if (is_free != (r->free_at != AS_NOWHERE))
        as_dispatch_set_free(r, is_free);
}
/* What r may hold, in slots and in all, after anything else of it changed: grant, openness, recall,
 * service time. */
uint32_t as_dispatch_width(const struct as_replica *r);
uint32_t as_dispatch_limit(const struct as_replica *r);
void as_dispatch_update_limits(struct as_replica *r);
/* A replica that may have q at once, or in advance; NULL: none. */
struct as_replica *as_dispatch_find_free(struct as_deployment *d, const struct as_request *q);
struct as_replica *as_dispatch_find_prefetch(struct as_deployment *d, const struct as_request *q);
/* Takes q (QUEUED) out of the queue: it will not be sent. */
void as_dispatch_dequeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* After a lane with batching gave something away: what it has left may be due, or is held back. */
void as_dispatch_update_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends what is ripe in the lane, as far as there are free slots. */
void as_dispatch_send_lane(struct as_deployment *d, struct as_lane *l, as_ns now);
/* Sends whatever can go, wherever there are free slots, in the order of the queue. */
void as_dispatch_send_all(struct as_deployment *d, as_ns now);
/* Binds q (QUEUED, in no list) to r and sends it. */
void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now);
/* Unbinds q (SENT or ABANDONED) from its replica, which gains room: pull must follow. */
void as_dispatch_detach(struct as_request *q);
/* q (SENT, detached) goes to the best replica with room, else back into the queue. In a deployment
 * with batching it goes into the queue in any case, where others may join it: as_dispatch_send_all
 * must follow. */
void as_dispatch_requeue(struct as_deployment *d, struct as_request *q, as_ns now);
/* (elsewhere.c) Of q with `elsewhere` or `spare`, before it is accepted: 0, or the refusal. */
int as_fallback_check(struct as_deployment *d, const struct as_request *q, bool is_full);
/* May q, taken back from a replica or waiting, rather go than wait again? */
bool as_fallback_may_leave(const struct as_deployment *d, const struct as_request *q);
/* After a death: where nobody is left, what waits and can go elsewhere does. */
void as_fallback_sweep(struct as_deployment *d, as_ns now);
/* q (QUEUED, in no list) goes to the best replica with room, else into the queue; with batching as
 * above. */
void as_dispatch_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Gives r what it may take of the queue. */
void as_dispatch_fill(struct as_replica *r, as_ns now);
static inline void as_dispatch_pull(struct as_replica *r, as_ns now)
{
    if (r->deployment->queue.n || r->deployment->n_suspects)
        as_dispatch_fill(r, now);
}
/* Lanes for all models whose cap is below most_slots; and what waits behind which cap, after caps,
 * grants or batching changed. */
void as_dispatch_update_caps(struct as_deployment *d);
/* What r would take now. */
struct as_replica_capacity as_dispatch_capacity(const struct as_replica *r);

/* --- recall.c --- */

/* Recalls what waits elsewhere for slots that are free. */
void as_recall_start(struct as_deployment *d);
static inline void as_dispatch_balance(struct as_deployment *d)
{
    if (d->n_free && d->prefetched && d->n_replicas > 1)
        as_recall_start(d);
}
/* q (of some replica's `sent`) has not been asked back, and another replica could begin with it. */
bool as_recall_is_due(const struct as_deployment *d, const struct as_request *q);

/* A walk over what waits in r, the newest first. One at a time for each replica. */
struct as_recall_walk {
    const struct as_replica *r;
    const struct as_list *at;
    uint32_t left;  /* so many are still to come … */
    uint32_t front; /* … of which no cap holds up so many */
};
void as_recall_walk_init(struct as_recall_walk *it, const struct as_replica *r);
struct as_request *as_recall_walk_next(struct as_recall_walk *it); /* NULL: that was all */

/* --- absent.c: models that not every replica serves --- */

/* q's model is served by nobody, nor will be. */
static inline bool as_model_coverage_is_dropped(const struct as_deployment *d,
                                                const struct as_request *q)
{
    const struct as_lane *l = as_queue_lane(&d->queue, q->model);

    return l && l->dropped;
}
/* r is new: it does not serve what is gone, until it is said that it does. */
void as_model_coverage_init(struct as_replica *r);

/* --- eject.c: replicas that fail or are slow (core/protect/breaker.h, core/protect/outlier.h) ---
 */

void as_outlier_add_model(struct as_deployment *d, uint32_t model); /* there is such a model */
void as_outlier_forget_model(struct as_deployment *d, uint32_t model);
/* A call of the model took so long. */
void as_outlier_on_service(struct as_replica *r, uint32_t model, as_ns service, as_ns now);
void as_outlier_on_result(struct as_replica *r, bool failed, as_ns now);
/* An answer has come. */
static inline void as_outlier_on_answer(struct as_replica *r, const struct as_request *q, as_ns now)
{
    if (__builtin_expect(q->failed || r->breaker.streak || r->breaker.state, 0))
        as_outlier_on_result(r, q->failed, now);
}
/* q's deadline passed while r had it: a failure, if it had time enough for its peers. */
void as_outlier_on_deadline(struct as_replica *r, const struct as_request *q, as_ns now);
/* Those whose time is over are probed. */
void as_outlier_expire(struct as_deployment *d, as_ns now);
as_ns as_outlier_next_due(const struct as_deployment *d); /* when that is; AS_NEVER */
/* Replicas came, went or drained: when all that are left are out, they are in again. */
void as_outlier_readmit_all(struct as_deployment *d, as_ns now);

/* --- fingerprint.c: fingerprints, a portion in each turn --- */

/* Takes that of q, or a part of it. True: *ret_p is whole. False: as_deployment_work goes on. */
bool as_fingerprint_compute(struct as_deployment *d, const struct as_request *q,
                            struct as_fingerprint *ret_p, as_ns now);
/* q is not to be looked at any more. */
static inline void as_fingerprint_cancel(struct as_deployment *d, const struct as_request *q)
{
    if (d->fingerprinting == q)
        d->fingerprinting = NULL;
}
/* May so many bytes more be read, or given back, in this turn? Some always may where none were. */
bool as_fingerprint_use_budget(struct as_deployment *d, uint64_t bytes, as_ns now);

/* --- suspect.c: who is one (core/protect/blame.h) --- */

/* A request that was executing in a worker that ended. */
struct as_evidence {
    struct as_request *q; /* PARKED or RETAINED; NULL: it is printed and gone */
    struct as_fingerprint fingerprint;
    as_ns ran; /* it had been there for so long */
};

/* Is q like one that ended workers? 0; AS_EPOISON: it is refused. q->blame says whether it is a
 * suspect. What is too large to be compared in this turn is one until it has been (q->unverified).
 */
int as_suspect_check(struct as_deployment *d, struct as_request *q, as_ns now);
/* Compares those that are unproved, as far as this turn allows. True: all. */
bool as_suspect_verify(struct as_deployment *d, as_ns now);
/* q, in no list, becomes a suspect though nobody has blamed it; or not, where the table is full. */
void as_suspect_add(struct as_deployment *d, struct as_request *q, const struct as_fingerprint *p,
                    as_ns now);
/* q, in no list, is no suspect any more: it ends, or is acquitted. */
void as_suspect_remove(struct as_deployment *d, struct as_request *q);
/* These were executing in a worker that ended by its own making, or was condemned: those that are
 * PARKED are suspects, and what waits is looked at again. in_quarantine_alone: the only one of them
 * was alone there as a suspect. as_replica_requeue must follow. */
void as_suspect_blame(struct as_deployment *d, struct as_evidence *evidence, uint32_t n,
                      bool in_quarantine_alone, as_ns now);

/* --- quarantine.c: each suspect runs alone (core/dispatch/quarantine.h) --- */

/* Could one more, of this model, be tried at once, in a replica that is idle? */
bool as_quarantine_has_room(const struct as_deployment *d, uint32_t model);
/* q (QUEUED, in no list, a suspect) waits for a replica of its own. as_quarantine_schedule must
 * follow. */
void as_quarantine_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* q (QUEUED, a suspect) leaves the line, and is no suspect. The replica that was kept for it has
 * room, or NULL. */
struct as_replica *as_quarantine_dequeue(struct as_deployment *d, struct as_request *q);
/* The same, and that replica takes others. */
void as_quarantine_remove(struct as_deployment *d, struct as_request *q, as_ns now);
/* Keeps replicas free for suspects, as far as it is their turn, and sends those whose replica is
 * idle. Rule 1 holds. */
void as_quarantine_schedule(struct as_deployment *d, as_ns now);
/* Replicas have been let go, that is `has_freed`: they take what waits. */
void as_quarantine_pull_freed(struct as_deployment *d, as_ns now);
/* Somebody was sent to r, while others are owed or a suspect is there. */
void as_quarantine_on_sent(struct as_replica *r, const struct as_request *q);
/* q, on quarantine at r, has been detached. well: it ended well, and so do its like. */
void as_quarantine_done(struct as_replica *r, struct as_request *q, bool well, as_ns now);
/* r is not kept free any more: it drains, is taken out, has no slots, or not the model. */
void as_quarantine_release(struct as_replica *r);
/* r goes. If it had nobody but a suspect on quarantine, this death is a proof: gives what that is
 * known as, whose like is not tried until as_quarantine_resolve. Else NULL. */
struct as_blame_entry *as_quarantine_abort(struct as_replica *r);
/* What was to be learnt from that death is known, or will not be. NULL is fine. */
void as_quarantine_resolve(struct as_deployment *d, struct as_blame_entry *e);
/* After a replica came, went or drained: whether one serves at all. */
void as_quarantine_update_serving(struct as_deployment *d, as_ns now);
/* What has lasted too long ends. */
void as_quarantine_expire(struct as_deployment *d, as_ns now);
as_ns as_quarantine_next_due(const struct as_deployment *d); /* when that is; AS_NEVER */
bool as_quarantine_ok(const struct as_deployment *d);

/* --- grave.c: what executed in a worker that died, until it is known who is to blame ---
 *
 *             told: a crash,
 *            or time is over              all are printed; nobody has told
 *   WAITS ──────────────────► PRINTS ─────────────────────────────────────► PRINTED
 *     │ told: no crash          │ told: no crash, or all are printed           │ told, or too many
 *     └─────────────────────────┴───────────────► gone ◄───────────────────────┘
 *
 * A worker whose death is known to be its own making, or that was condemned, begins with PRINTS.
 * Bodies are read only there: a kill from outside, of which one is told in time, costs nothing. */

enum as_pending_verdict_state {
    AS_PENDING_VERDICT_WAITING,
    AS_PENDING_VERDICT_FINGERPRINTING,
    AS_PENDING_VERDICT_FINGERPRINTED
};

struct as_pending_verdict {
    struct as_list node;
    uint64_t number;
    enum as_pending_verdict_state state;
    enum as_loss loss; /* PRINTS: what the others are told then; UNKNOWN: time is over */
    as_ns until;       /* WAITS: no longer; AS_NEVER: nothing has to be let go */
    struct as_list parked, retained;
    struct as_blame_entry
        *in_quarantine;       /* whose like waits for what is found here; NULL: nobody's */
    bool in_quarantine_alone; /* the only evidence was alone there */
    uint32_t n_evidence, n_fingerprinted;
    struct as_evidence evidence[];
};

/* One more, with what r executed up to stream `suspect_to` as evidence. tried: as
 * as_quarantine_abort.
 */
struct as_pending_verdict *as_pending_verdict_new(struct as_replica *r, uint64_t suspect_to,
                                                  struct as_blame_entry *tried, as_ns now);
/* Is q evidence there? NULL: no. */
bool as_pending_verdict_has_evidence(struct as_pending_verdict *g, const struct as_request *q);
/* q (SENT, detached) waits there. */
void as_pending_verdict_park(struct as_deployment *d, struct as_pending_verdict *g,
                             struct as_request *q, as_ns now);
/* q (SENT, ABANDONED or PARKED, detached, in no list) has ended; as evidence it stays, else it
 * goes.
 */
void as_pending_verdict_retain(struct as_deployment *d, struct as_pending_verdict *g,
                               struct as_request *q);
/* All that r held is there: for how long, or what of it can go on now. Gives its number, 0: it is
 * gone. What goes on is put into `back`. */
uint64_t as_pending_verdict_start(struct as_deployment *d, struct as_pending_verdict *g,
                                  enum as_loss loss, struct as_list back[AS_PRIORITIES], as_ns now);
/* q (PARKED) leaves, and has been answered if anybody waits. */
void as_pending_verdict_remove(struct as_deployment *d, struct as_request *q);
/* Takes fingerprints, and lets go what is not needed any more. True: nothing is left to do. */
bool as_pending_verdict_work(struct as_deployment *d, as_ns now);
void as_pending_verdict_expire(struct as_deployment *d, as_ns now);
as_ns as_pending_verdict_next_due(const struct as_deployment *d);
/* Is a request of it there, whose fingerprint is not taken or which waits? */
bool as_pending_verdict_holds_model(const struct as_deployment *d, uint32_t model);
/* None is: nobody of it is to blame. */
void as_pending_verdict_forget_model(struct as_deployment *d, uint32_t model);
void as_pending_verdict_fail_all(struct as_deployment *d,
                                 int err); /* what is parked ends with err */
bool as_pending_verdict_ok(const struct as_deployment *d);

/* --- replica.c --- */

/* q, SENT or PARKED, was lost. True: by this rule, by its attempts and by the budget it may run
 * again, and as_replica_collect_retry must follow. */
bool as_replica_may_retry(struct as_deployment *d, struct as_request *q, enum as_retry rule);
/* Puts q, in no list, with the others that are to go on; by order, since the oldest shall find its
 * place first. */
void as_replica_collect_retry(struct as_list back[AS_PRIORITIES], struct as_request *q);
/* They go on. */
void as_replica_requeue(struct as_deployment *d, struct as_list back[AS_PRIORITIES], as_ns now);

/* --- deploy.c --- */

/* The worker is told that nobody waits for q (SENT), which keeps its slot until it answers. */
void as_deployment_abandon(struct as_deployment *d, struct as_request *q, int reason);
/* q ends: what it was counted in. */
static inline void as_deployment_uncount(struct as_deployment *d, struct as_request *q)
{
    if (__builtin_expect(q->blame != NULL, 0))
        as_suspect_remove(d, q);
    if (__builtin_expect(q->in_budget, 0)) {
        q->in_budget = false;
        d->retries_in_budget--;
    }
}

/* q is held no longer: state DONE, release. */
void as_deployment_release(struct as_deployment *d, struct as_request *q);
/* Tells the client err: counters, op. q (QUEUED or SENT) must end or be abandoned next. */
void as_deployment_answer(struct as_deployment *d, struct as_request *q, int err);
/* Both: q (QUEUED or SENT, in no list) ends here with err. */
void as_deployment_fail(struct as_deployment *d, struct as_request *q, int err);

#endif
