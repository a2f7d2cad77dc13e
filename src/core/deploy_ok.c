/* The invariants of a deployment, as replica.h states them: for asserts, tests and the simulator.
 */
#include "core/replica.h"

/* The members of a batch stand together, and are as many as it says. */
static bool batches_ok(const struct as_replica *r)
{
    uint32_t packed = 0;

    for (struct as_list *it = r->sent.next; it != &r->sent;) {
        const struct as_request *q = AS_LIST_ENTRY(it, struct as_request, node);
        uint32_t n = 0;

        for (; q->batch && it != &r->sent; it = it->next, n++) {
            const struct as_request *o = AS_LIST_ENTRY(it, struct as_request, node);

            if (o->batch != q->batch || o->model != q->model)
                break;
        }
        if (q->batch && n != q->batch->n)
            return false;
        packed += n ? n - 1 : 0;
        it = n ? it : it->next;
    }
    return packed == r->packed && (!packed || r->deploy->batched);
}

static bool sent_ok(const struct as_replica *r, uint32_t *recalled)
{
    uint32_t n = 0;
    uint64_t stream = 0;

    for (struct as_list *it = r->sent.next; it != &r->sent; it = it->next, n++) {
        const struct as_request *q = AS_LIST_ENTRY(it, struct as_request, node);

        if (q->state != AS_REQ_SENT && q->state != AS_REQ_ABANDONED)
            return false;
        if (!as_request_ok(q) || q->replica != r || q->stream <= stream)
            return false;
        stream = q->stream;
        *recalled += q->recalled;
    }
    return n == r->unanswered && stream <= r->last_stream && batches_ok(r);
}

static bool models_ok(const struct as_replica *r)
{
    uint32_t total = 0, absent = 0;

    if (!r->of_model)
        return r->deploy->queue.n_lanes == 0 && !r->n_absent;
    for (uint32_t m = 0; m < AS_DEPLOY_MODELS_MAX; m++) {
        total += r->of_model[m].calls;
        absent += r->of_model[m].absent;
    }
    AS_LIST_EACH(it, &r->sent)
    {
        if (!r->of_model[AS_LIST_ENTRY(it, struct as_request, node)->model].calls)
            return false;
    }
    return total == as_replica_calls(r) && absent == r->n_absent;
}

static bool replica_ok(const struct as_replica *r)
{
    const struct as_deploy *d = r->deploy;
    bool is_free = as_replica_calls(r) < r->width;
    uint32_t recalled = 0;

    if (r->held || r->limit != as_dispatch_limit(r) || r->width != as_dispatch_width(r) ||
        !sent_ok(r, &recalled) || !models_ok(r))
        return false;
    if (recalled != r->recalled || (recalled && !r->recalling))
        return false;
    if (is_free != (r->free_at != AS_NOWHERE))
        return false;
    if (is_free && (r->free_at >= d->n_free || d->free[r->free_at] != r))
        return false;
    /* rule 1 */
    if (as_replica_has_room(r))
        return !as_queue_first(&d->queue, r->of_model, r->most_slots);
    return true;
}

/* Rule 2: nothing is left in r that could fill a free slot elsewhere. */
static bool balanced(const struct as_replica *r)
{
    uint32_t waiting = as_replica_waiting(r);
    struct as_list *it = r->sent.prev;

    for (; waiting && !r->recalling; waiting--, it = it->prev) {
        if (as_dispatch_recallable(r->deploy, AS_LIST_ENTRY(it, struct as_request, node)))
            return false;
    }
    return true;
}

bool as_deploy_ok(const struct as_deploy *d)
{
    uint32_t ongoing = 0, prefetched = 0, recalled = 0, n_free = 0, idle = 0, absent = 0;

    if (!as_queue_ok(&d->queue) || !as_heap_ok(&d->deadlines) || (d->down && as_deploy_queued(d)) ||
        !as_trial_ok(d) || !as_grave_ok(d))
        return false;
    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct as_replica *r = d->all[i];

        if (r->index != i || r->deploy != d || !replica_ok(r))
            return false;
        ongoing += as_replica_ongoing(r);
        prefetched += as_replica_waiting(r);
        recalled += r->recalled;
        absent += r->n_absent;
        if (r->free_at != AS_NOWHERE) {
            n_free++;
            idle += r->width - as_replica_calls(r);
        }
    }
    if (ongoing != d->ongoing || prefetched != d->prefetched || recalled != d->recalled ||
        n_free != d->n_free || absent != d->n_absent)
        return false;
    for (uint32_t i = 0; idle > d->recalled && i < d->n_all; i++) {
        if (!balanced(d->all[i]))
            return false;
    }
    return true;
}
