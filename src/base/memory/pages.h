/* base/memory/pages.h — large runs of memory in whole pages, with a cache of those that were freed.
 *
 * For blocks of 128 KiB and more. malloc would either map and unmap such a block for each request,
 * which costs a page fault for every 4 KiB, or place it between small blocks in a heap that then
 * never shrinks. Here a freed run is used again while there is traffic, and is returned to the
 * system when there is none. The cache is global, like the gauge of base/memory/live.h. Lock-free;
 * any thread.
 */
#ifndef AS_BASE_PAGES_H
#define AS_BASE_PAGES_H

#include "base/defs.h"

#define AS_PAGES_MIN       ((size_t)128 << 10) /* smaller blocks are better allocated elsewhere */
#define AS_PAGES_CACHE_MAX ((size_t)64 << 20)  /* the cache holds at most so many bytes … */
#define AS_PAGES_SLOTS     ((unsigned)(AS_PAGES_CACHE_MAX / AS_PAGES_MIN)) /* … and so many runs */

/* At least n bytes of any content, aligned to a page. *ret_n: how many, at most n + n/8 + 4096, or
 * twice that from the cache. NULL: out of memory. */
void *as_pages_get(size_t n, size_t *ret_n);
/* The same, but only from the cache. NULL: no run of the cache fits. */
void *as_pages_reuse(size_t n, size_t *ret_n);
/* Grows a run of old_n bytes to at least n; it may move, but its bytes are not copied. NULL: out of
 * memory, the run is unchanged. */
void *as_pages_grow(void *p, size_t old_n, size_t n, size_t *ret_n);
void as_pages_put(void *p, size_t n); /* frees a run; n: its *ret_n */
/* Returns the runs of the cache that were not used since the last call but one to the system. Call
 * it at intervals of half a second to a few seconds, or when idle. */
void as_pages_trim(void);
size_t as_pages_cached(void); /* bytes in the cache */

#endif
