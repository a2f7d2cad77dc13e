#include "core/queue/stat.h"

void as_hist_add(struct as_hist *h, as_ns v)
{
    /* (v-1) / 1 us has i bits exactly when v is in (2^(i-1), 2^i] us */
    uint32_t i = v <= AS_US ? 0 : 64 - (uint32_t)__builtin_clzll((v - 1) / AS_US);

    h->bucket[AS_MIN(i, AS_HIST_BUCKETS - 1)]++;
    h->count++;
    h->sum += v;
}
