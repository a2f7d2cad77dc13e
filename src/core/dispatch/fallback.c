/* Requests that need not wait here: those that another deployment takes, and copies of another's,
 * for which nobody waits. */
#include "core/dispatch/replica.h"

bool as_deploy_serves(const struct as_deploy *d, uint32_t model)
{
    bool some_in = false, some_out = false;

    for (uint32_t i = 0; i < d->n_all; i++) {
        const struct as_replica *r = d->all[i];

        if (!r->slots || r->draining)
            continue;
        some_in = some_in || r->breaker.state == AS_BREAKER_CLOSED;
        if (!as_replica_has(r, model))
            continue;
        if (r->breaker.state != AS_BREAKER_OPEN)
            return true;
        some_out = true;
    }
    return some_out && !some_in; /* as_eject_last is about to let them in */
}

int as_elsewhere_look(struct as_deploy *d, const struct as_request *q, bool is_full)
{
    if (q->spare) {
        bool room = !d->down && !is_full && !d->blame.n && as_dispatch_free_for(d, q);

        d->stat.mirrored += room;
        d->stat.mirror_dropped += !room;
        return room ? 0 : AS_EFULL;
    }
    return as_deploy_serves(d, q->model) ? 0 : AS_EUNAVAILABLE;
}

bool as_elsewhere_leaves(const struct as_deploy *d, const struct as_request *q)
{
    return q->spare || (q->elsewhere && !q->ran && !as_deploy_serves(d, q->model));
}

void as_elsewhere_sweep(struct as_deploy *d, as_ns now)
{
    struct as_list all, *n;

    if (!d->queue.n || (!d->n_absent && as_deploy_serves(d, 0)))
        return;
    as_list_init(&all);
    as_queue_take(&d->queue, &all);
    while ((n = as_list_pop(&all))) {
        struct as_request *q = AS_LIST_ENTRY(n, struct as_request, node);

        if (as_elsewhere_leaves(d, q))
            as_deploy_fail(d, q, AS_EUNAVAILABLE);
        else
            as_queue_push(&d->queue, q);
    }
    AS_LIST_EACH(it, &d->queue.active)
    {
        struct as_lane *l = AS_LIST_ENTRY(it, struct as_lane, node);

        if (l->batching)
            as_dispatch_hold(d, l, now);
    }
    if (d->batched) /* what was put back may have come due */
        as_dispatch_flow(d, now);
}
