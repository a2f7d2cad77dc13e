/* Requests on a cycle. What they would wait for may wait for them, so they never wait for a slot.
 */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

/* May q execute at r, beyond its slots? */
static bool in_rotation(const struct as_replica *r, const struct as_request *q)
{
    return as_replica_is_in_rotation(r, q->model);
}

bool as_replica_is_in_rotation(const struct as_replica *r, uint32_t model)
{
    return r->slots && as_replica_is_open(r) && as_replica_serves(r, model);
}

/* r drains, but what it still executes may wait for q; it stays until that has ended. */
static bool finishes(const struct as_replica *r, const struct as_request *q)
{
    return r->draining && r->unanswered && !r->unhealthy && r->slots && !r->paused &&
           r->breaker.state != AS_BREAKER_OPEN && r->quarantine.state != AS_QUARANTINE_ALONE &&
           as_replica_serves(r, q->model);
}

/* Replicas that are probed are used only if there is no other. */
static bool is_better(const struct as_replica *a, const struct as_replica *b)
{
    if (a->breaker.state != b->breaker.state)
        return a->breaker.state == AS_BREAKER_CLOSED;
    return a->unanswered != b->unanswered ? a->unanswered < b->unanswered : a->used_at < b->used_at;
}

static struct as_replica *find_best(const struct as_deployment *d, const struct as_request *q,
                                    bool (*may)(const struct as_replica *r,
                                                const struct as_request *q))
{
    struct as_replica *best = NULL;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        if (may(r, q) && (!best || is_better(r, best)))
            best = r;
    }
    return best;
}

/* A pause is over before the current call of the deployment returns. */
static bool is_paused(const struct as_replica *r, const struct as_request *q)
{
    return r->paused && !r->draining && r->slots && as_replica_serves(r, q->model);
}

struct as_replica *as_beyond_find(const struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *r = find_best(d, q, in_rotation);

    return r || find_best(d, q, is_paused) ? r : find_best(d, q, finishes);
}

void as_beyond_send(struct as_replica *r, struct as_request *q, as_ns now)
{
    AS_ASSERT(!q->batch && !q->lane);
    r->used_at = ++r->deployment->last_use;
    q->beyond = true;
    r->beyond++;
    r->deployment->beyond++;
    as_dispatch_bind(r, q, now);
}

void as_beyond_strand(struct as_deployment *d, struct as_request *q)
{
    struct as_list *at = d->stranded.prev;

    while (at != &d->stranded && as_queue_before(q, as_request_of(at)))
        at = at->prev;
    as_list_insert_after(at, &q->node);
    d->n_stranded++;
}

void as_beyond_place(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_replica *r = as_beyond_find(d, q);

    if (r)
        as_beyond_send(r, q, now);
    else
        as_beyond_strand(d, q);
}

void as_beyond_dequeue(struct as_deployment *d, struct as_request *q)
{
    as_list_remove(&q->node);
    d->n_stranded--;
}

struct as_request *as_beyond_first(const struct as_deployment *d, uint32_t model)
{
    for (struct as_list *n = d->stranded.next; n != &d->stranded; n = n->next) {
        if (model == UINT32_MAX || as_request_of(n)->model == model)
            return as_request_of(n);
    }
    return NULL;
}

void as_beyond_fill(struct as_deployment *d, as_ns now)
{
    AS_LIST_EACH(n, &d->stranded)
    {
        struct as_request *q = as_request_of(n);

        if (!as_beyond_find(d, q))
            continue;
        as_beyond_dequeue(d, q);
        as_dispatch_enqueue(d, q, now);
    }
}

bool as_beyond_ok(const struct as_deployment *d)
{
    uint32_t n = 0;

    for (struct as_list *i = d->stranded.next; i != &d->stranded; i = i->next, n++) {
        const struct as_request *q = as_request_of(i);

        if (q->state != AS_REQ_QUEUED || !q->on_cycle || q->lane || !as_request_ok(q) ||
            (i->prev != &d->stranded && !as_queue_before(as_request_of(i->prev), q)))
            return false;
        if (as_beyond_find(d, q)) /* rule 3 */
            return false;
    }
    return n == d->n_stranded;
}
