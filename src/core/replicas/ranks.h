/* core/replicas/ranks.h — the set of ranks that the slots of a deployment hold.
 *
 * A rank has one holder or none; the caller stores which slot holds which rank. Pure. Thread: the
 * caller's.
 */
#ifndef AS_CORE_RANKS_H
#define AS_CORE_RANKS_H

#include "base/defs.h"

#define AS_RANKS_MAX 8192u

struct as_ranks {
    uint64_t held[AS_RANKS_MAX / 64];
    uint32_t n; /* ranks that are held */
};

/* The lowest free rank; AS_RANKS_MAX: none is free. */
uint32_t as_ranks_lowest_free(const struct as_ranks *r);
bool as_ranks_is_held(const struct as_ranks *r, uint32_t rank); /* rank < AS_RANKS_MAX */
void as_ranks_reserve(struct as_ranks *r, uint32_t rank);       /* must be free */
void as_ranks_release(struct as_ranks *r, uint32_t rank);       /* must be held */

#endif
