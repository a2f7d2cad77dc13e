/* base/rand.h — a small random generator (splitmix64); the caller holds its state.
 *
 * For routing and tests, where a seed repeats a run. Not for secrets: tokens come from the kernel.
 */
#ifndef AS_BASE_RAND_H
#define AS_BASE_RAND_H

#include "base/defs.h"

__extension__ typedef unsigned __int128 as_u128;

struct as_rand {
    uint64_t s;
};

static inline uint64_t as_rand_next(struct as_rand *r)
{
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number from 0 to n - 1; n > 0. The bias is below 2^-32 for n < 2^32. */
static inline uint64_t as_rand_below(struct as_rand *r, uint64_t n)
{
    return (uint64_t)(((as_u128)as_rand_next(r) * n) >> 64);
}

/* A number in (0, 1). */
static inline double as_rand_unit(struct as_rand *r)
{
    return ((double)(as_rand_next(r) >> 11) + 0.5) * 0x1p-53;
}

#endif
