/* Which queued request is sent to which replica, and when. */
#include "core/dispatch/dispatch.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/hedge.h"

/* A replica that is probed (HALF_OPEN) gets one request at a time. */
uint32_t as_dispatch_width(const struct as_replica *r)
{
    if (!as_replica_is_open(r))
        return 0;
    return AS_MIN(r->slots, r->breaker.state == AS_BREAKER_HALF_OPEN ? 1 : r->cap);
}

static bool prefetches(const struct as_deployment *d)
{
    return !d->batched && !d->per_caller && !d->prefers && !d->reserves && !d->hedger;
}

/* A replica prefetches as many requests as fit in prefetch_work by its service time. */
uint32_t as_dispatch_limit(const struct as_replica *r)
{
    uint32_t work = (uint32_t)r->deployment->conf.prefetch_work, n;

    if (!as_replica_is_open(r) || r->breaker.state == AS_BREAKER_HALF_OPEN || r->cap < r->slots)
        return as_dispatch_width(r);
    if (!prefetches(r->deployment) || !r->prefetch || !r->slots || r->recalling || !r->service ||
        r->service > work)
        return r->slots;
    n = work / (uint32_t)r->service;
    return r->slots + AS_MIN(n, r->prefetch);
}

void as_dispatch_update_limits(struct as_replica *r)
{
    r->width = as_dispatch_width(r);
    r->limit = as_dispatch_limit(r);
    as_dispatch_update_free(r);
}

struct as_replica *as_dispatch_find_free(struct as_deployment *d, const struct as_request *q)
{
    if (d->n_free == 0)
        return NULL;
    if (d->n_free == 1)
        return as_replica_can_execute(d->free[0], q) ? d->free[0] : NULL;
    return as_router_pick(d, q);
}

/* Has r room for a request that waits for its model's cap? */
static bool has_room_behind(const struct as_replica *r)
{
    return r->of_model && prefetches(r->deployment) && as_replica_is_open(r) &&
           r->breaker.state != AS_BREAKER_HALF_OPEN && r->cap >= r->slots && !r->recalling &&
           r->slots && as_replica_waiting(r) < r->prefetch;
}

struct as_replica_capacity as_dispatch_capacity(const struct as_replica *r)
{
    return (struct as_replica_capacity){.of_model = r->of_model,
                                        .slots = r->most_slots,
                                        .may_execute = as_replica_has_room(r),
                                        .may_wait = has_room_behind(r)};
}

static bool can_send(const struct as_replica *r, const struct as_request *q)
{
    const struct as_lane *l = r->of_model ? as_queue_lane(&r->deployment->queue, q->model) : NULL;
    struct as_replica_capacity t;

    if (!l)
        return as_replica_has_room(r);
    t = as_dispatch_capacity(r);
    return as_lane_can_send(l, &t);
}

struct as_replica *as_dispatch_find_prefetch(struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *best = NULL;

    /* rule 1: a request waits in the FIFO, so no replica has room for q either */
    if (d->queue.n && !d->queue.n_lanes)
        return NULL;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (can_send(r, q) && (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

void as_dispatch_bind(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;

    as_request_set_state(q, AS_REQ_SENT);
    as_list_push(&r->sent, &q->node);
    q->replica = r;
    q->sent = now;
    if (q->attempts)
        d->stat.replayed++;
    if (q->attempts < UINT8_MAX)
        q->attempts++;
    r->unanswered++;
    as_dispatch_update_free(r);
    if (__builtin_expect(d->turns_owed || r->quarantine.suspect, 0))
        as_quarantine_on_sent(r, q);
    if (__builtin_expect(!q->twin, 1)) { /* no hedge */
        d->stat.dispatched++;
        as_hist_add(&d->stat.queue, now - q->arrived);
        if (__builtin_expect(d->router->on_routed != NULL, 0))
            d->router->on_routed(d, q, r, now);
    }
    if (__builtin_expect(d->hedger != NULL, 0))
        as_hedge_on_sent(d, q, now);
    if (__builtin_expect(as_multiplex_applies(d, q), 0))
        as_multiplex_on_sent(r, q);
    if (__builtin_expect(q->reservation == AS_RESERVATION_WANTED, 0)) {
        as_reservation_hold(r, q, now);
        return;
    }
    d->ops.send(d->ctx, r, q);
    AS_ASSERT(q->stream > r->last_stream);
    r->last_stream = q->stream;
}

void as_dispatch_note_turn(struct as_replica *r, const struct as_request *q)
{
    struct as_deployment *d = r->deployment;
    struct as_request *best[AS_PRIORITIES] = {0};
    struct as_replica_capacity t;
    bool lower = false;

    if (q->blame)
        return;
    if (d->queue.n || d->n_preferring) {
        t = as_dispatch_capacity(r);
        lower = as_queue_has_lower(&d->queue, q->priority, &t);
    }
    if (!lower && d->n_preferring && r->free_at != AS_NOWHERE) {
        as_preference_find(r, best);
        for (uint32_t p = q->priority + 1u; p < AS_PRIORITIES; p++)
            lower = lower || best[p];
        as_preference_forget(best);
    }
    as_share_note(&d->queue.share, q->priority, lower);
}

void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now)
{
    as_dispatch_note_turn(r, q);
    as_dispatch_send_call(r, q, now);
}

void as_dispatch_send_call(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;

    r->used_at = ++d->last_use;
    if (as_replica_add_call(r, q->model) && as_replica_front_calls(r) < r->slots)
        d->ongoing++;
    else
        d->prefetched++;
    as_dispatch_bind(r, q, now);
}

void as_dispatch_dequeue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_lane *l = q->lane;
    bool held = l && l->held_back; /* the timer is set already */

    if (q->blame) {
        as_quarantine_remove(d, q, now);
        return;
    }
    if (q->preference) {
        as_preference_dequeue(d, q);
        return;
    }
    if (as_request_is_on_cycle(d, q)) {
        as_beyond_dequeue(d, q);
        return;
    }
    as_queue_remove(&d->queue, q);
    if (l && !held)
        as_dispatch_update_lane(d, l, now);
}

/* Adds the next requests for r, in the queue and among those that wait for it, to `best`. */
static void find_for(struct as_replica *r, const struct as_replica_capacity *t,
                     struct as_request *best[AS_PRIORITIES])
{
    const struct as_deployment *d = r->deployment;

    if (d->queue.n)
        as_queue_find(&d->queue, t, best);
    if (d->n_preferring && r->free_at != AS_NOWHERE)
        as_preference_find(r, best);
}

/* The one whose turn it is; NULL: there is none. */
static struct as_request *choose(const struct as_deployment *d,
                                 struct as_request *best[AS_PRIORITIES])
{
    struct as_request *q = as_queue_choose(&d->queue, best);

    as_preference_forget(best);
    return q;
}

/* The next request for any of the replicas with a free slot, and if it waits for certain ones, for
 * which. */
static struct as_request *find_first(const struct as_deployment *d, struct as_replica **ret_r)
{
    struct as_request *best[AS_PRIORITIES] = {0}, *q;
    struct as_replica *of[AS_PRIORITIES] = {0};

    for (uint32_t i = 0; i < d->n_free; i++) {
        struct as_replica *r = d->free[i];
        struct as_replica_capacity t = as_dispatch_capacity(r);
        struct as_request *before[AS_PRIORITIES];

        memcpy(before, best, sizeof(before));
        find_for(r, &t, best);
        for (uint32_t p = 0; p < AS_PRIORITIES; p++)
            of[p] = best[p] != before[p] ? r : of[p];
    }
    q = choose(d, best);
    if (q)
        *ret_r = of[q->priority];
    return q;
}

bool as_dispatch_shed(struct as_deployment *d, struct as_request *q, as_ns now)
{
    const struct as_batching *b = q->lane ? q->lane->batching : NULL;
    as_ns waited = now - q->arrived, meant = b ? b->conf.max_wait : 0; /* it waited for others */

    if (q->attempts ||
        !as_codel_sheds(&d->codel, &d->codel_conf, waited - AS_MIN(waited, meant), now))
        return false;
    as_dispatch_dequeue(d, q, now);
    as_deployment_fail(d, q, AS_EFULL);
    return true;
}

/* q is the first in the queue for r. It goes alone, or with its batch. */
static void send_queued(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;

    if (q->lane) {
        as_dispatch_send_batch(r, q->lane, q, now);
        return;
    }
    if (q->deadline <= now) {
        as_dispatch_dequeue(d, q, now);
        as_deployment_fail(d, q, AS_EDEADLINE);
        return;
    }
    if (as_dispatch_shed(d, q, now))
        return;
    if (q->preference) {
        as_queue_charge(&d->queue, q);
        as_preference_dequeue(d, q);
    } else {
        as_queue_take(&d->queue, q);
    }
    as_dispatch_send(r, q, now);
}

/* Among several free replicas the policy chooses for what waits in the queue. That is right, since
 * a request to which the rules for models apply waits there only as its model's loader, which went
 * there because none was free (rule 1); what comes back later waits for its groups. */
void as_dispatch_send_all(struct as_deployment *d, as_ns now)
{
    struct as_request *q;
    struct as_replica *r = NULL;

    while ((d->queue.n || d->n_preferring) && (q = find_first(d, &r)))
        send_queued(q->preference ? r : as_dispatch_find_free(d, q), q, now);
}

/* --- requests that leave a replica --- */

/* q is one of several requests of a batch: the call goes on without it. */
static void leave_batch(struct as_replica *r, struct as_request *q)
{
    struct as_deployment *d = r->deployment;
    uint32_t ongoing = as_replica_ongoing(r), waiting = as_replica_waiting(r);

    as_list_remove(&q->node);
    q->batch->n--;
    r->slotless--;
    r->unanswered--;
    q->batch = NULL;
    d->ongoing -= ongoing - as_replica_ongoing(r);
    d->prefetched -= waiting - as_replica_waiting(r);
}

/* q is the last request of its call, so the slot becomes free. For deployments with batching, where
 * the counters must be computed again because calls differ in size. */
static void leave_slot(struct as_replica *r, struct as_request *q)
{
    struct as_deployment *d = r->deployment;
    uint32_t ongoing = as_replica_ongoing(r), waiting = as_replica_waiting(r);

    as_list_remove(&q->node);
    if (r->of_model)
        r->of_model[q->model].calls--;
    if (q->batch)
        as_list_push(&d->batch_pool, &q->batch->node);
    q->batch = NULL;
    r->unanswered--;
    d->ongoing = d->ongoing - ongoing + as_replica_ongoing(r);
    d->prefetched = d->prefetched - waiting + as_replica_waiting(r);
}

void as_dispatch_detach(struct as_request *q, bool answered)
{
    struct as_replica *r = q->replica;
    struct as_deployment *d = r->deployment;

    if (__builtin_expect(q->hedge == AS_HEDGE_WATCHED || q->hedge == AS_HEDGE_DUE, 0))
        as_hedge_unwatch(d, q);
    if (q->recalled)
        as_replica_clear_recalled(r, q);
    if (as_request_is_held(q))
        as_reservation_unhold(q);
    q->started = false;
    q->replica = NULL;
    if (__builtin_expect(as_multiplex_applies(d, q), 0))
        as_multiplex_on_left(r, q, answered);
    if (q->beyond) {
        q->beyond = false;
        as_list_remove(&q->node);
        r->unanswered--;
        r->beyond--;
        d->beyond--;
        as_dispatch_update_free(r);
        return;
    }
    if (d->batched) {
        if (q->batch && q->batch->n > 1)
            leave_batch(r, q);
        else
            leave_slot(r, q);
    } else {
        as_list_remove(&q->node);
        r->unanswered--;
        if (as_replica_remove_call(r, q->model) && as_replica_front_calls(r) < r->slots)
            d->ongoing--;
        else
            d->prefetched--;
    }
    as_dispatch_update_free(r);
}

bool as_dispatch_check_deadline(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (q->deadline > now)
        return true;
    as_deployment_fail(d, q, AS_EDEADLINE);
    return false;
}

/* In a deployment that is down nothing may wait: q is sent if there is a free slot, else it ends.
 */
static void requeue_batched(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (!as_dispatch_find_free(d, q)) {
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    as_request_set_state(q, AS_REQ_QUEUED);
    q->hold_until = 0; /* it has waited before */
    as_queue_push(&d->queue, q);
    as_dispatch_send_lane(d, q->lane, now);
}

void as_dispatch_enqueue_anywhere(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = as_dispatch_find_free(d, q);

    if (!r)
        r = as_dispatch_find_prefetch(d, q);
    if (r)
        as_dispatch_send(r, q, now);
    else
        as_queue_push(&d->queue, q);
}

void as_dispatch_send_preferring(struct as_replica *r, struct as_request *q, as_ns now)
{
    as_dispatch_send(r, q, now);
    if (r->deployment->n_preferring)
        as_preference_pull_later(r);
}

/* Sends q (QUEUED, in no list), or lets it wait: for its groups, or for any replica. In a
 * deployment with batching it waits in any case: others that come back with it may join it, or are
 * older. */
static void place(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;

    if (!__builtin_expect(d->prefers, 0) || !as_preference_applies(d, q)) {
        q->hold_until = 0; /* it has waited before */
        if (d->batched)
            as_queue_push(&d->queue, q);
        else
            as_dispatch_enqueue_anywhere(d, q, now);
        return;
    }
    if (d->batched) {
        as_preference_enter(d, q, now);
        return;
    }
    r = as_preference_begin(d, q, now);
    if (r)
        as_dispatch_send_preferring(r, q, now);
    else if (q->preference)
        as_preference_wait(d, q, now);
    else
        as_queue_push(&d->queue, q);
}

void as_dispatch_enqueue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (as_model_coverage_is_dropped(d, q)) {
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    if (!as_dispatch_check_deadline(d, q, now))
        return;
    if (as_request_is_on_cycle(d, q)) {
        as_beyond_place(d, q, now);
        return;
    }
    place(d, q, now);
}

/* If q is a suspect it waits for quarantine, or ends if the deployment is down. True: done with q.
 */
static bool requeue_suspect(struct as_deployment *d, struct as_request *q, as_ns now)
{
    int err = as_suspect_check(d, q, now);

    if (!err && !q->blame)
        return false;
    if (err || d->down) {
        as_deployment_fail(d, q, err ? err : AS_EUNAVAILABLE);
        return true;
    }
    as_request_set_state(q, AS_REQ_QUEUED);
    as_quarantine_enqueue(d, q, now);
    return true;
}

void as_dispatch_requeue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (q->pinned || as_model_coverage_is_dropped(d, q) || as_fallback_may_leave(d, q)) {
        as_deployment_fail(d, q, q->reservation ? AS_EREPLICA : AS_EUNAVAILABLE);
        return;
    }
    if (!as_dispatch_check_deadline(d, q, now) || requeue_suspect(d, q, now))
        return;
    if (as_request_is_on_cycle(d, q)) {
        if (d->down && !as_beyond_find(d, q)) {
            as_deployment_fail(d, q, AS_EUNAVAILABLE);
            return;
        }
        as_request_set_state(q, AS_REQ_QUEUED);
        as_beyond_place(d, q, now);
        return;
    }
    if (d->down && as_queue_batching(&d->queue, q->model)) {
        requeue_batched(d, q, now);
        return;
    }
    if (d->down) { /* it goes on now or not at all */
        struct as_replica *r = as_dispatch_find_free(d, q);

        if (!r)
            r = as_dispatch_find_prefetch(d, q);
        if (!r) {
            as_deployment_fail(d, q, AS_EUNAVAILABLE);
            return;
        }
        as_request_set_state(q, AS_REQ_QUEUED);
        as_dispatch_send(r, q, now);
        return;
    }
    as_request_set_state(q, AS_REQ_QUEUED);
    place(d, q, now);
}

void as_dispatch_fill(struct as_replica *r, as_ns now)
{
    struct as_deployment *d = r->deployment;

    while (d->queue.n || d->n_preferring) {
        struct as_replica_capacity t = as_dispatch_capacity(r);
        struct as_request *best[AS_PRIORITIES] = {0}, *q;

        if (!t.may_execute && !t.may_wait)
            break;
        find_for(r, &t, best);
        q = choose(d, best);
        if (!q)
            break;
        send_queued(r, q, now);
    }
    if (d->n_stranded)
        as_beyond_fill(d, now);
    if (d->n_suspects)
        as_quarantine_schedule(d, now);
}
