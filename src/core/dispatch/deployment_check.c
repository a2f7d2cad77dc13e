/* Checks the invariants of a deployment that deployment_internal.h states; for asserts, tests and
 * the simulator. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"
#include "core/dispatch/faults/pending_verdict.h"
#include "core/dispatch/hedge.h"
#include "core/dispatch/width.h"

/* The requests of a batch are neighbours in `sent`, and their number is that of the batch. */
static bool batches_ok(const struct as_replica *r)
{
    uint32_t slotless = 0;

    for (struct as_list *it = r->sent.next; it != &r->sent;) {
        const struct as_request *q = as_request_of(it);
        uint32_t n = 0;

        for (; q->batch && it != &r->sent; it = it->next, n++) {
            const struct as_request *o = as_request_of(it);

            if (o->batch != q->batch || o->model != q->model)
                break;
        }
        if (q->batch && n != q->batch->n)
            return false;
        slotless += n ? n - 1 : 0;
        it = n ? it : it->next;
    }
    return slotless == r->slotless && (!slotless || r->deployment->batched);
}

static bool sent_ok(const struct as_replica *r, uint32_t *recalled)
{
    uint32_t n = 0, beyond = 0, reserved = 0, in_slots = 0;
    uint64_t stream = 0;

    for (struct as_list *it = r->sent.next; it != &r->sent; it = it->next, n++) {
        const struct as_request *q = as_request_of(it);

        if (q->state != AS_REQ_SENT && q->state != AS_REQ_ABANDONED)
            return false;
        if (!as_request_ok(q) || q->replica != r)
            return false;
        reserved += as_request_is_held(q);
        in_slots += as_request_is_held(q) && !q->beyond;
        if (!as_request_is_held(q) && q->stream <= stream)
            return false;
        if (!as_request_is_held(q))
            stream = q->stream;
        *recalled += q->recalled;
        beyond += q->beyond;
    }
    return n == r->unanswered && beyond == r->beyond && reserved == r->reserved &&
           (!in_slots || as_replica_is_open(r) || r->quarantine.state != AS_QUARANTINE_NONE) &&
           stream <= r->last_stream && batches_ok(r);
}

static bool models_ok(const struct as_replica *r)
{
    uint32_t total = 0, absent = 0, behind = 0;

    if (!r->of_model)
        return r->deployment->queue.n_lanes == 0 && !r->n_absent && !r->behind;
    for (uint32_t m = 0; m < AS_DEPLOYMENT_MODELS_MAX; m++) {
        total += r->of_model[m].calls;
        absent += r->of_model[m].absent;
        behind += as_replica_behind_cap(r, m);
    }
    AS_LIST_EACH(it, &r->sent)
    {
        if (!as_request_of(it)->beyond && !r->of_model[as_request_of(it)->model].calls)
            return false;
    }
    return total == r->unanswered - r->slotless - r->beyond && absent == r->n_absent &&
           behind == r->behind;
}

static bool replica_ok(const struct as_replica *r)
{
    const struct as_deployment *d = r->deployment;
    bool is_free = as_replica_front_calls(r) < r->width;
    struct as_replica_capacity capacity = as_dispatch_capacity(r);
    uint32_t recalled = 0;

    if (r->paused || r->limit != as_dispatch_limit(r) || r->width != as_dispatch_width(r) ||
        !sent_ok(r, &recalled) || !models_ok(r))
        return false;
    if (recalled != r->recalled || (recalled && !r->recalling))
        return false;
    if (is_free != (r->free_at != AS_NOWHERE))
        return false;
    if (is_free && (r->free_at >= d->n_free || d->free[r->free_at] != r))
        return false;
    if (is_free && r->free_load != r->unanswered)
        return false;
    /* of longer lines not all are looked at: AS_LINE_SCAN */
    if (is_free && d->n_preferring <= AS_LINE_SCAN && as_preference_has_for(r))
        return false;
    return !as_queue_first_for(&d->queue, &capacity); /* rule 1 */
}

/* Rule 2: no request that waits at r could fill a free slot at another replica. */
static bool balanced(const struct as_replica *r)
{
    struct as_recall_walk it;
    const struct as_request *q;

    as_recall_walk_init(&it, r);
    while (!r->recalling && (q = as_recall_walk_next(&it))) {
        if (as_recall_is_due(r->deployment, q))
            return false;
    }
    return true;
}

static bool lanes_ok(const struct as_deployment *d)
{
    uint32_t recalled = 0;

    for (uint32_t m = 0; m < d->queue.n_lanes; m++)
        recalled += d->queue.lanes[m] ? d->queue.lanes[m]->recalled : 0;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        AS_LIST_EACH(n, &d->replicas[i]->sent)
        {
            const struct as_request *q = as_request_of(n);

            recalled -= q->recalled && as_queue_lane(&d->queue, q->model);
        }
    }
    return !recalled;
}

bool as_deployment_ok(const struct as_deployment *d)
{
    uint32_t ongoing = 0, prefetched = 0, recalled = 0, n_free = 0, idle = 0, absent = 0,
             beyond = 0, reserved = 0;

    if (!as_queue_ok(&d->queue) || !as_due_heap_ok(&d->deadlines) ||
        (d->down && as_deployment_queued(d)) || !as_quarantine_ok(d) || !as_pending_verdict_ok(d) ||
        !lanes_ok(d) || !as_beyond_ok(d) || !as_preference_ok(d) || !as_width_ok(d) ||
        !as_hedge_ok(d))
        return false;
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (r->index != i || r->deployment != d || !replica_ok(r))
            return false;
        ongoing += as_replica_ongoing(r);
        prefetched += as_replica_waiting(r);
        recalled += r->recalled;
        beyond += r->beyond;
        reserved += r->reserved;
        absent += r->n_absent;
        if (r->free_at != AS_NOWHERE) {
            n_free++;
            idle += r->width - as_replica_front_calls(r);
        }
    }
    if (ongoing != d->ongoing || prefetched != d->prefetched || recalled != d->recalled ||
        beyond != d->beyond || reserved != d->reserved || n_free != d->n_free ||
        absent != d->n_absent)
        return false;
    for (uint32_t i = 0; idle > d->recalled && i < d->n_replicas; i++) {
        if (!balanced(d->replicas[i]))
            return false;
    }
    return true;
}
