/* Who gets what: binding requests to replicas, and taking back what waits at the wrong one. */
#include "core/replica.h"

#define RECALL_MAX 256u /* requests of one RECALL */

void as_dispatch_list(struct as_replica *r, bool is_free)
{
    struct as_deploy *d = r->deploy;

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

/* Prefetch: as many as fit in the deployment's measure of work. */
uint32_t as_dispatch_limit(const struct as_replica *r)
{
    uint32_t work = (uint32_t)r->deploy->conf.prefetch_work, n;

    if (!as_replica_open(r))
        return 0;
    if (!r->prefetch || !r->slots || r->recalling || !r->service || r->service > work)
        return r->slots;
    n = work / (uint32_t)r->service;
    return r->slots + AS_MIN(n, r->prefetch);
}

void as_dispatch_relimit(struct as_replica *r)
{
    r->limit = as_dispatch_limit(r);
    as_dispatch_refresh(r);
}

struct as_replica *as_dispatch_free_for(struct as_deploy *d, const struct as_request *q)
{
    if (d->n_free == 0)
        return NULL;
    if (d->n_free == 1)
        return as_replica_fits(d->free[0], q) ? d->free[0] : NULL;
    return d->router->pick(d->free, d->n_free, q, &d->rand);
}

struct as_replica *as_dispatch_prefetch_for(struct as_deploy *d, const struct as_request *q)
{
    struct as_replica *best = NULL;

    /* rule 1: whoever waits in the shared FIFO has found no room either */
    if (d->queue.n && !d->queue.n_lanes)
        return NULL;
    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];

        if (as_replica_has_room(r) && as_replica_fits(r, q) &&
            (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

void as_dispatch_send(struct as_replica *r, struct as_request *q, as_ns now)
{
    struct as_deploy *d = r->deploy;

    as_request_move(q, AS_REQ_SENT);
    as_list_push(&r->sent, &q->node);
    q->replica = r;
    q->sent = now;
    if (q->attempts)
        d->stat.replayed++;
    if (q->attempts < UINT8_MAX)
        q->attempts++;
    r->used = ++d->uses;
    if (r->of_model)
        r->of_model[q->model]++;
    if (r->unanswered < r->slots)
        d->ongoing++;
    else
        d->prefetched++;
    r->unanswered++;
    as_dispatch_refresh(r);
    d->stat.dispatched++;
    as_hist_add(&d->stat.queue, now - q->arrived);
    d->ops.send(d->ctx, r, q);
    AS_ASSERT(q->stream > r->last_stream);
    r->last_stream = q->stream;
}

void as_dispatch_detach(struct as_request *q)
{
    struct as_replica *r = q->replica;
    struct as_deploy *d = r->deploy;

    as_list_remove(&q->node);
    if (r->of_model)
        r->of_model[q->model]--;
    if (q->recalled) {
        r->recalled--;
        d->recalled--;
    }
    q->recalled = q->started = false;
    q->replica = NULL;
    r->unanswered--;
    if (r->unanswered < r->slots)
        d->ongoing--;
    else
        d->prefetched--;
    as_dispatch_refresh(r);
}

/* One that waits; false when it ended instead, because its deadline has passed. */
static bool in_time(struct as_deploy *d, struct as_request *q, as_ns now)
{
    if (q->deadline > now)
        return true;
    as_deploy_fail(d, q, AS_EDEADLINE);
    return false;
}

void as_dispatch_again(struct as_deploy *d, struct as_request *q, as_ns now)
{
    struct as_replica *r;

    if (!in_time(d, q, now))
        return;
    r = as_dispatch_free_for(d, q);
    if (!r)
        r = as_dispatch_prefetch_for(d, q);
    if (!r && d->down) {
        as_deploy_fail(d, q, AS_EUNAVAILABLE);
        return;
    }
    as_request_move(q, AS_REQ_QUEUED);
    if (r)
        as_dispatch_send(r, q, now);
    else
        as_queue_push(&d->queue, q);
}

void as_dispatch_fill(struct as_replica *r, as_ns now)
{
    struct as_deploy *d = r->deploy;

    while (d->queue.n && as_replica_has_room(r)) {
        struct as_request *q = as_queue_first(&d->queue, r->of_model, r->most_slots);

        if (!q)
            return;
        as_queue_remove(&d->queue, q);
        if (in_time(d, q, now))
            as_dispatch_send(r, q, now);
    }
}

/* --- recalls --- */

static uint32_t free_slots(const struct as_deploy *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->n_free; i++)
        n += d->free[i]->slots - d->free[i]->unanswered;
    return n;
}

bool as_dispatch_recallable(const struct as_deploy *d, const struct as_request *q)
{
    if (q->state != AS_REQ_SENT || q->recalled || q->started)
        return false;
    for (uint32_t i = 0; i < d->n_free; i++) {
        if (as_replica_fits(d->free[i], q))
            return true;
    }
    return false;
}

/* Asks up to `want` streams back, the newest; returns how many. */
static uint32_t recall(struct as_replica *r, uint32_t want)
{
    struct as_deploy *d = r->deploy;
    struct as_request *batch[RECALL_MAX];
    uint32_t n = 0, waiting = as_replica_waiting(r);
    struct as_list *it = r->sent.prev;

    want = AS_MIN(want, RECALL_MAX);
    for (; waiting && n < want; waiting--, it = it->prev) {
        struct as_request *q = AS_LIST_ENTRY(it, struct as_request, node);

        if (as_dispatch_recallable(d, q))
            batch[RECALL_MAX - ++n] = q; /* filled from the back: stream order */
    }
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        batch[RECALL_MAX - n + i]->recalled = true;
    r->recalling = true;
    as_dispatch_relimit(r);
    r->recalled += n;
    d->recalled += n;
    d->stat.recalled += n;
    d->ops.recall(d->ctx, r, batch + RECALL_MAX - n, n);
    return n;
}

/* The replica with most to recall, in falling order: `after` is the one that was asked before. */
static struct as_replica *most_waiting(struct as_deploy *d, const struct as_replica *after)
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_all; i++) {
        struct as_replica *r = d->all[i];
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

void as_dispatch_recall(struct as_deploy *d)
{
    struct as_replica *r = NULL;
    uint32_t idle = free_slots(d);

    while (idle > d->recalled && (r = most_waiting(d, r)))
        recall(r, idle - d->recalled);
}

/* --- caps --- */

static void count_models(struct as_replica *r)
{
    r->of_model = as_xalloc(AS_DEPLOY_MODELS_MAX * sizeof(r->of_model[0]));
    AS_LIST_EACH(n, &r->sent)
    r->of_model[AS_LIST_ENTRY(n, struct as_request, node)->model]++;
}

void as_dispatch_restrict(struct as_deploy *d)
{
    for (uint32_t m = 0; m < AS_DEPLOY_MODELS_MAX; m++) {
        if (d->cap_of[m] && d->cap_of[m] < d->most_slots && !as_queue_lane(&d->queue, m))
            as_queue_restrict(&d->queue, m, d->cap_of[m]);
    }
    for (uint32_t i = 0; d->queue.n_lanes && i < d->n_all; i++) {
        if (!d->all[i]->of_model)
            count_models(d->all[i]);
    }
}
