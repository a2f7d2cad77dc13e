/* base/memory/pages.h — large runs of memory, by whole pages, kept for a while when they are given
 * back.
 *
 * For tensors of 128 KiB and more. From malloc such runs would either be mapped and unmapped for
 * each request, which costs a page fault for every 4 KiB, or lie between small ones in a heap that
 * therefore never shrinks; here they are used again while there is traffic, and belong to the
 * system again when there is none. Kept runs belong to the process: like the gauge of
 * base/memory/live.h they are a variable of no object. Lock-free; any thread.
 */
#ifndef AS_BASE_MEMORY_PAGES_H
#define AS_BASE_MEMORY_PAGES_H

#include "base/defs.h"

#define AS_PAGES_MIN       ((size_t)128 << 10) /* smaller ones are better taken from the heap */
#define AS_PAGES_SLOTS     32u                 /* runs kept, at most … */
#define AS_PAGES_CACHE_MAX ((size_t)64 << 20)  /* … with so many bytes in sum */

/* At least n bytes, aligned to a page, of any content; NULL when memory is out. *ret_n: how many,
 * at most n + n/8 + 4096, or twice that for a run that is used again. */
void *as_pages_get(size_t n, size_t *ret_n);
/* The same, but of a run that is kept and fits; NULL: there is none. */
void *as_pages_reuse(size_t n, size_t *ret_n);
/* A run of n bytes, more than it has: the bytes stay, at another address maybe, without being
 * copied. NULL: memory is out, and it is as it was. */
void *as_pages_grow(void *p, size_t old_n, size_t n, size_t *ret_n);
void as_pages_put(void *p, size_t n); /* n as it was given */
/* Returns to the system what has not been used since the last call but one. To be called every few
 * seconds, or when nothing is to do. */
void as_pages_trim(void);
size_t as_pages_cached(void); /* bytes */

#endif
