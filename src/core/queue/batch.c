#include "core/queue/batch.h"

#include <string.h>

const char *as_batch_check(const struct as_batch_conf *c)
{
    if (c->max_size > AS_BATCH_MAX)
        return "max_batch_size must be at most 65535";
    if (!c->max_size)
        return c->max_wait || c->n_preferred || c->ragged ? "batching needs max_batch_size" : NULL;
    if (c->max_wait > AS_BATCH_WAIT_MAX)
        return "max_wait must be at most 60 s";
    if (c->n_preferred > AS_BATCH_PREFERRED)
        return "there may be at most 16 preferred sizes";
    for (uint32_t i = 0; i < c->n_preferred; i++) {
        if (c->preferred[i] < 1 || c->preferred[i] > c->max_size)
            return "preferred sizes must be 1 to max_batch_size";
        if (i && c->preferred[i] <= c->preferred[i - 1])
            return "preferred sizes must rise";
    }
    return NULL;
}

bool as_batch_eq(const struct as_batch_conf *a, const struct as_batch_conf *b)
{
    return a->max_size == b->max_size && a->max_wait == b->max_wait && a->ragged == b->ragged &&
           a->n_preferred == b->n_preferred &&
           memcmp(a->preferred, b->preferred, a->n_preferred * sizeof(a->preferred[0])) == 0;
}

uint32_t as_batch_limit(const struct as_batch_conf *c, uint32_t items)
{
    for (uint32_t i = c->n_preferred; i > 0; i--) {
        if (c->preferred[i - 1] <= items)
            return c->preferred[i - 1];
    }
    return c->max_size;
}

as_ns as_batch_hold_until(const struct as_batch_conf *c, as_ns deadline, as_ns service, as_ns now)
{
    as_ns wait = c->max_wait, half;

    if (deadline != AS_NEVER) {
        half = deadline > now + service ? (deadline - now - service) / 2 : 0;
        if (half < wait)
            wait = service ? half : 0;
    }
    return wait ? now + wait : 0;
}
