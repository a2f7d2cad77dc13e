/* Fingerprints. Bodies may be large, and many at once: what is read of them in one turn of the loop
 * is bounded, so that nobody else waits for it. */
#include "core/dispatch/replica.h"

/* What is left of this turn's portion. */
static uint64_t portion(struct as_deployment *d, as_ns now)
{
    if (d->portion_at != now || !d->portion_at) {
        d->portion_at = now;
        d->portion = AS_DEPLOYMENT_PORTION;
    }
    return d->portion;
}

bool as_fingerprint_compute(struct as_deployment *d, const struct as_request *q,
                            struct as_fingerprint *ret_p, as_ns now)
{
    bool first = d->printing != q;

    if (!portion(d, now))
        return false;
    d->printing = q;
    if (!d->ops.fingerprint(d->ctx, q, first, &d->portion, ret_p))
        return false;
    d->printing = NULL;
    ret_p->size = d->ops.sample(d->ctx, q, &ret_p->sample);
    ret_p->model = q->model;
    return true;
}

bool as_fingerprint_use_budget(struct as_deployment *d, uint64_t bytes, as_ns now)
{
    uint64_t left = portion(d, now);

    d->portion -= AS_MIN(bytes, left);
    return left > 0;
}
