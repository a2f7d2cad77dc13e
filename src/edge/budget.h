/* edge/budget.h — the one bound on request bytes held by the whole process.
 *
 * A message reserves its declared length before memory is taken for it, and gives it back when the
 * request is gone. Shared by all loops; the count needs no order with other memory: relaxed.
 */
#ifndef AS_EDGE_BUDGET_H
#define AS_EDGE_BUDGET_H

#include "base/defs.h"

#include <stdatomic.h>

struct as_budget {
    _Atomic uint64_t used; /* bytes */
    uint64_t limit;
};

static inline bool as_budget_take(struct as_budget *b, uint64_t n)
{
    uint64_t before = atomic_fetch_add_explicit(&b->used, n, memory_order_relaxed);

    if (before + n <= b->limit)
        return true;
    atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
    return false;
}

static inline void as_budget_give(struct as_budget *b, uint64_t n)
{
    atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
}

#endif
