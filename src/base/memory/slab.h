/* base/memory/slab.h — blocks of half a KiB to some hundred, of which there are many at once and
 * then none: connections, requests, chunks of output, bodies.
 *
 * Blocks of about one size lie together in runs of pages (base/memory/pages), and a run without a
 * block goes back as soon as its last block is freed. From malloc they would lie between small ones
 * in a heap that is only searched for pages to give back by malloc_trim(): a tenth of a second for
 * each GiB, with every allocation of the process waiting meanwhile. Of each size one run without a
 * block is kept while it is used. Any thread; no locks: where two threads meet, one takes from the
 * heap.
 */
#ifndef AS_BASE_MEMORY_SLAB_H
#define AS_BASE_MEMORY_SLAB_H

#include "base/defs.h"

#define AS_SLAB_ALIGN 64
#define AS_SLAB_RUN   ((size_t)256 << 10) /* bytes, but for large blocks */
#define AS_SLAB_MAX   ((size_t)160 << 10) /* larger ones have a run of their own */

/* n bytes of any content, aligned to AS_SLAB_ALIGN; NULL when memory is out. */
void *as_slab_get(size_t n);
void as_slab_put(void *p); /* NULL is fine */
/* Gives back the runs without a block that were not used since the last call. To be called every
 * few seconds. */
void as_slab_trim(void);

#endif
