/* base/memory/arena.h — memory that lives as long as one request.
 *
 * Bump allocation from a first block that the arena's owner provides, so that a small request needs
 * no heap, then from blocks of the heap. A reset frees all allocations together. One thread.
 */
#ifndef AS_BASE_ARENA_H
#define AS_BASE_ARENA_H

#include "base/str.h"

struct as_arena_block;

struct as_arena {
    uint8_t *p, *end;            /* the free part of the current block */
    uint8_t *first, *first_end;  /* the owner's block, or NULL */
    struct as_arena_block *heap; /* newest first */
};

/* `first` must be 16-byte aligned and outlive the arena; NULL and 0 for none. */
void as_arena_init(struct as_arena *a, void *first, size_t n);
void as_arena_reset(struct as_arena *a); /* frees all allocations, and the blocks of the heap */
void as_arena_fini(struct as_arena *a);

/* n bytes, not zeroed, aligned to `align` (a power of two, at most 4096). NULL: out of memory. */
void *as_arena_alloc(struct as_arena *a, size_t n, size_t align);
/* A copy with a NUL at its end. NULL: out of memory. */
char *as_arena_dup(struct as_arena *a, struct as_str s);
/* The same for small things whose size only our own code decides, aligned to 16: out of memory, the
 * process ends (as_xalloc). */
void *as_arena_xalloc(struct as_arena *a, size_t n);
struct as_str as_arena_xdup(struct as_arena *a, struct as_str s);

#endif
