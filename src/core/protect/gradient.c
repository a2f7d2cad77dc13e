#include "core/protect/gradient.h"

#define ROOM       4.0   /* what the limit grows by while nothing is slower */
#define STEP       0.2   /* of the way to the new limit */
#define LONG       600.0 /* updates of the long average … */
#define FEW        10u   /* … which is a plain mean of the first ones */
#define RECOVERY   0.95  /* how fast the long average falls when calls have become much faster */
#define MUCH       2.0
#define LEAST_PART 0.5

uint32_t as_gradient_limit(const struct as_gradient *g, uint32_t slots)
{
    uint32_t limit = g->limit > 0 ? (uint32_t)g->limit : AS_GRADIENT_FIRST;

    return AS_MIN(slots, AS_MAX(limit, 1));
}

static void update_long(struct as_gradient *g, double took)
{
    double part = g->updates < FEW ? 1.0 / (g->updates + 1) : 2 / (LONG + 1);

    g->updates += g->updates < FEW;
    g->longer += (took - g->longer) * part;
    if (g->longer > MUCH * took)
        g->longer *= RECOVERY;
}

bool as_gradient_add(struct as_gradient *g, uint32_t slots, as_ns took, uint32_t busy)
{
    double mean, part;

    if (g->limit <= 0)
        g->limit = as_gradient_limit(g, slots);
    g->sum += (double)AS_MAX(took, 1);
    g->busy = AS_MAX(g->busy, busy);
    if (++g->n < AS_GRADIENT_WINDOW)
        return false;
    mean = g->sum / g->n;
    busy = g->busy;
    g->sum = 0;
    g->n = g->busy = 0;
    update_long(g, mean);
    if (2.0 * busy < g->limit) /* nothing to be learned from */
        return false;
    part = AS_GRADIENT_TOLERANCE * g->longer / mean;
    part = AS_MIN(AS_MAX(part, LEAST_PART), 1.0);
    g->limit += STEP * (g->limit * part + ROOM - g->limit);
    g->limit = AS_MIN(AS_MAX(g->limit, 1.0), (double)AS_MAX(slots, 1));
    return true;
}
