/* Requests that need not wait here: those that have another deployment to fall back to, and
 * mirrored copies, whose answer nobody reads. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

bool as_deployment_serves(const struct as_deployment *d, uint32_t model)
{
    bool some_in = false, some_out = false;

    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (!as_replica_is_ready(r))
            continue;
        some_in = some_in || r->breaker.state == AS_BREAKER_CLOSED;
        if (!as_replica_serves(r, model))
            continue;
        if (r->breaker.state != AS_BREAKER_OPEN)
            return true;
        some_out = true;
    }
    return some_out && !some_in; /* as_outlier_readmit_all is about to readmit them */
}

int as_fallback_check(struct as_deployment *d, const struct as_request *q, bool is_full)
{
    if (q->is_mirror) {
        bool room = !d->down && !is_full && !d->blame.n && as_dispatch_find_free(d, q);

        d->stat.mirrored += room;
        d->stat.mirror_dropped += !room;
        return room ? 0 : AS_EFULL;
    }
    return as_deployment_serves(d, q->model) ? 0 : AS_EUNAVAILABLE;
}

bool as_fallback_may_leave(const struct as_deployment *d, const struct as_request *q)
{
    return q->is_mirror || (q->has_fallback && !q->ran && !as_deployment_serves(d, q->model));
}

void as_fallback_sweep(struct as_deployment *d, as_ns now)
{
    struct as_list all, *n;

    if (!(d->queue.n || d->n_preferring || d->n_stranded) ||
        (!d->n_absent && as_deployment_serves(d, 0)))
        return;
    AS_LIST_EACH(i, &d->stranded)
    {
        if (!as_fallback_may_leave(d, as_request_of(i)))
            continue;
        as_beyond_dequeue(d, as_request_of(i));
        as_deployment_fail(d, as_request_of(i), AS_EUNAVAILABLE);
    }
    AS_LIST_EACH(i, &d->preferring)
    {
        struct as_request *q = as_request_of(i);

        if (!as_fallback_may_leave(d, q))
            continue;
        as_preference_dequeue(d, q);
        as_deployment_fail(d, q, AS_EUNAVAILABLE);
    }
    as_list_init(&all);
    as_queue_pop_all(&d->queue, &all);
    while ((n = as_list_pop(&all))) {
        struct as_request *q = as_request_of(n);

        if (as_fallback_may_leave(d, q))
            as_deployment_fail(d, q, AS_EUNAVAILABLE);
        else
            as_queue_push(&d->queue, q);
    }
    as_dispatch_update_lanes(d, now);
    if (d->batched) /* a lane may have become due */
        as_dispatch_send_all(d, now);
    if (d->n_suspects) /* turns_owed may have become 0 */
        as_quarantine_schedule(d, now);
}
