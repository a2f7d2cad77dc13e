/* Which queued request is sent to which replica, and when. */
#include "core/dispatch/dispatch.h"

#include "core/dispatch/deployment_internal.h"

void as_dispatch_set_free(struct as_replica *r, bool is_free)
{
    struct as_deployment *d = r->deployment;

    if (is_free) {
        r->free_at = d->n_free;
        d->free[d->n_free++] = r;
    } else {
        struct as_replica *last = d->free[--d->n_free];

        d->free[r->free_at] = last;
        last->free_at = r->free_at;
        r->free_at = AS_NOWHERE;
    }
}

/* A replica that is probed (HALF_OPEN) gets one request at a time. */
uint32_t as_dispatch_width(const struct as_replica *r)
{
    if (!as_replica_is_open(r))
        return 0;
    return r->breaker.state == AS_BREAKER_HALF_OPEN ? AS_MIN(r->slots, 1) : r->slots;
}

/* A replica prefetches as many requests as fit in prefetch_work by its service time. */
uint32_t as_dispatch_limit(const struct as_replica *r)
{
    uint32_t work = (uint32_t)r->deployment->conf.prefetch_work, n;

    if (!as_replica_is_open(r) || r->breaker.state == AS_BREAKER_HALF_OPEN)
        return as_dispatch_width(r);
    if (r->deployment->batched || r->deployment->per_caller || !r->prefetch || !r->slots ||
        r->recalling || !r->service || r->service > work)
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
    return d->router->pick(d->free, d->n_free, q, &d->rand);
}

/* Has r room for a request that waits for its model's cap? */
static bool has_room_behind(const struct as_replica *r)
{
    return r->of_model && !r->deployment->batched && !r->deployment->per_caller &&
           as_replica_is_open(r) && r->breaker.state != AS_BREAKER_HALF_OPEN && !r->recalling &&
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
    d->stat.dispatched++;
    if (__builtin_expect(d->turns_owed || r->quarantine.suspect, 0))
        as_quarantine_on_sent(r, q);
    as_hist_add(&d->stat.queue, now - q->arrived);
    d->ops.send(d->ctx, r, q);
    AS_ASSERT(q->stream > r->last_stream);
    r->last_stream = q->stream;
}

void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;

    r->used_at = ++d->last_use;
    if (as_replica_add_call(r, q->model) && as_replica_front_calls(r) < r->slots)
        d->ongoing++;
    else
        d->prefetched++;
    as_dispatch_bind(r, q, now);
}

/* --- batches --- */

/* Counts the requests of the calls that wait, from the tail of `sent`. */
uint32_t as_dispatch_count_waiting(const struct as_replica *r)
{
    uint32_t calls = as_replica_front_calls(r) - r->slots, n = 0;
    const struct as_batch *last = NULL;

    for (const struct as_list *it = r->sent.prev; it != &r->sent; it = it->prev, n++) {
        const struct as_request *q = as_request_of(it);

        if (q->beyond) {
            n--;
            continue;
        }
        if ((!q->batch || q->batch != last) && calls-- == 0)
            break;
        last = q->batch;
    }
    return n;
}

static struct as_batch *acquire_batch(struct as_deployment *d)
{
    struct as_list *n = as_list_pop(&d->batch_pool);
    struct as_batch *b = n ? AS_LIST_ENTRY(n, struct as_batch, node) : as_xalloc(sizeof(*b));

    as_list_init(&b->node);
    b->n = b->items = 0;
    b->learned = b->counted = false;
    return b;
}

static bool check_deadline(struct as_deployment *d, struct as_request *q, as_ns now);

/* After requests were taken out of a lane with batching. */
static void update_lane(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    as_lane_update_due(&d->queue, l, now);
    if (l->held_back)
        d->ops.wake(d->ctx, l->next_due);
}

void as_dispatch_update_lanes(struct as_deployment *d, as_ns now)
{
    AS_LIST_EACH(n, &d->queue.active)
    {
        update_lane(d, AS_LIST_ENTRY(n, struct as_lane, node), now);
    }
}

void as_dispatch_dequeue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_lane *l = q->lane;
    bool held = l && l->held_back; /* the timer is set already */

    if (q->blame) {
        as_quarantine_remove(d, q, now);
        return;
    }
    if (as_request_is_on_cycle(d, q)) {
        as_beyond_dequeue(d, q);
        return;
    }
    as_queue_remove(&d->queue, q);
    if (l && !held)
        update_lane(d, l, now);
}

/* Ends requests at the front of the lane, as many as one batch has, whose deadline has passed
 * before the timer fired. True: there were some, so another lane may come first now. */
static bool expire_front(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    uint32_t items = 0;
    bool some = false;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        AS_LIST_EACH(n, &l->fifo[p])
        {
            struct as_request *q = as_request_of(n);

            if (items >= l->batching->conf.max_size)
                return some;
            if (q->deadline > now) {
                items += q->items;
                continue;
            }
            as_dispatch_dequeue(d, q, now);
            (void)check_deadline(d, q, now);
            some = true;
        }
    }
    return some;
}

/* Moves the first requests of the lane to `to`, in order, until the next one does not fit. */
static uint32_t collect_batch(struct as_deployment *d, struct as_lane *l, struct as_list *to,
                              uint32_t *ret_items)
{
    uint32_t limit = l->one_by_one ? 1 : as_batch_limit(&l->batching->conf, l->items), n = 0;
    struct as_request *q;

    *ret_items = 0;
    while ((q = as_lane_first(l)) && (!n || *ret_items + q->items <= limit)) {
        as_queue_remove(&d->queue, q);
        as_list_push(to, &q->node);
        *ret_items += q->items;
        n++;
    }
    return n;
}

/* Sends one call from a lane that is due to r, which has a free slot. If some of its requests had
 * expired it sends nothing, and the caller must search again for what is next. */
static void send_batch(struct as_replica *r, struct as_lane *l, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_batch *b;
    struct as_list members, *it;
    uint32_t n, items;

    if (expire_front(d, l, now))
        return;
    as_list_init(&members);
    n = collect_batch(d, l, &members, &items);
    update_lane(d, l, now);
    d->stat.batches++;
    as_hist_add(&d->stat.batch, items * AS_US);
    if (n == 1) {
        as_dispatch_send(r, as_request_of(as_list_pop(&members)), now);
        return;
    }
    b = acquire_batch(d);
    d->ops.batch(d->ctx, r, n);
    while ((it = as_list_pop(&members))) {
        struct as_request *q = as_request_of(it);

        q->batch = b;
        b->items += q->items;
        if (b->n++ == 0) {
            as_dispatch_send(r, q, now);
        } else {
            r->slotless++;
            d->ongoing++;
            as_dispatch_bind(r, q, now);
        }
    }
}

void as_dispatch_send_lane(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    while (as_lane_is_due(l)) {
        struct as_replica *r = as_dispatch_find_free(d, as_lane_first(l));

        if (!r)
            return;
        send_batch(r, l, now);
    }
}

/* The next request for any of the replicas with a free slot. */
static struct as_request *find_first(const struct as_deployment *d)
{
    struct as_request *best = NULL;

    for (uint32_t i = 0; i < d->n_free; i++) {
        const struct as_replica *r = d->free[i];
        struct as_replica_capacity t = as_dispatch_capacity(r);
        struct as_request *q = as_queue_first_for(&d->queue, &t);

        if (q && (!best || as_queue_before(q, best)))
            best = q;
    }
    return best;
}

/* q is the first in the queue for r. It goes alone, or with its batch. */
static void send_queued(struct as_replica *r, struct as_request *q, as_ns now)
{
    if (q->lane) {
        send_batch(r, q->lane, now);
        return;
    }
    as_queue_remove(&r->deployment->queue, q);
    if (check_deadline(r->deployment, q, now))
        as_dispatch_send(r, q, now);
}

void as_dispatch_send_all(struct as_deployment *d, as_ns now)
{
    struct as_request *q;

    while (d->queue.n && (q = find_first(d)))
        send_queued(as_dispatch_find_free(d, q), q, now);
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

void as_dispatch_detach(struct as_request *q)
{
    struct as_replica *r = q->replica;
    struct as_deployment *d = r->deployment;

    if (q->recalled)
        as_replica_clear_recalled(r, q);
    q->started = false;
    q->replica = NULL;
    if (q->beyond) {
        q->beyond = false;
        as_list_remove(&q->node);
        r->unanswered--;
        r->beyond--;
        d->beyond--;
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

/* True: q is in time. False: its deadline has passed, and it was ended. */
static bool check_deadline(struct as_deployment *d, struct as_request *q, as_ns now)
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
    as_queue_push(&d->queue, q);
    as_dispatch_send_lane(d, q->lane, now);
}

void as_dispatch_enqueue(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;

    if (as_model_coverage_is_dropped(d, q)) {
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    if (!check_deadline(d, q, now))
        return;
    if (as_request_is_on_cycle(d, q)) {
        as_beyond_place(d, q, now);
        return;
    }
    if (d->batched) {
        q->hold_until = 0; /* it has waited before */
        as_queue_push(&d->queue, q);
        return;
    }
    r = as_dispatch_find_free(d, q);
    if (!r)
        r = as_dispatch_find_prefetch(d, q);
    if (r)
        as_dispatch_send(r, q, now);
    else
        as_queue_push(&d->queue, q);
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
    struct as_replica *r;

    if (q->pinned || as_model_coverage_is_dropped(d, q) || as_fallback_may_leave(d, q)) {
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    if (!check_deadline(d, q, now) || requeue_suspect(d, q, now))
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
    if (d->batched) {
        q->hold_until = 0; /* it has waited before */
        if (!d->down) {
            as_request_set_state(q, AS_REQ_QUEUED);
            as_queue_push(&d->queue, q);
            return;
        }
        if (as_queue_batching(&d->queue, q->model)) {
            requeue_batched(d, q, now);
            return;
        }
    }
    r = as_dispatch_find_free(d, q);
    if (!r)
        r = as_dispatch_find_prefetch(d, q);
    if (!r && d->down) {
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    as_request_set_state(q, AS_REQ_QUEUED);
    if (r)
        as_dispatch_send(r, q, now);
    else
        as_queue_push(&d->queue, q);
}

void as_dispatch_fill(struct as_replica *r, as_ns now)
{
    struct as_deployment *d = r->deployment;

    while (d->queue.n) {
        struct as_replica_capacity t = as_dispatch_capacity(r);
        struct as_request *q =
            t.may_execute || t.may_wait ? as_queue_first_for(&d->queue, &t) : NULL;

        if (!q)
            break;
        send_queued(r, q, now);
    }
    if (d->n_stranded)
        as_beyond_fill(d, now);
    if (d->n_suspects)
        as_quarantine_schedule(d, now);
}

/* --- caps --- */

static void count_models(struct as_replica *r)
{
    const struct as_batch *last = NULL;

    r->of_model = as_xalloc(AS_DEPLOYMENT_MODELS_MAX * sizeof(r->of_model[0]));
    AS_LIST_EACH(n, &r->sent)
    {
        const struct as_request *q = as_request_of(n);

        if (q->beyond)
            continue;
        r->of_model[q->model].calls += !q->batch || q->batch != last;
        last = q->batch;
    }
}

static void count_behind(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    d->ongoing -= as_replica_ongoing(r);
    d->prefetched -= as_replica_waiting(r);
    r->behind = 0;
    for (uint32_t m = 0; m < d->queue.n_lanes; m++)
        r->behind += as_replica_behind_cap(r, m);
    d->ongoing += as_replica_ongoing(r);
    d->prefetched += as_replica_waiting(r);
    as_dispatch_update_free(r);
}

static void count_recalled(struct as_deployment *d)
{
    for (uint32_t m = 0; m < d->queue.n_lanes; m++) {
        if (d->queue.lanes[m])
            d->queue.lanes[m]->recalled = 0;
    }
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        AS_LIST_EACH(n, &d->replicas[i]->sent)
        {
            const struct as_request *q = as_request_of(n);

            if (q->recalled && as_queue_lane(&d->queue, q->model))
                d->queue.lanes[q->model]->recalled++;
        }
    }
}

void as_dispatch_update_caps(struct as_deployment *d)
{
    for (uint32_t m = 0; m < AS_DEPLOYMENT_MODELS_MAX; m++) {
        if (d->cap_of[m] && d->cap_of[m] < d->most_slots && !as_queue_lane(&d->queue, m))
            as_queue_add_lane(&d->queue, m, d->cap_of[m]);
    }
    for (uint32_t i = 0; d->queue.n_lanes && i < d->n_replicas; i++) {
        if (!d->replicas[i]->of_model)
            count_models(d->replicas[i]);
        count_behind(d->replicas[i]);
    }
    if (d->recalled)
        count_recalled(d);
}
