/* bench/load_hist.h — latencies in a log-linear histogram: 1/64 relative error, no allocation. */
#ifndef AS_BENCH_LOAD_HIST_H
#define AS_BENCH_LOAD_HIST_H

#include "base/defs.h"

#define AS_LOAD_SUB_BITS 6u

/* 32-bit buckets: a run has fewer calls than that. Values up to 2^63 ns have a bucket. */
struct as_load_hist {
    uint64_t n;
    as_ns max;
    uint32_t bucket[64 << AS_LOAD_SUB_BITS];
};

/* The leading bit chooses the octave, the next AS_LOAD_SUB_BITS the bucket in it; small values are
 * exact. */
static inline uint32_t as_load_hist_index(as_ns v)
{
    uint32_t shift;

    if (v < ((as_ns)2 << AS_LOAD_SUB_BITS))
        return (uint32_t)v;
    shift = 63u - (uint32_t)__builtin_clzll(v) - AS_LOAD_SUB_BITS;
    return (shift << AS_LOAD_SUB_BITS) + (uint32_t)(v >> shift);
}

static inline void as_load_hist_add(struct as_load_hist *h, as_ns v)
{
    h->n++;
    h->max = AS_MAX(h->max, v);
    h->bucket[as_load_hist_index(v)]++;
}

/* The value below which `share` (0–1) of the samples lie; 0 without samples. */
static inline as_ns as_load_hist_at(const struct as_load_hist *h, double share)
{
    uint64_t want = (uint64_t)((double)h->n * share), seen = 0;

    for (uint32_t i = 0; i < AS_COUNT(h->bucket); i++) {
        uint32_t shift = i < (2u << AS_LOAD_SUB_BITS) ? 0 : (i >> AS_LOAD_SUB_BITS) - 1;

        seen += h->bucket[i];
        if (seen > want)
            return (as_ns)(i - (shift << AS_LOAD_SUB_BITS)) << shift;
    }
    return h->max;
}

#endif
