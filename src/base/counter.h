/* base/counter.h — a number that one thread counts and any thread may read.
 *
 * Single writer: a relaxed load and store instead of a locked add; readers see some recent value.
 */
#ifndef AS_BASE_COUNTER_H
#define AS_BASE_COUNTER_H

#include "base/defs.h"

static inline void as_counter_add(uint64_t *c, uint64_t n)
{
    __atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

/* For a number that falls as well. */
static inline void as_counter_sub(uint64_t *c, uint64_t n)
{
    __atomic_store_n(c, *c - n, __ATOMIC_RELAXED);
}

static inline uint64_t as_counter_read(const uint64_t *c)
{
    return __atomic_load_n(c, __ATOMIC_RELAXED);
}

#endif
