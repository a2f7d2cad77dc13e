#include "core/stat.h"

void as_hist_add(struct as_hist *h, as_ns v)
{
    uint64_t us = v / AS_US + (v % AS_US != 0); /* rounded up: v <= 2^i us */
    uint32_t i = us <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(us - 1);

    h->bucket[AS_MIN(i, AS_HIST_BUCKETS - 1)]++;
    h->count++;
    h->sum += v;
}
