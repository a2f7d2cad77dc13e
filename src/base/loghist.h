/* base/loghist.h — a log-linear histogram of latencies: 1/64 relative error, no allocation.
 *
 * Like an HdrHistogram: every power of two is split into 64 equal buckets, which covers all 64-bit
 * values. A quantile is at most 1/64 below the true value and never above it; values below 128 are
 * exact. Adding a value costs a few instructions. Pure; one thread.
 */
#ifndef AS_BASE_LOGHIST_H
#define AS_BASE_LOGHIST_H

#include "base/defs.h"

#define AS_LOGHIST_SUB_BITS 6u

/* 32-bit counts suffice: no run has 2^32 calls in one bucket. */
struct as_loghist {
    uint64_t n;
    as_ns max;
    uint32_t bucket[64 << AS_LOGHIST_SUB_BITS];
};

/* The leading bit chooses the octave, the next AS_LOGHIST_SUB_BITS the bucket in it. */
static inline uint32_t as_loghist_index(as_ns v)
{
    uint32_t shift;

    if (v < ((as_ns)2 << AS_LOGHIST_SUB_BITS))
        return (uint32_t)v;
    shift = 63u - (uint32_t)__builtin_clzll(v) - AS_LOGHIST_SUB_BITS;
    return (shift << AS_LOGHIST_SUB_BITS) + (uint32_t)(v >> shift);
}

/* The least value of a bucket. */
static inline as_ns as_loghist_low(uint32_t i)
{
    uint32_t shift = i < (2u << AS_LOGHIST_SUB_BITS) ? 0 : (i >> AS_LOGHIST_SUB_BITS) - 1;

    return (as_ns)(i - (shift << AS_LOGHIST_SUB_BITS)) << shift;
}

static inline void as_loghist_add(struct as_loghist *h, as_ns v)
{
    h->n++;
    h->max = AS_MAX(h->max, v);
    h->bucket[as_loghist_index(v)]++;
}

/* The value below which `share` (0–1) of the samples lie: the lower bound of the bucket with the
 * sample of rank ⌊n · share⌋ (from 0). The largest sample when there is no such rank; 0 without
 * samples. */
static inline as_ns as_loghist_quantile(const struct as_loghist *h, double share)
{
    uint64_t rank = (uint64_t)((double)h->n * share), seen = 0;

    for (uint32_t i = 0; i < AS_COUNT(h->bucket); i++) {
        seen += h->bucket[i];
        if (seen > rank)
            return as_loghist_low(i);
    }
    return h->max;
}

#endif
