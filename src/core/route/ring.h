/* core/route/ring.h — consistent hashing: which members a key belongs to.
 *
 * Each member has `points` positions on a circle of 2^64, drawn from its id. A key belongs to the
 * member at the next position clockwise, and after that to the next others. So a member that comes
 * or goes moves only the keys beside its own positions, about 1/n of all.
 *
 * Adding and removing take O(n x points), finding takes O(log) and a short walk. The ring does not
 * own its members. Thread: that of its owner.
 */
#ifndef AS_CORE_RING_H
#define AS_CORE_RING_H

#include "base/defs.h"

struct as_ring_point;

struct as_ring {
    struct as_ring_point *points; /* by position */
    size_t n, cap;
};

void as_ring_init(struct as_ring *g);
void as_ring_fini(struct as_ring *g);
/* member is in no ring yet; n > 0 positions. Equal ids have equal positions. */
void as_ring_add(struct as_ring *g, void *member, uint64_t id, uint32_t n);
void as_ring_remove(struct as_ring *g, const void *member);
/* Writes up to max different members, beginning with the one that the key belongs to; returns how
 * many there are. It looks at AS_RING_WALK positions at most, so it may find fewer than max. */
uint32_t as_ring_find(const struct as_ring *g, uint64_t key, void **ret_members, uint32_t max);
#define AS_RING_WALK 256u

#endif
