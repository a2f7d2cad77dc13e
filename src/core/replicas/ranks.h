/* core/replicas/ranks.h — the set of ranks that the places of a deployment hold.
 *
 * A rank has one holder or none. Pure; the caller remembers who holds what. Thread: the caller's.
 */
#ifndef AS_CORE_RANKS_H
#define AS_CORE_RANKS_H

#include "base/defs.h"

#define AS_RANKS_MAX 8192u

struct as_ranks {
    uint64_t held[AS_RANKS_MAX / 64];
    uint32_t n; /* held ones */
};

/* The lowest free one; AS_RANKS_MAX: there is none. */
uint32_t as_ranks_lowest_free(const struct as_ranks *r);
bool as_ranks_is_held(const struct as_ranks *r, uint32_t rank); /* somebody holds it; rank < MAX */
void as_ranks_reserve(struct as_ranks *r, uint32_t rank);       /* free before */
void as_ranks_release(struct as_ranks *r, uint32_t rank);       /* held before */

#endif
