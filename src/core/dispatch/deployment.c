/* The life of a request in a deployment: submit, cancel, expire, and its end; settings of models.
 */
#include "core/dispatch/deployment.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/outlier_ejection.h"
#include "core/dispatch/faults/pending_verdict.h"
#include "core/dispatch/hedge.h"
#include "core/dispatch/width.h"

int as_deployment_new(struct as_deployment **ret_d, struct as_str name,
                      const struct as_deployment_conf *conf, const struct as_deployment_ops *ops,
                      void *ctx)
{
    struct as_deployment *d;

    if (conf->max_queued < -1 || as_router_check(&conf->router))
        return AS_EINVALID;
    d = as_xalloc(sizeof(*d));
    d->conf = *conf;
    d->conf.prefetch_work = AS_MIN(conf->prefetch_work, UINT32_MAX);
    d->ops = *ops;
    d->ctx = ctx;
    d->name = as_str_dup(name);
    d->rand.s = conf->seed;
    as_queue_init(&d->queue);
    d->queue.alike = ops->alike;
    as_list_init(&d->batch_pool);
    as_blame_init(&d->blame, &conf->blame);
    as_outlier_add_model(d, 0);
    as_list_init(&d->stranded);
    as_list_init(&d->suspects);
    d->serving_since = AS_NEVER;
    as_list_init(&d->verdicts);
    as_list_init(&d->to_release);
    as_due_heap_init(&d->deadlines);
    as_list_init(&d->preferring);
    as_list_init(&d->waited);
    as_list_init(&d->to_pull);
    as_due_heap_init(&d->routes);
    as_list_init(&d->preference_pool);
    as_router_start(d);
    *ret_d = d;
    return 0;
}

void as_deployment_release(struct as_deployment *d, struct as_request *q)
{
    as_due_heap_remove(&d->deadlines, &q->due);
    as_request_set_state(q, AS_REQ_DONE);
    if (__builtin_expect(as_multiplex_applies(d, q), 0))
        as_multiplex_on_end(d, q);
    as_deployment_uncount(d, q);
    d->ops.release(d->ctx, q);
}

void as_deployment_answer(struct as_deployment *d, struct as_request *q, int err)
{
    if (err == AS_EDEADLINE)
        d->stat.expired++;
    else
        d->stat.failed++;
    if (err == AS_EMAYHAVERUN)
        d->stat.lost++;
    else if (err == AS_EFULL)
        d->stat.shed++;
    else if (err == AS_EPOISON)
        d->stat.quarantined++;
    if (__builtin_expect(q->hedge == AS_HEDGE_SECOND, 0))
        as_hedge_on_end(d, err);
    as_due_heap_remove(&d->deadlines, &q->due);
    d->ops.answer(d->ctx, q, err);
}

void as_deployment_fail(struct as_deployment *d, struct as_request *q, int err)
{
    as_deployment_answer(d, q, err);
    as_deployment_release(d, q);
}

static void fail_queued(struct as_deployment *d, int err)
{
    struct as_request *q;

    while ((q = as_queue_front(&d->queue))) {
        as_queue_remove(&d->queue, q);
        as_deployment_fail(d, q, err);
    }
    while (d->n_preferring) {
        q = as_request_of(d->preferring.next);
        as_preference_dequeue(d, q);
        as_deployment_fail(d, q, err);
    }
    while ((q = as_beyond_first(d, UINT32_MAX))) {
        as_beyond_dequeue(d, q);
        as_deployment_fail(d, q, err);
    }
    while (d->n_suspects) {
        q = as_request_of(d->suspects.next);
        as_quarantine_dequeue(d, q);
        as_deployment_fail(d, q, err);
    }
}

static void fail_sent(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    as_quarantine_resolve(d, as_quarantine_abort(r));
    AS_LIST_EACH(it, &r->sent)
    {
        struct as_request *q = as_request_of(it);

        q->ran = true; /* it may have run */
        if (q->twin)   /* the last of the two is answered */
            as_hedge_yield(d, q);
        if (q->state == AS_REQ_SENT)
            as_deployment_answer(d, q, AS_EUNAVAILABLE);
        as_dispatch_detach(q, false);
        as_deployment_release(d, q);
    }
}

void as_deployment_free(struct as_deployment *d)
{
    if (!d)
        return;
    d->down = true; /* requests that a removed replica gives back must not wait */
    d->ends = true;
    fail_queued(d, AS_EUNAVAILABLE);
    while (d->n_replicas) {
        struct as_replica *r = d->replicas[d->n_replicas - 1];

        fail_sent(r);
        as_replica_free(r, UINT64_MAX, AS_LOSS_LINK, 0);
    }
    as_pending_verdict_fail_all(d, AS_EUNAVAILABLE);
    as_blame_fini(&d->blame);
    AS_LIST_EACH(n, &d->batch_pool) free(AS_LIST_ENTRY(n, struct as_batch, node));
    as_preference_fini(d);
    as_multiplex_fini(d);
    as_router_stop(d);
    as_queue_fini(&d->queue);
    as_due_heap_fini(&d->deadlines);
    as_hedge_fini(d);
    free(d->medians);
    free(d->replicas);
    free(d->free);
    free(d->by_load);
    free(d->name);
    free(d);
}

int as_deployment_set_model(struct as_deployment *d, uint32_t model, uint32_t max_ongoing)
{
    if (model >= AS_DEPLOYMENT_MODELS_MAX || !max_ongoing)
        return AS_EINVALID;
    if (d->cap_of[model])
        return d->cap_of[model] == max_ongoing ? 0 : AS_EEXISTS;
    d->cap_of[model] = max_ongoing;
    as_outlier_add_model(d, model);
    as_dispatch_update_caps(d);
    return 0;
}

static void update_limits(void *arg AS_UNUSED, struct as_replica *r)
{
    as_dispatch_update_limits(r);
}

int as_deployment_set_batching(struct as_deployment *d, uint32_t model,
                               const struct as_batch_conf *conf)
{
    const struct as_lane *lane = as_queue_lane(&d->queue, model);
    const struct as_batching *old;

    if (model >= AS_DEPLOYMENT_MODELS_MAX || as_batch_check(conf))
        return AS_EINVALID;
    old = as_queue_batching(&d->queue, model);
    if (old)
        return as_batch_eq(&old->conf, conf) ? 0 : AS_EEXISTS;
    if (!conf->max_size)
        return 0;
    if (lane && lane->n) /* requests wait that were accepted without batching */
        return AS_EEXISTS;
    as_queue_add_batching(&d->queue, model, d->cap_of[model] ? d->cap_of[model] : UINT32_MAX, conf);
    d->batched = true;
    as_dispatch_update_caps(d);
    as_deployment_each_replica(d, update_limits, NULL);
    return 0;
}

void as_deployment_set_max_queued(struct as_deployment *d, int64_t max_queued)
{
    AS_ASSERT(max_queued >= -1);
    d->conf.max_queued = max_queued;
}

int64_t as_deployment_max_queued(const struct as_deployment *d)
{
    return d->conf.max_queued;
}

void as_deployment_set_share(struct as_deployment *d, uint32_t every)
{
    AS_ASSERT(every >= AS_SHARE_MIN && every <= AS_SHARE_MAX);
    d->queue.share.every = every;
}

void as_deployment_set_fair(struct as_deployment *d, bool on, enum as_fair_cost cost)
{
    as_queue_set_fair(&d->queue, on, cost);
}

void as_deployment_set_codel(struct as_deployment *d, const struct as_codel_conf *conf)
{
    d->codel_conf = *conf;
}

void as_deployment_set_per_caller(struct as_deployment *d, bool on, as_ns now)
{
    if (d->per_caller == on)
        return;
    d->per_caller = on;
    as_deployment_each_replica(d, update_limits, NULL);
    for (uint32_t i = 0; i < d->n_replicas; i++) /* they may prefetch again */
        as_dispatch_pull(d->replicas[i], now);
    as_dispatch_balance(d, now);
}

void as_deployment_update_preferences(struct as_deployment *d)
{
    d->prefers = d->router->prefer || d->multiplexed || d->conf.router.asks;
    as_deployment_each_replica(d, update_limits, NULL);
}

int as_deployment_set_router(struct as_deployment *d, const struct as_router_conf *conf, as_ns now)
{
    if (as_router_check(conf))
        return AS_EINVALID;
    as_preference_release_all(d);
    as_router_stop(d);
    d->conf.router = *conf;
    as_router_start(d);
    for (uint32_t i = 0; i < d->n_replicas; i++)
        as_dispatch_pull(d->replicas[i], now);
    as_preference_run(d, now);
    as_dispatch_balance(d, now);
    return 0;
}

static bool is_full(const struct as_deployment *d, const struct as_request *q)
{
    int64_t room;

    if (__builtin_expect(d->per_caller && q->waiting, 0))
        return d->conf.max_queued >= 0 && *q->waiting >= d->conf.max_queued;
    if (d->conf.max_queued < 0)
        return false;
    room = d->conf.max_queued - (int64_t)as_deployment_queued(d) - d->prefetched;
    /* so that one tenant alone never takes all of it */
    return room <= 0 || (d->queue.fair && as_fair_waiting(d->queue.fair, q->tenant) >= room);
}

static int refuse_request(struct as_request *q, int err)
{
    as_request_set_state(q, AS_REQ_DONE);
    return err;
}

/* The part of accepting a request that is common to all kinds. */
static void accept_request(struct as_deployment *d, struct as_request *q, as_ns now)
{
    as_request_set_state(q, AS_REQ_QUEUED);
    q->arrived = now;
    q->order = ++d->last_order;
    q->root = q->root ? AS_MIN(q->root, now) : now;
    if (q->deadline != AS_NEVER)
        as_due_heap_push(&d->deadlines, &q->due);
    d->stat.accepted++;
}

/* A suspect (err 0) waits for a replica of its own; poison (err) is refused. */
static int submit_suspect(struct as_deployment *d, struct as_request *q, int err, as_ns now)
{
    if (err) {
        d->stat.quarantined++;
        return refuse_request(q, err);
    }
    if (as_model_coverage_is_dropped(d, q)) {
        as_suspect_remove(d, q);
        return refuse_request(q, AS_EUNAVAILABLE);
    }
    if (is_full(d, q)) {
        as_suspect_remove(d, q);
        d->stat.refused++;
        return refuse_request(q, AS_EFULL);
    }
    accept_request(d, q, now);
    as_quarantine_enqueue(d, q, now);
    as_quarantine_schedule(d, now);
    return 0;
}

/* The request always goes through its lane, because others may join it. */
static int submit_batched(struct as_deployment *d, struct as_request *q, as_ns now)
{
    const struct as_batching *b = as_queue_batching(&d->queue, q->model);
    struct as_lane *l;

    AS_ASSERT(q->items && q->items <= b->conf.max_size);
    q->hold_until = as_batch_hold_until(&b->conf, q->deadline, b->service, now);
    if (as_model_coverage_is_dropped(d, q))
        return refuse_request(q, AS_EUNAVAILABLE);
    l = as_queue_lane_for(&d->queue, q);
    if (is_full(d, q) && !(as_lane_is_due_with(l, q) && as_dispatch_find_free(d, q))) {
        d->stat.refused++;
        return refuse_request(q, AS_EFULL);
    }
    accept_request(d, q, now);
    as_queue_push(&d->queue, q);
    if (q->lane->held_back)
        d->ops.wake(d->ctx, q->hold_until);
    else
        as_dispatch_send_lane(d, q->lane, now);
    if (__builtin_expect(d->n_suspects != 0, 0)) /* turns_owed may have become 0 */
        as_quarantine_schedule(d, now);
    return 0;
}

/* It is sent at once if any replica is in rotation. */
static int submit_on_cycle(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (as_model_coverage_is_dropped(d, q))
        return refuse_request(q, AS_EUNAVAILABLE);
    if (is_full(d, q) && !as_beyond_find(d, q)) {
        d->stat.refused++;
        return refuse_request(q, AS_EFULL);
    }
    accept_request(d, q, now);
    as_beyond_place(d, q, now);
    if (__builtin_expect(d->n_suspects != 0, 0))
        as_quarantine_schedule(d, now);
    return 0;
}

/* The request may wait for certain replicas. */
static int submit_preferring(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;
    int err = 0;

    if (as_model_coverage_is_dropped(d, q))
        return refuse_request(q, AS_EUNAVAILABLE);
    r = as_preference_begin(d, q, now);
    if (!r && is_full(d, q)) {
        d->stat.refused++;
        err = AS_EFULL;
        as_preference_end(d, q);
        as_multiplex_on_end(d, q);
        refuse_request(q, err);
    } else {
        accept_request(d, q, now);
        if (r)
            as_dispatch_send_preferring(r, q, now);
        else if (q->preference)
            as_preference_wait(d, q, now);
        else
            as_queue_push(&d->queue, q);
    }
    if (__builtin_expect(d->n_suspects != 0, 0))
        as_quarantine_schedule(d, now);
    return err;
}

static int submit(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;

    AS_ASSERT(q->model < AS_DEPLOYMENT_MODELS_MAX && q->priority < AS_PRIORITIES);
    if (__builtin_expect(q->reservation && !d->reserves, 0))
        as_reservation_begin(d);
    if (__builtin_expect(q->has_fallback || q->is_mirror, 0)) {
        int err = as_fallback_check(d, q, is_full(d, q));

        if (err)
            return refuse_request(q, err);
    }
    if (d->down)
        return refuse_request(q, AS_EUNAVAILABLE);
    if (q->deadline <= now) { /* counted as accepted and expired: core/queue/stat.h */
        d->stat.accepted++;
        d->stat.expired++;
        return refuse_request(q, AS_EDEADLINE);
    }
    if (__builtin_expect(d->blame.n != 0, 0)) {
        int err = as_suspect_check(d, q, now);

        if (err || q->blame)
            return submit_suspect(d, q, err, now);
    }
    if (d->batched && as_queue_batching(&d->queue, q->model))
        return submit_batched(d, q, now);
    if (as_request_is_on_cycle(d, q))
        return submit_on_cycle(d, q, now);
    if (__builtin_expect(d->prefers, 0) && as_preference_applies(d, q))
        return submit_preferring(d, q, now);
    r = as_dispatch_find_free(d, q);
    if (!r) {
        if (as_model_coverage_is_dropped(d, q))
            return refuse_request(q, AS_EUNAVAILABLE);
        if (is_full(d, q)) {
            d->stat.refused++;
            return refuse_request(q, AS_EFULL);
        }
        r = as_dispatch_find_prefetch(d, q);
    }
    accept_request(d, q, now);
    if (r) {
        (void)as_codel_sheds(&d->codel, &d->codel_conf, 0, now);
        as_dispatch_send(r, q, now);
    } else {
        as_queue_push(&d->queue, q);
    }
    if (__builtin_expect(d->n_suspects != 0, 0))
        as_quarantine_schedule(d, now);
    return 0;
}

/* Who holds a model, or may load one, may have changed for others that wait. */
static int finish_submit(struct as_deployment *d, int err, as_ns now)
{
    if (__builtin_expect(d->prefers, 0))
        as_dispatch_balance(d, now);
    return err;
}

int as_deployment_submit(struct as_deployment *d, struct as_request *q, as_ns now)
{
    return finish_submit(d, submit(d, q, now), now);
}

int as_deployment_submit_to(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deployment *d = r->deployment;
    int err;

    AS_ASSERT(!as_queue_batching(&d->queue, q->model));
    q->pinned = q->on_cycle = true;
    q->idempotent = false;
    if (d->down || !as_replica_is_in_rotation(r, q->model))
        return refuse_request(q, AS_EUNAVAILABLE);
    if (q->deadline <= now) {
        d->stat.accepted++;
        d->stat.expired++;
        return refuse_request(q, AS_EDEADLINE);
    }
    if (__builtin_expect(d->blame.n != 0, 0)) {
        err = as_suspect_check(d, q, now);
        if (q->blame) {
            as_suspect_remove(d, q);
            err = AS_ESUSPECT;
        }
        if (err) {
            d->stat.quarantined++;
            return refuse_request(q, err);
        }
    }
    accept_request(d, q, now);
    as_beyond_send(r, q, now);
    return finish_submit(d, 0, now);
}

void as_deployment_abandon(struct as_deployment *d, struct as_request *q, int reason)
{
    d->ops.cancel(d->ctx, q->replica, q, reason);
    if (__builtin_expect(q->hedge == AS_HEDGE_WATCHED || q->hedge == AS_HEDGE_DUE, 0))
        as_hedge_unwatch(d, q);
    as_due_heap_remove(&d->deadlines, &q->due);
    as_request_set_state(q, AS_REQ_ABANDONED);
}

void as_deployment_cancel(struct as_deployment *d, struct as_request *q, as_ns now)
{
    if (__builtin_expect(q->hedge == AS_HEDGE_SECOND, 0) && as_request_is_awaited(q))
        as_hedge_on_end(d, AS_ECANCELLED);
    if (__builtin_expect(q->twin != NULL, 0))
        as_hedge_cancel_twin(d, q, AS_ECANCELLED);
    if (q->state == AS_REQ_QUEUED) {
        d->stat.cancelled++;
        as_dispatch_dequeue(d, q, now);
        as_deployment_release(d, q);
        if (d->n_suspects) /* turns_owed may have become 0 */
            as_quarantine_schedule(d, now);
        as_dispatch_balance(d, now);
    } else if (as_request_is_held(q)) {
        d->stat.cancelled++;
        as_reservation_cancel(d, q, now);
    } else if (q->state == AS_REQ_SENT) {
        d->stat.cancelled++;
        as_deployment_abandon(d, q, AS_ECANCELLED);
    } else if (q->state == AS_REQ_PARKED) {
        d->stat.cancelled++;
        as_pending_verdict_remove(d, q);
    }
}

void as_deployment_expire(struct as_deployment *d, as_ns now)
{
    struct as_due *due;

    if (d->n_verdicts) /* first: those that go on may be older than what a free slot would get */
        as_pending_verdict_expire(d, now);
    while ((due = as_due_heap_first(&d->deadlines)) && due->at <= now) {
        struct as_request *q = AS_CONTAINER(due, struct as_request, due);

        if (q->state == AS_REQ_QUEUED) {
            as_dispatch_dequeue(d, q, now);
            as_deployment_fail(d, q, AS_EDEADLINE);
        } else if (q->state == AS_REQ_PARKED) {
            as_deployment_answer(d, q, AS_EDEADLINE);
            as_pending_verdict_remove(d, q);
        } else if (as_request_is_held(q)) {
            as_reservation_expire(d, q, now);
        } else {
            /* answered last: ops.answer may hand q to another thread, which owns it from then on */
            if (q->twin)
                as_hedge_cancel_twin(d, q, AS_EDEADLINE);
            as_outlier_on_deadline(q->replica, q, now);
            as_deployment_abandon(d, q, AS_EDEADLINE);
            as_deployment_answer(d, q, AS_EDEADLINE);
        }
    }
    if (d->queue.n_held_back && as_queue_next_release(&d->queue) <= now) {
        as_queue_update_due(&d->queue, now);
        as_dispatch_send_all(d, now);
    }
    if (d->n_warming)
        as_width_update(d, now);
    if (d->n_ejected)
        as_outlier_expire(d, now);
    if (d->hedger)
        as_hedge_expire(d, now);
    if (d->n_suspects || d->n_quarantines)
        as_quarantine_expire(d, now);
    as_preference_run(d, now);
}

void as_deployment_work(struct as_deployment *d, as_ns now)
{
    if (!as_pending_verdict_work(d, now) || !as_suspect_verify(d, now))
        d->ops.next_turn(d->ctx);
    as_dispatch_balance(d, now);
}

as_ns as_deployment_next_deadline(const struct as_deployment *d)
{
    const struct as_due *first = as_due_heap_first(&d->deadlines);
    as_ns next = first ? first->at : AS_NEVER;

    if ((first = as_due_heap_first(&d->routes)))
        next = AS_MIN(next, first->at);
    if (d->n_verdicts)
        next = AS_MIN(next, as_pending_verdict_next_due(d));
    if (d->n_warming)
        next = AS_MIN(next, as_width_next_due(d));
    if (d->n_ejected)
        next = AS_MIN(next, as_outlier_next_due(d));
    if (d->hedger)
        next = AS_MIN(next, as_hedge_next_due(d));
    if (d->n_suspects || d->n_quarantines)
        next = AS_MIN(next, as_quarantine_next_due(d));
    return d->queue.n_held_back ? AS_MIN(next, as_queue_next_release(&d->queue)) : next;
}

void as_deployment_set_down(struct as_deployment *d, bool down, as_ns now)
{
    d->down = down;
    if (!down)
        return;
    fail_queued(d, AS_EUNAVAILABLE);
    as_dispatch_balance(d, now); /* replicas that were reserved for suspects have room */
}

void as_deployment_abort(struct as_deployment *d)
{
    d->down = true;
    fail_queued(d, AS_EUNAVAILABLE);
    as_pending_verdict_fail_all(d, AS_EMAYHAVERUN);
}
