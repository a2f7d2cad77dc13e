/* base/memory/live.h — the number of bytes that blobs, arenas and output queues of the process
 * hold.
 *
 * A gauge for metrics and for leak tests: after the same work it must be back at the same value. It
 * is a global variable, against the rule: the number belongs to the process, and a pointer to it in
 * every blob and arena would cost more than it is worth. Only memory of the heap is counted, so a
 * small request, which needs none, does not touch the counter. Any thread.
 */
#ifndef AS_BASE_LIVE_H
#define AS_BASE_LIVE_H

#include "base/defs.h"

#include <stdatomic.h>

extern atomic_size_t as_live_count; /* only for the functions below */

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
