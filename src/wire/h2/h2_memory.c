/* The allocator of nghttp2: small blocks are kept by size for the next use. */
#include "wire/h2/h2_internal.h"

#define STEP 32u /* the sizes of two neighbouring classes, header included, differ by this */

/* The header of every block that nghttp2 gets; its size keeps the block aligned. */
struct as_h2_memory_block {
    struct as_h2_memory_block *next;
    size_t size; /* header included */
} __attribute__((aligned(16)));

static void *memory_malloc(size_t n, void *user)
{
    struct as_h2_memory *p = user;
    struct as_h2_memory_block *b;
    size_t size, class;

    if (n > SIZE_MAX / 2)
        return NULL;
    size = AS_ALIGN(n + sizeof(*b), STEP);
    class = size / STEP - 1;
    if (class < AS_H2_MEMORY_CLASSES && p->free[class]) {
        b = p->free[class];
        p->free[class] = b->next;
        p->free_bytes -= size;
        return b + 1;
    }
    /* The size is rounded up, so that the block can be used for its whole class later. */
    b = malloc(size);
    if (!b)
        return NULL;
    b->size = size;
    return b + 1;
}

/* nghttp2 (1.52) frees a DATA item twice when its queue of streams cannot grow: at once, and when
 * the session is deleted. So after a failed growth blocks are not freed before as_h2_memory_fini.
 */
#define DEFERRED 1u /* flag in `size`, which is a multiple of STEP */

static __attribute__((noinline)) void defer_free(struct as_h2_memory *p,
                                                 struct as_h2_memory_block *b)
{
    if (b->size & DEFERRED)
        return;
    b->size |= DEFERRED;
    b->next = p->deferred;
    p->deferred = b;
}

static void memory_free(void *ptr, void *user)
{
    struct as_h2_memory *p = user;
    struct as_h2_memory_block *b;
    size_t class;

    if (!ptr)
        return;
    b = (struct as_h2_memory_block *)ptr - 1;
    if (p->growth_failed) {
        defer_free(p, b);
        return;
    }
    class = b->size / STEP - 1;
    if (class >= AS_H2_MEMORY_CLASSES || p->free_bytes + b->size > AS_H2_MEMORY_MAX) {
        free(b);
        return;
    }
    b->next = p->free[class];
    p->free[class] = b;
    p->free_bytes += b->size;
}

static void *memory_calloc(size_t n, size_t each, void *user)
{
    size_t size;
    void *ptr;

    if (__builtin_mul_overflow(n, each, &size))
        return NULL;
    ptr = memory_malloc(size, user);
    return ptr ? memset(ptr, 0, size) : NULL;
}

static void *memory_realloc(void *ptr, size_t n, void *user)
{
    size_t old_size;
    void *to;

    if (!ptr) {
        ptr = memory_malloc(n, user);
        ((struct as_h2_memory *)user)->growth_failed |= !ptr;
        return ptr;
    }
    /* nghttp2 grows few blocks, so copying is good enough */
    old_size = ((struct as_h2_memory_block *)ptr - 1)->size - sizeof(struct as_h2_memory_block);
    if (n <= old_size)
        return ptr;
    to = memory_malloc(n, user);
    if (!to) {
        ((struct as_h2_memory *)user)->growth_failed = true;
        return NULL;
    }
    memcpy(to, ptr, old_size);
    memory_free(ptr, user);
    return to;
}

void as_h2_memory_init(struct as_h2_memory *p)
{
    *p = (struct as_h2_memory){
        .mem = {p, memory_malloc, memory_free, memory_calloc, memory_realloc},
    };
}

void as_h2_memory_fini(struct as_h2_memory *p)
{
    for (size_t i = 0; i < AS_H2_MEMORY_CLASSES; i++) {
        while (p->free[i]) {
            struct as_h2_memory_block *b = p->free[i];

            p->free[i] = b->next;
            free(b);
        }
    }
    while (p->deferred) {
        struct as_h2_memory_block *b = p->deferred;

        p->deferred = b->next;
        free(b);
    }
    p->free_bytes = 0;
}
