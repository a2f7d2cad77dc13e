/* Recalls: requests that wait at one replica are asked back when another has a free slot. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

#define RECALL_MAX 256u /* requests of one RECALL */

/* --- requests that wait at a replica --- */

void as_recall_walk_init(struct as_recall_walk *it, const struct as_replica *r)
{
    *it = (struct as_recall_walk){.r = r, .at = r->sent.prev, .left = as_replica_waiting(r)};
    it->front = it->left - r->behind;
    for (uint32_t m = 0; r->behind && m < r->deployment->queue.n_lanes; m++)
        r->of_model[m].seen = as_replica_behind_cap(r, m);
}

struct as_request *as_recall_walk_next(struct as_recall_walk *it)
{
    const struct as_replica *r = it->r;

    while (it->left) {
        struct as_request *q = as_request_of(it->at);

        it->at = it->at->prev;
        if (q->beyond)
            continue;
        if (r->behind && r->of_model[q->model].seen)
            r->of_model[q->model].seen--;
        else if (it->front)
            it->front--;
        else
            continue;
        it->left--;
        return q;
    }
    return NULL;
}

/* --- recalls --- */

static uint32_t free_slots(const struct as_deployment *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_free; i++)
        n += d->free[i]->width - as_replica_front_calls(d->free[i]);
    return n;
}

/* How many requests of q's model could start at once, in all replicas together. */
static uint32_t room_of_model(const struct as_deployment *d, const struct as_request *q)
{
    const struct as_lane *l = as_queue_lane(&d->queue, q->model);
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_free; i++) {
        const struct as_replica *r = d->free[i];
        uint32_t room = r->width - as_replica_front_calls(r);

        if (!as_replica_can_execute(r, q))
            continue;
        if (as_replica_is_capped(r, q->model))
            room = AS_MIN(room, l->cap - r->of_model[q->model].calls);
        n += room;
    }
    return n;
}

/* Requests under recall take up free slots, too: a slot is recalled for only once. */
bool as_recall_is_due(const struct as_deployment *d, const struct as_request *q)
{
    const struct as_lane *l = as_queue_lane(&d->queue, q->model);

    if (q->state != AS_REQ_SENT || q->recalled || q->started || q->bound || q->pinned || q->twin ||
        as_request_is_held(q))
        return false;
    return room_of_model(d, q) > (l && !d->batched ? l->recalled : 0);
}

/* Recalls up to `want` of the newest requests that wait at r; returns how many. */
static uint32_t recall_from(struct as_replica *r, uint32_t want)
{
    struct as_deployment *d = r->deployment;
    struct as_request *batch[RECALL_MAX];
    uint32_t n = 0;
    const struct as_batch *last = NULL;
    struct as_recall_walk it;
    struct as_request *q;

    want = AS_MIN(want, RECALL_MAX);
    as_recall_walk_init(&it, r);
    while (n < RECALL_MAX && (q = as_recall_walk_next(&it))) {
        if (n >= want && (!q->batch || q->batch != last))
            break; /* else it goes on to the rest of the batch, which can be one batch again at
                      another replica */
        if (!as_recall_is_due(d, q))
            continue;
        batch[RECALL_MAX - ++n] = q; /* filled from the back, so that it is in stream order */
        as_replica_mark_recalled(r, q);
        last = q->batch;
    }
    if (!n)
        return 0;
    r->recalling = true;
    as_dispatch_update_limits(r);
    d->stat.recalled += n;
    d->ops.recall(d->ctx, r, batch + RECALL_MAX - n, n);
    return n;
}

/* The replica at which most requests wait, except those that come before `after` in that order. */
static struct as_replica *most_waiting(struct as_deployment *d, const struct as_replica *after)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];
        uint32_t n = as_replica_waiting(r);

        if (!n || r->recalling || r == after)
            continue;
        if (after && (n > as_replica_waiting(after) ||
                      (n == as_replica_waiting(after) && r->index < after->index)))
            continue;
        if (!best || n > as_replica_waiting(best))
            best = r;
    }
    return best;
}

void as_recall_start(struct as_deployment *d)
{
    struct as_replica *r = NULL;
    uint32_t idle = d->ends ? 0 : free_slots(d);

    while (idle > d->recalled && (r = most_waiting(d, r)))
        recall_from(r, idle - d->recalled);
}
