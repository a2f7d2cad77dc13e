/* base/memory/slab.h — an allocator for blocks of 512 bytes to 160 KiB of which there are many at
 * once and then none: connections, requests, chunks of output, bodies.
 *
 * Blocks of about one size are together in runs of pages (base/memory/pages.h), and a run is freed
 * with its last block; of each size one empty run is kept while it is used. malloc would place such
 * blocks between small ones in a heap that only malloc_trim() can shrink: that takes a tenth of a
 * second for each GiB and stops all allocations of the process meanwhile. Any thread. A thread
 * never waits: when another thread is in the allocator, the block comes from the heap.
 */
#ifndef AS_BASE_SLAB_H
#define AS_BASE_SLAB_H

#include "base/defs.h"

#define AS_SLAB_ALIGN 64
#define AS_SLAB_RUN   ((size_t)256 << 10) /* bytes of a run; runs of large blocks are larger */
#define AS_SLAB_MAX   ((size_t)160 << 10) /* a larger block has a run of its own */

/* n bytes of any content, aligned to AS_SLAB_ALIGN. NULL: out of memory. */
void *as_slab_get(size_t n);
void as_slab_put(void *p); /* NULL is fine */
/* Frees the empty runs that were not used since the last call. Call it at intervals of half a
 * second to a few seconds. */
void as_slab_trim(void);

#endif
