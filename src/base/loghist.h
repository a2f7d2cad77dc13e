/* base/loghist.h — latencies in a log-linear histogram: 1/64 relative error, no allocation.
 *
 * As in an HdrHistogram: every power of two is cut into 64 equal buckets, so that any 64-bit value
 * has a place and a quantile is never more than 1/64 below the true one, and never above it. Values
 * below 128 are exact. Adding costs a few instructions. Pure; one thread.
 */
#ifndef AS_BASE_LOGHIST_H
#define AS_BASE_LOGHIST_H

#include "base/defs.h"

#define AS_LOGHIST_SUB_BITS 6u

/* 32-bit buckets: a run has fewer calls of one length than that. */
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

/* The value below which `share` (0–1) of the samples lie: the sample of rank ⌊n · share⌋ (from 0),
 * cut down to its bucket; the largest when there is no such rank; 0 without samples. */
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
