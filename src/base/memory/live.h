/* base/memory/live.h — how many bytes blobs, arenas and output queues hold, of the whole process.
 *
 * A gauge for people and for leak tests: after the same work it must be back at the same value. It
 * is the one variable of this folder that belongs to no object, against the rule: the number is the
 * process's, and a pointer to it in every blob and arena would cost more than it tells. Only what
 * comes from the heap is counted, so that a small request, which takes nothing from there, does not
 * touch it. Any thread.
 */
#ifndef AS_BASE_MEMORY_LIVE_H
#define AS_BASE_MEMORY_LIVE_H

#include "base/defs.h"

#include <stdatomic.h>

extern atomic_size_t as_live_count; /* through the functions only */

static inline void as_live_add(size_t n)
{
    atomic_fetch_add_explicit(&as_live_count, n, memory_order_relaxed);
}

static inline void as_live_sub(size_t n)
{
    atomic_fetch_sub_explicit(&as_live_count, n, memory_order_relaxed);
}

static inline size_t as_live_bytes(void)
{
    return atomic_load_explicit(&as_live_count, memory_order_relaxed);
}

#endif
