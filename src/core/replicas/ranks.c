#include "core/replicas/ranks.h"

uint32_t as_ranks_lowest_free(const struct as_ranks *r)
{
    for (uint32_t i = 0; i < AS_COUNT(r->held); i++) {
        if (~r->held[i])
            return 64 * i + (uint32_t)__builtin_ctzll(~r->held[i]);
    }
    return AS_RANKS_MAX;
}

bool as_ranks_is_held(const struct as_ranks *r, uint32_t rank)
{
    AS_ASSERT(rank < AS_RANKS_MAX);
    return r->held[rank / 64] >> rank % 64 & 1;
}

void as_ranks_reserve(struct as_ranks *r, uint32_t rank)
{
    AS_ASSERT(!as_ranks_is_held(r, rank));
    r->held[rank / 64] |= (uint64_t)1 << rank % 64;
    r->n++;
}

void as_ranks_release(struct as_ranks *r, uint32_t rank)
{
    AS_ASSERT(as_ranks_is_held(r, rank));
    r->held[rank / 64] &= ~((uint64_t)1 << rank % 64);
    r->n--;
}
