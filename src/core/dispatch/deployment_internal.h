/* core/dispatch/deployment_internal.h — the internals of a deployment, for the files of this folder
 * and their tests only.
 *
 * deployment.c has the life of a request (submit, cancel, expire), replica.c the life of a replica,
 * deployment_check.c the invariants; the other files of this folder have headers of their own. Two
 * rules hold between public calls:
 *
 * 1. If a replica has a free slot or room to prefetch, then no request in the queue could go there.
 *    So a new request may be sent to any replica with room without overtaking an older one.
 * 2. There are at most as many free slots as requests under recall, unless no prefetched request
 *    could be recalled for them.
 *
 * 3. No request on a cycle (as_request.on_cycle) waits while some replica that serves its model is
 * in rotation, or drains and has requests to finish.
 *
 * Whatever gives a replica room must therefore end with as_dispatch_pull for that replica and with
 * as_dispatch_balance.
 */
#ifndef AS_CORE_DEPLOYMENT_INTERNAL_H
#define AS_CORE_DEPLOYMENT_INTERNAL_H

#include "core/dispatch/choice/preference.h"
#include "core/dispatch/choice/router.h"
#include "core/dispatch/deployment.h"
#include "core/dispatch/faults/suspect.h"
#include "core/protect/gradient.h"
#include "core/protect/slow_start.h"
#include "core/queue/due_heap.h"
#include "core/queue/queue.h"
#include "core/queue/queue_drain.h"
#include "core/route/ring.h"
#include "core/route/sticky.h"

#define AS_NOWHERE UINT32_MAX

struct as_replica {
    struct as_deployment *deployment;
    void *link;
    /* SENT and ABANDONED requests in stream order. A call is one request, or several of a
     * batch in a row. The first `slots` calls that no cap delays execute. */
    struct as_list sent;
    uint32_t unanswered; /* length of `sent` */
    uint32_t slotless;   /* how many of these take no slot: all but the first of each batch */
    uint32_t beyond;     /* … and these execute beyond the slots */
    uint32_t reserved;   /* … and these are reservations that are not used yet */
    uint32_t behind;     /* calls that wait for their model's cap: the newest ones of each model */
    uint32_t slots, prefetch; /* as granted by the worker */
    uint32_t most_slots;      /* the most slots ever granted */
    /* the most front calls that may be sent: slots and prefetch; 0 while it takes nothing */
    uint32_t limit;
    uint32_t width; /* how many of these may be in slots */
    uint32_t cap;   /* of the slots; UINT32_MAX: all may be used (core/dispatch/width.h) */
    bool warms;     /* slow start: it has warm_width slots, and more at next_step */
    uint32_t warm_width;
    as_ns ready_since, next_step; /* AS_NEVER: not yet; none */
    struct as_gradient gradient;
    uint32_t index;     /* in as_deployment.replicas */
    uint32_t free_at;   /* in as_deployment.free, or AS_NOWHERE */
    uint32_t free_load; /* … and of which list in as_deployment.by_load */
    struct as_list by_load;
    struct as_list pull; /* in as_deployment.to_pull */
    uint32_t recalled;   /* requests of the current RECALL that have not come back or ended */
    bool recalling;      /* a RECALL is not answered yet */
    bool draining;
    bool unhealthy; /* as_replica_set_unhealthy was called; streams up to suspect_to are suspects */
    uint64_t suspect_to;
    bool paused; /* takes nothing while a request that it gave back is placed elsewhere */
    struct as_breaker breaker;
    struct as_median pace; /* of its service times relative to their model's median, in 1/1024 */
    as_ns peers_pace;      /* the median of its peers' paces, at the last look; 0: unknown */
    struct as_slow_share slow; /* of its requests */
    struct as_quarantine quarantine;
    uint64_t used_at; /* as_deployment.last_use at its last dispatch */
    uint64_t last_stream;
    as_ns service; /* moving average, weight 1/8; 0 unknown */
    /* AS_DEPLOYMENT_MODELS_MAX; NULL while the deployment has no lanes */
    struct as_replica_model *of_model;
    uint32_t n_absent; /* models that its worker does not serve */
    /* routing */
    uint64_t id;
    struct as_place place;
    struct as_group own;     /* requests that wait for it alone */
    struct as_holding *held; /* the models that it holds, by key */
    uint32_t n_held;
    struct as_sticky_member sessions;
};

struct as_deployment {
    struct as_deployment_conf conf;
    struct as_deployment_ops ops;
    void *ctx;
    char *name;
    const struct as_router_ops *router;
    struct as_ring ring;     /* consistent_hash */
    struct as_sticky sticky; /* session */
    uint32_t next_turn;      /* round_robin: index of the next replica */
    /* Requests may prefer replicas: because of the policy, of models, or of a router of the user's
     * own. Then nothing is prefetched, since what waits in a worker would go before them. */
    bool prefers;
    struct as_held *models; /* multiplexed models that are held or waited for, by key */
    bool multiplexed;       /* some replica has said which ones it holds */
    struct as_list waited;  /* the groups of those that requests wait for */
    uint32_t n_waited;
    struct as_list preferring; /* QUEUED requests that wait for certain replicas; not in `queue` */
    uint32_t n_preferring;
    /* what waits for certain replicas may have room at these, or at any: as_preference_run */
    struct as_list to_pull; /* replicas */
    bool pulls;
    struct as_due_heap routes;      /* when their routes change */
    struct as_list preference_pool; /* struct as_preference that are not in use */
    struct as_rand rand;
    struct as_queue queue;
    struct as_due_heap deadlines; /* QUEUED, SENT and PARKED requests with a deadline */
    struct as_replica **replicas; /* in the order in which they were added */
    struct as_replica **free;     /* those with a free slot that may take requests; in any order */
    uint32_t n_replicas, n_free, cap_replicas;
    struct as_list *by_load; /* the free replicas by their number of requests */
    uint32_t cap_load;       /* size of that array */
    uint32_t least_load;     /* no free replica has fewer requests than that */
    uint64_t free_bits[AS_DEPLOYMENT_REPLICAS_MAX / 64]; /* the free replicas by index */
    uint32_t prefetched, ongoing, recalled;              /* sums over the replicas */
    uint32_t most_slots;
    uint32_t cap_of[AS_DEPLOYMENT_MODELS_MAX]; /* 0: none */
    uint64_t last_order, last_use, last_id;
    struct as_list batch_pool; /* struct as_batch that are not in use */
    struct as_blame blame;
    uint32_t beyond, reserved; /* sums over the replicas */
    bool reserves;             /* it has taken a reservation; nothing is prefetched */
    /* QUEUED requests on a cycle, by age, which wait until a replica is in rotation; not in `queue`
     */
    struct as_list stranded;
    uint32_t n_stranded;
    struct as_list suspects; /* QUEUED requests that wait for quarantine; not in `queue` */
    uint32_t n_suspects, n_quarantines; /* n_quarantines: replicas that are RESERVED or ALONE */
    /* a reserved replica lost its suspect: as_replica_requeue lets it take waiting requests */
    bool has_released_replicas;
    uint32_t turns_owed;     /* requests that go before the next suspect:
                                core/dispatch/faults/quarantine.h */
    as_ns serving_since;     /* since when some replica is ready; AS_NEVER: none is */
    struct as_list verdicts; /* pending ones, oldest first */
    uint32_t n_verdicts, parked;
    uint64_t last_verdict;
    /* RETAINED and not needed any more; released in portions, one for each turn */
    struct as_list to_release;
    uint32_t n_unverified; /* suspects with `unverified` */
    /* the request whose fingerprint is partly computed; NULL: none */
    const struct as_request *fingerprinting;
    as_ns portion_turn;         /* in the turn of this time … */
    uint64_t portion_left;      /* … this many bytes may still be read */
    uint32_t retries_in_budget; /* retries that count against the retry budget */
    struct as_queue_drain drain;
    struct as_median *medians; /* of service times, by model */
    uint32_t n_medians;
    uint32_t n_ejected; /* replicas whose breaker is not closed */
    uint32_t n_absent;  /* sum over the replicas; 0: all of them serve all models */
    struct as_codel_conf codel_conf;
    struct as_codel codel;
    as_ns slow_start;   /* 0: off */
    uint32_t n_warming; /* replicas with `warms` */
    bool adaptive;
    struct as_hedger *hedger; /* NULL: nothing is hedged */
    bool batched;             /* some model has batching, so nothing is prefetched */
    bool per_caller;          /* max_queued holds for each caller; nothing is prefetched */
    bool down;
    bool ends; /* its replicas are being removed: what waits in one is not recalled for another */
    struct as_stat stat;
};

/* Calls at r that do not wait for their model's cap. These are the ones that take slots. */
static inline uint32_t as_replica_front_calls(const struct as_replica *r)
{
    return r->unanswered - r->slotless - r->behind - r->beyond;
}

uint32_t as_dispatch_count_waiting(const struct as_replica *r);
static inline uint32_t as_replica_waiting(const struct as_replica *r) /* requests that wait there */
{
    uint32_t front = as_replica_front_calls(r);

    if (front <= r->slots)
        return r->behind;
    return r->slotless ? as_dispatch_count_waiting(r) : r->behind + front - r->slots;
}

static inline bool as_replica_is_ready(const struct as_replica *r)
{
    return r->slots > 0 && !r->draining;
}

static inline bool as_replica_is_open(const struct as_replica *r)
{
    return !r->draining && !r->paused && r->breaker.state != AS_BREAKER_OPEN &&
           (r->quarantine.state == AS_QUARANTINE_NONE ||
            r->quarantine.state == AS_QUARANTINE_SHARED);
}

/* Is q on a cycle, so that it never waits for a slot? A model with batching has none of these. */
static inline bool as_request_is_on_cycle(const struct as_deployment *d, const struct as_request *q)
{
    return __builtin_expect(q->on_cycle, 0) && !as_queue_batching(&d->queue, q->model);
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

/* A reservation that is not used yet: its worker knows nothing of it. */
static inline bool as_request_is_held(const struct as_request *q)
{
    return __builtin_expect(q->reservation == AS_RESERVATION_HELD, 0);
}

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
/* Something has changed of which preferences there may be: sets as_deployment.prefers. */
void as_deployment_update_preferences(struct as_deployment *d);
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
