/* Counts by model, anew: after caps, grants or batching have changed. */
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

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
