/* Fingerprints of request bodies. Bodies may be large and many. One turn of the loop reads at most
 * AS_DEPLOYMENT_PORTION bytes of them, so that other requests do not wait. */
#include "core/dispatch/faults/fingerprint.h"

#include "core/dispatch/deployment_internal.h"

/* Bytes that may still be read in this turn. A new turn is recognised by its time. */
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
