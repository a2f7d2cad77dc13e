#include "base/memory/arena.h"

#include "base/memory/live.h"
#include "base/memory/slab.h"

#define BLOCK_MIN 4096

struct as_arena_block {
    struct as_arena_block *next;
    size_t n;
    uint8_t data[] __attribute__((aligned(16)));
};

void as_arena_init(struct as_arena *a, void *first, size_t n)
{
    AS_ASSERT(((uintptr_t)first & 15) == 0);
    a->first = first;
    a->first_end = first ? (uint8_t *)first + n : NULL;
    a->p = a->first;
    a->end = a->first_end;
    a->heap = NULL;
}

void as_arena_reset(struct as_arena *a)
{
    while (a->heap) {
        struct as_arena_block *b = a->heap;

        a->heap = b->next;
        as_live_sub(b->n);
        as_slab_put(b);
    }
    a->p = a->first;
    a->end = a->first_end;
}

void as_arena_fini(struct as_arena *a)
{
    if (a)
        as_arena_reset(a);
}

static uint8_t *bump_alloc(struct as_arena *a, size_t n, size_t align)
{
    size_t room = (size_t)(a->end - a->p);
    size_t pad = (size_t)(-(uintptr_t)a->p & (align - 1));
    uint8_t *p;

    if (!a->p || room < pad || room - pad < n)
        return NULL;
    p = a->p + pad;
    a->p = p + n;
    return p;
}

void *as_arena_alloc(struct as_arena *a, size_t n, size_t align)
{
    uint8_t *p;
    struct as_arena_block *b;
    size_t size;

    AS_ASSERT(align && (align & (align - 1)) == 0 && align <= 4096);
    p = bump_alloc(a, n, align);
    if (p)
        return p;
    if (n > SIZE_MAX / 2)
        return NULL;
    size = AS_MAX(n + align, (size_t)BLOCK_MIN);
    /* not as_xalloc: the size comes from a request, and a request can be refused */
    b = as_slab_get(sizeof(*b) + size);
    if (!b)
        return NULL;
    as_live_add(size);
    b->n = size;
    b->next = a->heap;
    a->heap = b;
    a->p = b->data;
    a->end = b->data + size;
    return bump_alloc(a, n, align);
}

char *as_arena_dup(struct as_arena *a, struct as_str s)
{
    char *p = as_arena_alloc(a, s.n + 1, 1);

    if (!p)
        return NULL;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return p;
}

void *as_arena_xalloc(struct as_arena *a, size_t n)
{
    void *p = as_arena_alloc(a, n, 16);

    if (!p)
        as_fatal_memory(n);
    return p;
}

struct as_str as_arena_xdup(struct as_arena *a, struct as_str s)
{
    char *p = as_arena_dup(a, s);

    if (!p)
        as_fatal_memory(s.n);
    return (struct as_str){p, s.n};
}
