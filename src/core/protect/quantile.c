#include "core/protect/quantile.h"

#define UNIT_BITS 6u /* 64 ns */
#define SUB_BITS  4u /* 16 buckets for each power of two */
#define SUBS      (1u << SUB_BITS)

static uint32_t bucket_of(as_ns v)
{
    uint64_t u = AS_MIN(v, AS_QUANTILE_MAX) >> UNIT_BITS;
    uint32_t e;

    if (u < SUBS)
        return (uint32_t)u;
    e = 63u - (uint32_t)__builtin_clzll(u) - SUB_BITS;
    return (e + 1) * SUBS + (uint32_t)(u >> e & (SUBS - 1));
}

/* The largest duration of the bucket. */
static as_ns top_of(uint32_t bucket)
{
    uint64_t m = bucket % SUBS;

    if (bucket < SUBS)
        return (m + 1) << UNIT_BITS;
    return (SUBS + m + 1) << (bucket / SUBS - 1) << UNIT_BITS;
}

void as_quantile_init(struct as_quantile *q, uint32_t per_mille)
{
    AS_ASSERT(per_mille >= 1 && per_mille <= 999);
    *q = (struct as_quantile){.per_mille = per_mille};
}

/* How many durations are at most the quantile. */
static uint32_t rank_of(const struct as_quantile *q)
{
    return (q->n * q->per_mille + 999) / 1000;
}

void as_quantile_add(struct as_quantile *q, as_ns v)
{
    uint32_t bucket = bucket_of(v), old = q->window[q->next], rank;

    AS_ASSERT(bucket < AS_QUANTILE_BUCKETS);
    if (q->n == AS_QUANTILE_WINDOW) {
        q->count[old]--;
        q->below -= old < q->at;
    } else {
        q->n++;
    }
    q->window[q->next] = (uint16_t)bucket;
    q->next = (q->next + 1) % AS_QUANTILE_WINDOW;
    q->count[bucket]++;
    q->below += bucket < q->at;
    for (rank = rank_of(q); q->below + q->count[q->at] < rank; q->at++)
        q->below += q->count[q->at];
    while (q->below >= rank)
        q->below -= q->count[--q->at];
}

as_ns as_quantile_get(const struct as_quantile *q)
{
    return q->n ? top_of(q->at) : 0;
}
