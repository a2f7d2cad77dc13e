/* base/counter.h — a counter that one thread writes and any thread may read.
 *
 * With a single writer a plain add and a relaxed store suffice, without a locked instruction.
 * Readers see some recent value.
 */
#ifndef AS_BASE_COUNTER_H
#define AS_BASE_COUNTER_H

#include "base/defs.h"

static inline void as_counter_add(uint64_t *c, uint64_t n)
{
    __atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

static inline void as_counter_sub(uint64_t *c, uint64_t n)
{
    __atomic_store_n(c, *c - n, __ATOMIC_RELAXED);
}

static inline uint64_t as_counter_read(const uint64_t *c)
{
    return __atomic_load_n(c, __ATOMIC_RELAXED);
}

#endif
