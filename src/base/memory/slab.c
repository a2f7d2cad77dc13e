#include "base/memory/slab.h"

#include "base/list.h"
#include "base/memory/pages.h"

#include <stdatomic.h>

/* Eight sizes between a power of two and the next, as of runs of pages; STEP apart at least. */
#define STEP   ((size_t)512)
#define PARTS  8u
#define KINDS  ((size_t)PARTS * 18)
#define IN_RUN 4u /* blocks, at least */

#ifdef __SANITIZE_ADDRESS__ /* sees where a block of the heap ends, of ours it does not */
#define FROM_HEAP true
#else
#define FROM_HEAP false
#endif

struct run {
    struct as_list node; /* of the runs with room */
    size_t size, mapped; /* of a block, head included; of the run */
    struct head *free;   /* blocks that were used */
    uint32_t used, had;  /* blocks in use; blocks that ever were, the first ones */
    uint32_t n;
    bool idle;        /* without a block since before the last trim */
    struct run *next; /* of those that are given back */
};

/* Stands before every block. */
struct head {
    struct run *run;   /* NULL: the block is a run of its own, or from the heap */
    size_t mapped;     /* that run's; 0: from the heap */
    struct head *next; /* of the free ones, or in `late` */
} __attribute__((aligned(AS_SLAB_ALIGN)));

struct kind {
    struct as_list runs; /* with room (all zero: as if empty); a full one that gets room comes
                          * first: it is used before those that may soon be without a block */
    struct run *empty;   /* the one that is kept; it is in the list */
};

/* Nobody waits: who finds a thread inside takes from the heap, or leaves its block in `late` for
 * the next one. So a child of fork, in which that thread does not exist, goes on as well. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static _Atomic(struct head *) late;
static struct kind kinds[KINDS];

static bool enter(void)
{
    return !atomic_flag_test_and_set_explicit(&busy, memory_order_acquire);
}

static void leave(void)
{
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static void put_late(struct head *h)
{
    h->next = atomic_load_explicit(&late, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&late, &h->next, h, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static size_t log2_of(size_t n)
{
    return 63 - (size_t)__builtin_clzll(n);
}

static size_t round_up(size_t n)
{
    return AS_ALIGN(n, AS_MAX(((size_t)1 << log2_of(n)) / PARTS, STEP));
}

/* Of a size that is rounded. */
static struct kind *kind_of(size_t size)
{
    size_t log = log2_of(size);

    return &kinds[log * PARTS + ((size >> (log - 3)) & (PARTS - 1))];
}

/* --- what follows is inside --- */

static struct head *block(struct run *r, uint32_t i)
{
    return (struct head *)(void *)((char *)r + AS_ALIGN(sizeof(*r), AS_SLAB_ALIGN) + i * r->size);
}

static struct head *take(struct kind *c, struct run *r)
{
    struct head *h = r->free;

    if (h) {
        r->free = h->next;
    } else {
        h = block(r, r->had++);
        *h = (struct head){.run = r};
    }
    if (c->empty == r)
        c->empty = NULL;
    if (++r->used == r->n)
        as_list_remove(&r->node);
    return h;
}

/* A run that is to go comes before those in `gone`; returns the first one. */
static struct run *give(struct head *h, struct run *gone)
{
    struct run *r = h->run;
    struct kind *c = kind_of(r->size);

    AS_ASSERT(r->used);
    h->next = r->free;
    r->free = h;
    if (r->used-- == r->n)
        as_list_insert_after(&c->runs, &r->node);
    if (r->used)
        return gone;
    if (c->empty) {
        as_list_remove(&r->node);
        r->next = gone;
        return r;
    }
    c->empty = r;
    r->idle = false;
    return gone;
}

/* What others left. */
static struct run *give_late(struct run *gone)
{
    struct head *h = NULL;

    if (atomic_load_explicit(&late, memory_order_relaxed))
        h = atomic_exchange_explicit(&late, NULL, memory_order_acquire);
    while (h) {
        struct head *next = h->next;

        gone = give(h, gone);
        h = next;
    }
    return gone;
}

/* --- outside --- */

static void unmap(struct run *gone)
{
    while (gone) {
        struct run *r = gone;

        gone = r->next;
        as_pages_put(r, r->mapped);
    }
}

static struct run *new_run(size_t size)
{
    size_t mapped;
    struct run *r = as_pages_get(AS_MAX(AS_SLAB_RUN, IN_RUN * size + sizeof(*r)), &mapped);

    if (!r)
        return NULL;
    *r = (struct run){.size = size, .mapped = mapped};
    r->n = (uint32_t)((mapped - AS_ALIGN(sizeof(*r), AS_SLAB_ALIGN)) / size);
    return r;
}

static void *alone(size_t n)
{
    size_t mapped;
    struct head *h = n > SIZE_MAX / 2 ? NULL : as_pages_get(sizeof(*h) + n, &mapped);

    if (!h)
        return NULL;
    *h = (struct head){.mapped = mapped};
    return h + 1;
}

static void *from_heap(size_t size)
{
    struct head *h = aligned_alloc(AS_SLAB_ALIGN, size);

    if (!h)
        return NULL;
    *h = (struct head){0};
    return h + 1;
}

void *as_slab_get(size_t n)
{
    size_t size = round_up(sizeof(struct head) + AS_MIN(n, AS_SLAB_MAX));
    struct kind *c = kind_of(size);
    struct run *r, *gone = NULL;
    struct head *h = NULL;

    if (FROM_HEAP)
        return n > SIZE_MAX / 2 ? NULL : aligned_alloc(AS_SLAB_ALIGN, AS_ALIGN(n, AS_SLAB_ALIGN));
    if (n > AS_SLAB_MAX)
        return alone(n);
    if (!enter())
        return from_heap(size);
    gone = give_late(gone);
    if (c->runs.next && !as_list_empty(&c->runs))
        h = take(c, AS_LIST_ENTRY(c->runs.next, struct run, node));
    leave();
    unmap(gone);
    if (h)
        return h + 1;
    r = new_run(size);
    if (!r)
        return NULL;
    if (!enter()) {
        as_pages_put(r, r->mapped);
        return from_heap(size);
    }
    if (!c->runs.next)
        as_list_init(&c->runs);
    as_list_push(&c->runs, &r->node);
    h = take(c, r);
    leave();
    return h + 1;
}

void as_slab_put(void *p)
{
    struct head *h;
    struct run *gone;

    if (FROM_HEAP || !p) {
        free(p);
        return;
    }
    h = (struct head *)p - 1;
    if (!h->run && h->mapped) {
        as_pages_put(h, h->mapped);
        return;
    }
    if (!h->run) {
        free(h);
        return;
    }
    if (!enter()) {
        put_late(h);
        return;
    }
    gone = give(h, give_late(NULL));
    leave();
    unmap(gone);
}

void as_slab_trim(void)
{
    struct run *gone;

    if (!enter())
        return;
    gone = give_late(NULL);
    for (size_t i = 0; i < KINDS; i++) {
        struct run *r = kinds[i].empty;

        if (r && r->idle) {
            as_list_remove(&r->node);
            kinds[i].empty = NULL;
            r->next = gone;
            gone = r;
        } else if (r) {
            r->idle = true;
        }
    }
    leave();
    unmap(gone);
}
