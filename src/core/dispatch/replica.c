/* The life of a replica: it is added, gets slots, ends streams, drains, dies. */
#include "core/dispatch/deployment_internal.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/outlier_ejection.h"
#include "core/dispatch/faults/pending_verdict.h"
#include "core/dispatch/hedge.h"
#include "core/dispatch/width.h"

/* A longer service time that a worker reports is cut to this. */
#define SERVICE_MAX (3600 * AS_SEC)

int as_replica_new(struct as_replica **ret_r, struct as_deployment *d, void *link)
{
    struct as_replica *r;

    if (d->n_replicas == AS_DEPLOYMENT_REPLICAS_MAX)
        return AS_EFULL;
    if (d->n_replicas == d->cap_replicas) {
        d->cap_replicas = d->cap_replicas ? 2 * d->cap_replicas : 8;
        d->replicas = as_xrealloc(d->replicas, d->cap_replicas * sizeof(struct as_replica *));
        d->free = as_xrealloc(d->free, d->cap_replicas * sizeof(struct as_replica *));
    }
    r = as_xalloc(sizeof(*r));
    r->deployment = d;
    r->link = link;
    r->index = d->n_replicas;
    r->free_at = AS_NOWHERE;
    as_list_init(&r->sent);
    r->cap = r->warm_width = UINT32_MAX;
    r->ready_since = r->next_step = AS_NEVER;
    as_list_init(&r->by_load);
    as_list_init(&r->pull);
    as_group_init(&r->own, r);
    as_sticky_member_init(&r->sessions);
    r->id = ++d->last_id;
    d->replicas[d->n_replicas++] = r;
    if (d->router->on_replica_added)
        d->router->on_replica_added(d, r);
    as_dispatch_update_caps(d);
    as_model_coverage_init(r);
    *ret_r = r;
    return 0;
}

void as_replica_set_place(struct as_replica *r, uint64_t id, struct as_place place)
{
    struct as_deployment *d = r->deployment;

    if (d->router->on_replica_removed)
        d->router->on_replica_removed(d, r);
    r->id = id;
    r->place = place;
    if (d->router->on_replica_added)
        d->router->on_replica_added(d, r);
}

void as_replica_grant(struct as_replica *r, uint32_t slots, uint32_t prefetch, as_ns now)
{
    struct as_deployment *d = r->deployment;

    d->ongoing -= as_replica_ongoing(r);
    d->prefetched -= as_replica_waiting(r);
    r->slots = AS_MIN(slots, AS_DEPLOYMENT_SLOTS_MAX);
    r->prefetch = AS_MIN(prefetch, AS_DEPLOYMENT_SLOTS_MAX);
    d->ongoing += as_replica_ongoing(r);
    d->prefetched += as_replica_waiting(r);
    if (r->slots > r->most_slots) {
        r->most_slots = r->slots;
        d->most_slots = AS_MAX(d->most_slots, r->slots);
        as_dispatch_update_caps(d);
    }
    if (!r->slots)
        as_quarantine_release(r); /* no slots for a suspect either */
    as_width_on_grant(r, now);
    as_dispatch_update_limits(r);
    as_quarantine_update_serving(d, now);
    as_outlier_readmit_all(d, now);
    as_dispatch_pull(r, now);
    if (d->n_warming)
        as_width_update(d, now);
    as_dispatch_balance(d, now);
}

void as_replica_drain(struct as_replica *r, bool draining, as_ns now)
{
    r->draining = draining;
    if (draining)
        as_quarantine_release(r); /* the suspect goes to another replica */
    as_dispatch_update_limits(r);
    if (draining) {
        as_preference_release(r);
        as_reservation_end_all(r);
    }
    as_quarantine_update_serving(r->deployment, now);
    as_outlier_readmit_all(r->deployment, now);
    as_dispatch_pull(r, now);
    if (r->deployment->n_warming)
        as_width_update(r->deployment, now);
    as_dispatch_balance(r->deployment, now);
}

static as_ns moving_average(as_ns old, as_ns service)
{
    return old ? AS_MAX(old - old / 8 + service / 8, 1) : service;
}

/* As many requests may wait for the model's cap as fit in prefetch_work. */
static void record_model_service(struct as_replica *r, uint32_t model, as_ns service)
{
    struct as_replica_model *s = &r->of_model[model];
    uint32_t work = (uint32_t)r->deployment->conf.prefetch_work;

    s->service = moving_average(s->service, service);
    s->prefetch = s->service > work ? 0 : work / (uint32_t)s->service;
}

/* Records a measured service time. Every request of a batch reports it, but it counts once. */
static void record_service(struct as_replica *r, struct as_request *q, as_ns service, as_ns now)
{
    struct as_deployment *d = r->deployment;

    service = AS_MIN(service, SERVICE_MAX);
    as_hist_add(&d->stat.service, service);
    if (d->batched) {
        struct as_batching *b = as_queue_batching(&d->queue, q->model);

        if (q->batch && q->batch->learned)
            return;
        if (q->batch)
            q->batch->learned = true;
        if (b)
            b->service = moving_average(b->service, service);
    }
    r->service = moving_average(r->service, service);
    r->limit = as_dispatch_limit(r);
    if (r->of_model)
        record_model_service(r, q->model, service);
    as_width_on_service(r, service);
    as_outlier_on_service(r, q->model, service, now);
}

/* q (SENT) leaves r without an answer. Other replicas may take q before r takes new requests. */
static void requeue_request(struct as_replica *r, struct as_request *q, as_ns now)
{
    r->paused = true;
    as_dispatch_update_limits(r);
    as_dispatch_detach(q, false);
    if (r->quarantine.suspect == q)
        as_quarantine_done(r, q, false, now);
    as_dispatch_requeue(r->deployment, q, now);
    if (r->deployment->batched)
        as_dispatch_send_all(r->deployment, now);
    r->paused = false;
    as_dispatch_update_limits(r);
}

bool as_replica_bind(struct as_replica *r, struct as_request *q)
{
    AS_ASSERT(q->replica == r);
    q->bound = true;
    return q->state == AS_REQ_SENT;
}

bool as_replica_done(struct as_replica *r, struct as_request *q, as_ns service, bool retry,
                     as_ns now)
{
    struct as_deployment *d = r->deployment;
    bool waits, again;

    AS_ASSERT(q->replica == r);
    if (__builtin_expect(q->hedge != AS_HEDGE_NONE, 0))
        as_hedge_on_answer(d, q, !retry && !q->failed, now);
    waits = q->state == AS_REQ_SENT;
    again = waits && retry && !q->bound && !q->pinned && q->retries < AS_REQUEST_RETRIES;
    if (service)
        record_service(r, q, service, now);
    if (again) {
        q->retries++;
        requeue_request(r, q, now);
    } else {
        as_dispatch_detach(q, true);
        as_outlier_on_answer(r, q, now);
        if (__builtin_expect(r->quarantine.suspect == q, 0))
            as_quarantine_done(r, q, waits && !retry, now); /* retry: it has not run */
        if (waits) {
            as_due_heap_remove(&d->deadlines, &q->due);
            as_request_set_state(q, AS_REQ_DONE);
            as_deployment_uncount(d, q);
            d->stat.completed++;
            if (__builtin_expect(q->hedge == AS_HEDGE_SECOND, 0))
                as_hedge_on_delivered(d, q);
            as_hist_add(&d->stat.total, now - q->arrived);
            as_hist_add(&d->stat.link, now - q->sent - AS_MIN(service, now - q->sent));
        } else {
            as_deployment_release(d, q);
        }
    }
    as_dispatch_pull(r, now);
    as_dispatch_balance(d, now);
    return waits && !again;
}

void as_replica_returned(struct as_replica *r, struct as_request *q, as_ns now)
{
    AS_ASSERT(q->replica == r && q->recalled);
    if (q->batch)
        q->batch->items -= q->items;
    if (q->state == AS_REQ_SENT) {
        requeue_request(r, q, now);
    } else {
        as_dispatch_detach(q, false);
        if (r->quarantine.suspect == q)
            as_quarantine_done(r, q, false, now);
        as_deployment_release(r->deployment, q);
    }
    as_dispatch_pull(r, now);
    as_dispatch_balance(r->deployment, now);
}

void as_replica_recall_done(struct as_replica *r, as_ns now)
{
    for (struct as_list *it = r->sent.prev; r->recalled && it != &r->sent; it = it->prev) {
        struct as_request *q = as_request_of(it);

        if (!q->recalled)
            continue;
        as_replica_clear_recalled(r, q);
        q->started =
            true; /* or the worker refuses to give it back: recalling it again would never end */
    }
    AS_ASSERT(!r->recalled);
    r->recalling = false;
    as_dispatch_update_limits(r);
    as_dispatch_pull(r, now);
    as_dispatch_balance(r->deployment, now);
}

/* --- executing requests --- */

void as_replica_each_executing(struct as_replica *r, void (*fn)(void *arg, struct as_request *q),
                               void *arg)
{
    const struct as_batch *last = NULL;
    uint32_t calls = 0;

    for (uint32_t m = 0; r->behind && m < r->deployment->queue.n_lanes; m++)
        r->of_model[m].seen = 0;
    AS_LIST_EACH(it, &r->sent)
    {
        struct as_request *q = as_request_of(it);

        if (q->beyond) {
            if (!as_request_is_held(q))
                fn(arg, q);
            continue;
        }
        if (r->behind && as_replica_is_capped(r, q->model) &&
            r->of_model[q->model].seen++ >= as_queue_lane(&r->deployment->queue, q->model)->cap)
            continue;
        calls += !q->batch || q->batch != last;
        last = q->batch;
        if (calls <= r->slots) {
            if (!as_request_is_held(q))
                fn(arg, q);
        } else if (!r->beyond)
            return;
    }
}

void as_replica_fail_request(struct as_replica *r, struct as_request *q, int err)
{
    AS_ASSERT(q->replica == r);
    if (q->state != AS_REQ_SENT)
        return;
    if (q->twin) {
        r->deployment->ops.cancel(r->deployment->ctx, r, q, AS_EDEADLINE);
        q->twin->ran = true; /* as q has, and may go on */
        as_hedge_yield(r->deployment, q);
        return;
    }
    as_deployment_abandon(r->deployment, q, AS_EDEADLINE);
    /* answered last: ops.answer may hand q to another thread, which owns it from then on */
    as_deployment_answer(r->deployment, q, err);
}

/* --- requests that are lost --- */

void as_replica_collect_retry(struct as_list back[AS_PRIORITIES], struct as_request *q)
{
    struct as_list *head = &back[q->priority], *at = head->prev;

    while (at != head && as_request_is_older(q, as_request_of(at)))
        at = at->prev;
    as_list_insert_after(at, &q->node);
}

void as_replica_requeue(struct as_deployment *d, struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_list *n;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        while ((n = as_list_pop(&back[p])))
            as_dispatch_requeue(d, as_request_of(n), now);
    }
    if (d->batched)
        as_dispatch_send_all(d, now);
    if (d->n_suspects)
        as_quarantine_schedule(d, now);
    if (d->has_released_replicas)
        as_quarantine_pull_freed(d, now);
    as_dispatch_balance(d, now);
}

static uint64_t in_flight(const struct as_deployment *d)
{
    uint64_t n = (uint64_t)as_deployment_queued(d) + d->parked;

    for (uint32_t i = 0; i < d->n_replicas; i++)
        n += d->replicas[i]->unanswered;
    return n;
}

bool as_replica_may_retry(struct as_deployment *d, struct as_request *q, enum as_retry rule)
{
    if (rule == AS_RETRY_NEVER || rule == AS_RETRY_UNCOUNTED)
        return rule == AS_RETRY_UNCOUNTED;
    if (q->tries + 1u >= d->conf.retry.attempts ||
        (rule == AS_RETRY_BUDGET && !q->in_budget &&
         d->retries_in_budget >= as_retry_budget(&d->conf.retry, in_flight(d)))) {
        d->stat.replays_refused++;
        return false;
    }
    q->tries++;
    if (rule == AS_RETRY_BUDGET && !q->in_budget) {
        q->in_budget = true;
        d->retries_in_budget++;
    }
    return true;
}

void as_replica_lose_request(struct as_replica *r, struct as_request *q, enum as_loss loss,
                             as_ns now)
{
    struct as_deployment *d = r->deployment;
    enum as_progress progress = q->bound ? AS_PROGRESS_BOUND : AS_PROGRESS_STARTED;
    enum as_retry rule = as_retry_rule(loss, progress, q->idempotent);
    bool waited = q->state == AS_REQ_SENT, waits;

    AS_ASSERT(q->replica == r && (loss == AS_LOSS_LINK || loss == AS_LOSS_UNKNOWN));
    q->ran = true;
    if (q->twin)
        as_hedge_on_lost(d, q, progress, rule);
    waits = q->state == AS_REQ_SENT;
    if (waits && as_replica_may_retry(d, q, rule)) {
        requeue_request(r, q, now);
    } else {
        if (waits)
            as_deployment_answer(d, q, AS_EMAYHAVERUN);
        as_dispatch_detach(q, false);
        if (r->quarantine.suspect == q)
            as_quarantine_done(r, q, false, now);
        as_deployment_release(d, q);
    }
    if (waited)
        as_outlier_on_result(r, true, now);
    as_dispatch_pull(r, now);
    as_dispatch_balance(d, now);
}

/* --- death --- */

static void unlink_replica(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    r->draining = true;
    as_dispatch_update_limits(r);
    as_reservation_end_all(r);
    as_preference_release(r);
    as_multiplex_remove_replica(r);
    as_list_remove(&r->pull);
    if (d->router->on_replica_removed)
        d->router->on_replica_removed(d, r);
    for (uint32_t i = r->index; i + 1 < d->n_replicas; i++) {
        d->replicas[i] = d->replicas[i + 1];
        d->replicas[i]->index = i;
    }
    d->n_replicas--;
    as_dispatch_update_free_bits(d);
    d->n_ejected -= r->breaker.state != AS_BREAKER_CLOSED;
    d->n_absent -= r->n_absent;
    as_width_forget(r);
    d->stat.deaths++;
}

void as_replica_set_unhealthy(struct as_replica *r, uint64_t last_started)
{
    AS_ASSERT(!r->unhealthy);
    r->unhealthy = true;
    r->suspect_to = last_started;
}

/* The last stream of those requests that may have ended r; 0: none. */
static uint64_t last_suspect(const struct as_replica *r, uint64_t last_started, enum as_loss loss)
{
    if (loss == AS_LOSS_CRASHED || loss == AS_LOSS_PENDING)
        return last_started;
    if (r->unhealthy && (loss == AS_LOSS_UNHEALTHY || loss == AS_LOSS_LINK))
        return AS_MIN(last_started, r->suspect_to);
    return 0;
}

/* Decides what happens to q, which r has not answered. */
static void lose_request(struct as_replica *r, struct as_request *q, enum as_progress progress,
                         enum as_loss loss, struct as_pending_verdict *pv,
                         struct as_list back[AS_PRIORITIES], as_ns now)
{
    struct as_deployment *d = r->deployment;
    enum as_retry rule = as_retry_rule(loss, progress, q->idempotent);
    bool waits, retry;

    q->ran = q->ran || progress != AS_PROGRESS_SENT;
    if (q->twin)
        as_hedge_on_lost(d, q, progress, rule);
    waits = q->state == AS_REQ_SENT;
    if (waits && rule != AS_RETRY_NEVER && rule != AS_RETRY_UNCOUNTED &&
        (as_pending_verdict_has_evidence(pv, q) ||
         (rule == AS_RETRY_PENDING && d->conf.verdict_wait))) {
        as_dispatch_detach(q, false);
        as_pending_verdict_park(d, pv, q, now);
        return;
    }
    if (rule == AS_RETRY_PENDING)
        rule = as_retry_rule(AS_LOSS_UNKNOWN, progress, q->idempotent);
    retry = waits && as_replica_may_retry(d, q, rule);
    if (waits && !retry)
        as_deployment_answer(d, q, AS_EMAYHAVERUN);
    as_dispatch_detach(q, false);
    if (retry)
        as_replica_collect_retry(back, q);
    else
        as_pending_verdict_retain(d, pv, q);
}

uint64_t as_replica_free(struct as_replica *r, uint64_t last_started, enum as_loss loss, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_list back[AS_PRIORITIES];
    struct as_pending_verdict *pv = NULL;
    uint64_t suspect_to, number;
    struct as_blame_entry *quarantined;

    unlink_replica(r);
    as_quarantine_update_serving(d, now);
    quarantined = as_quarantine_abort(r);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&back[p]);
    suspect_to = last_suspect(r, last_started, loss);
    if (suspect_to || loss == AS_LOSS_PENDING) {
        pv = as_pending_verdict_new(r, suspect_to, quarantined, now);
    } else {
        as_quarantine_resolve(d, quarantined);
    }
    AS_LIST_EACH(it, &r->sent)
    {
        struct as_request *q = as_request_of(it);

        lose_request(r, q,
                     q->bound                   ? AS_PROGRESS_BOUND
                     : q->stream > last_started ? AS_PROGRESS_SENT
                                                : AS_PROGRESS_STARTED,
                     loss == AS_LOSS_UNHEALTHY && q->stream > suspect_to ? AS_LOSS_KILLED : loss,
                     pv, back, now);
    }
    free(r->of_model);
    free(r);
    number = pv ? as_pending_verdict_start(d, pv, loss, back, now) : 0;
    as_replica_requeue(d, back, now);
    as_fallback_sweep(d, now);
    if (d->n_warming)
        as_width_update(d, now);
    as_outlier_readmit_all(
        d, now); /* last, so that readmitted replicas take the oldest requests of the whole queue */
    as_dispatch_balance(d, now);
    return number;
}
