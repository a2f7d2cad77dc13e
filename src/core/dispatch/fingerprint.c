/* Fingerprints. Bodies may be large, and many at once: what is read of them in one turn of the loop
 * is bounded, so that nobody else waits for it. */
#include "core/dispatch/replica.h"

/* What is left of this turn's portion. */
static uint64_t refill_portion(struct as_deployment *d, as_ns now)
{
    if (d->portion_turn != now || !d->portion_turn) {
        d->portion_turn = now;
        d->portion_left = AS_DEPLOYMENT_PORTION;
    }
    return d->portion_left;
}

bool as_fingerprint_compute(struct as_deployment *d, const struct as_request *q,
                            struct as_fingerprint *ret_p, as_ns now)
{
    bool first = d->fingerprinting != q;

    if (!refill_portion(d, now))
        return false;
    d->fingerprinting = q;
    if (!d->ops.fingerprint(d->ctx, q, first, &d->portion_left, ret_p))
        return false;
    d->fingerprinting = NULL;
    ret_p->size = d->ops.sample(d->ctx, q, &ret_p->sample);
    ret_p->model = q->model;
    return true;
}

bool as_fingerprint_use_budget(struct as_deployment *d, uint64_t bytes, as_ns now)
{
    uint64_t left = refill_portion(d, now);

    d->portion_left -= AS_MIN(bytes, left);
    return left > 0;
}
