#include "base/memory/slab.h"

#include "base/container/list.h"
#include "base/memory/pages.h"

#include <stdatomic.h>

/* Eight sizes between a power of two and the next, as for runs of pages, at least SIZE_STEP_MIN
 * apart. */
#define SIZE_STEP_MIN      ((size_t)512)
#define CLASSES_PER_OCTAVE 8u
#define SIZE_CLASSES       ((size_t)CLASSES_PER_OCTAVE * 18)
#define RUN_BLOCKS_MIN     4u

#ifdef __SANITIZE_ADDRESS__ /* it detects accesses out of bounds only in the heap's own blocks */
#define FROM_HEAP true
#else
#define FROM_HEAP false
#endif

struct run {
    struct as_list node;      /* in size_class.runs while it has a free block */
    size_t size, mapped;      /* bytes of a block, with its head; bytes of the run */
    struct block_head *free;  /* freed blocks */
    uint32_t used, n_touched; /* blocks in use; blocks that were ever used, the first of the run */
    uint32_t n;               /* blocks that fit */
    bool idle;                /* empty since before the last trim */
    struct run *next;         /* in a list of runs to release */
};

/* In front of every block. */
struct block_head {
    struct run *run;         /* NULL: the block has a run of its own, or is from the heap */
    size_t mapped;           /* bytes of its own run; 0: from the heap */
    struct block_head *next; /* in run.free or deferred_frees */
} __attribute__((aligned(AS_SLAB_ALIGN)));

struct size_class {
    struct as_list runs; /* those with a free block; all zero until the first run. A run that was
                          * full comes first, so that runs with few blocks can become empty */
    struct run *spare;   /* the empty run that is kept; it is in `runs`, too */
};

/* No thread waits for another: when the allocator is locked, a block comes from the heap, and a
 * freed block goes to deferred_frees, which the next thread empties. So a child of fork works even
 * if the lock was held by a thread that it does not have. */
static atomic_flag locked = ATOMIC_FLAG_INIT;
static _Atomic(struct block_head *) deferred_frees;
static struct size_class size_classes[SIZE_CLASSES];

static bool try_lock(void)
{
    return !atomic_flag_test_and_set_explicit(&locked, memory_order_acquire);
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&locked, memory_order_release);
}

static void defer_free(struct block_head *h)
{
    h->next = atomic_load_explicit(&deferred_frees, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&deferred_frees, &h->next, h,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static size_t log2_of(size_t n)
{
    return 63 - (size_t)__builtin_clzll(n);
}

static size_t round_up(size_t n)
{
    return AS_ALIGN(n, AS_MAX(((size_t)1 << log2_of(n)) / CLASSES_PER_OCTAVE, SIZE_STEP_MIN));
}

/* `size` is rounded up. */
static struct size_class *class_of(size_t size)
{
    size_t log = log2_of(size);

    return &size_classes[log * CLASSES_PER_OCTAVE +
                         ((size >> (log - 3)) & (CLASSES_PER_OCTAVE - 1))];
}

/* --- with the lock held --- */

static struct block_head *block_at(struct run *r, uint32_t i)
{
    return (struct block_head *)(void *)((char *)r + AS_ALIGN(sizeof(*r), AS_SLAB_ALIGN) +
                                         i * r->size);
}

static struct block_head *take_block(struct size_class *c, struct run *r)
{
    struct block_head *h = r->free;

    if (h) {
        r->free = h->next;
    } else {
        h = block_at(r, r->n_touched++);
        *h = (struct block_head){.run = r};
    }
    if (c->spare == r)
        c->spare = NULL;
    if (++r->used == r->n)
        as_list_remove(&r->node);
    return h;
}

/* Frees a block. Returns `empty_runs`, a list of runs to release, with the block's run in front if
 * that is empty now and not kept. */
static struct run *return_block(struct block_head *h, struct run *empty_runs)
{
    struct run *r = h->run;
    struct size_class *c = class_of(r->size);

    AS_ASSERT(r->used);
    h->next = r->free;
    r->free = h;
    if (r->used-- == r->n)
        as_list_insert_after(&c->runs, &r->node);
    if (r->used)
        return empty_runs;
    if (c->spare) {
        as_list_remove(&r->node);
        r->next = empty_runs;
        return r;
    }
    c->spare = r;
    r->idle = false;
    return empty_runs;
}

/* The same for the blocks that other threads left. */
static struct run *return_deferred(struct run *empty_runs)
{
    struct block_head *h = NULL;

    if (atomic_load_explicit(&deferred_frees, memory_order_relaxed))
        h = atomic_exchange_explicit(&deferred_frees, NULL, memory_order_acquire);
    while (h) {
        struct block_head *next = h->next;

        empty_runs = return_block(h, empty_runs);
        h = next;
    }
    return empty_runs;
}

/* --- without the lock --- */

static void release_runs(struct run *empty_runs)
{
    while (empty_runs) {
        struct run *r = empty_runs;

        empty_runs = r->next;
        as_pages_put(r, r->mapped);
    }
}

static struct run *new_run(size_t size)
{
    size_t mapped;
    struct run *r = as_pages_get(AS_MAX(AS_SLAB_RUN, RUN_BLOCKS_MIN * size + sizeof(*r)), &mapped);

    if (!r)
        return NULL;
    *r = (struct run){.size = size, .mapped = mapped};
    r->n = (uint32_t)((mapped - AS_ALIGN(sizeof(*r), AS_SLAB_ALIGN)) / size);
    return r;
}

static void *get_own_run(size_t n)
{
    size_t mapped;
    struct block_head *h = n > SIZE_MAX / 2 ? NULL : as_pages_get(sizeof(*h) + n, &mapped);

    if (!h)
        return NULL;
    *h = (struct block_head){.mapped = mapped};
    return h + 1;
}

static void *get_from_heap(size_t size)
{
    struct block_head *h = aligned_alloc(AS_SLAB_ALIGN, size);

    if (!h)
        return NULL;
    *h = (struct block_head){0};
    return h + 1;
}

void *as_slab_get(size_t n)
{
    size_t size = round_up(sizeof(struct block_head) + AS_MIN(n, AS_SLAB_MAX));
    struct size_class *c = class_of(size);
    struct run *r, *empty_runs = NULL;
    struct block_head *h = NULL;

    if (FROM_HEAP)
        return n > SIZE_MAX / 2 ? NULL : aligned_alloc(AS_SLAB_ALIGN, AS_ALIGN(n, AS_SLAB_ALIGN));
    if (n > AS_SLAB_MAX)
        return get_own_run(n);
    if (!try_lock())
        return get_from_heap(size);
    empty_runs = return_deferred(empty_runs);
    if (c->runs.next && !as_list_empty(&c->runs))
        h = take_block(c, AS_LIST_ENTRY(c->runs.next, struct run, node));
    unlock();
    release_runs(empty_runs);
    if (h)
        return h + 1;
    r = new_run(size);
    if (!r)
        return NULL;
    if (!try_lock()) {
        as_pages_put(r, r->mapped);
        return get_from_heap(size);
    }
    if (!c->runs.next)
        as_list_init(&c->runs);
    as_list_push(&c->runs, &r->node);
    h = take_block(c, r);
    unlock();
    return h + 1;
}

void as_slab_put(void *p)
{
    struct block_head *h;
    struct run *empty_runs;

    if (FROM_HEAP || !p) {
        free(p);
        return;
    }
    h = (struct block_head *)p - 1;
    if (!h->run && h->mapped) {
        as_pages_put(h, h->mapped);
        return;
    }
    if (!h->run) {
        free(h);
        return;
    }
    if (!try_lock()) {
        defer_free(h);
        return;
    }
    empty_runs = return_block(h, return_deferred(NULL));
    unlock();
    release_runs(empty_runs);
}

void as_slab_trim(void)
{
    struct run *empty_runs;

    if (!try_lock())
        return;
    empty_runs = return_deferred(NULL);
    for (size_t i = 0; i < SIZE_CLASSES; i++) {
        struct run *r = size_classes[i].spare;

        if (r && r->idle) {
            as_list_remove(&r->node);
            size_classes[i].spare = NULL;
            r->next = empty_runs;
            empty_runs = r;
        } else if (r) {
            r->idle = true;
        }
    }
    unlock();
    release_runs(empty_runs);
}
