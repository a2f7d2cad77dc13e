#include "base/memory/pages.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

struct cached_run { /* at the start of the run itself */
    size_t n;
    unsigned age; /* trim_count when it was put into the cache */
};

static _Atomic(struct cached_run *) slots[AS_PAGES_SLOTS];
static atomic_size_t cached_bytes;
static atomic_uint trim_count;

/* Rounds to one of few sizes, so that a freed run fits the next request of about its size. */
static size_t round_up(size_t n)
{
    size_t step = ((size_t)1 << (63 - __builtin_clzll(n))) / 8;

    return AS_ALIGN(n, AS_MAX(step, PAGE));
}

static struct cached_run *take_slot(_Atomic(struct cached_run *) *slot)
{
    struct cached_run *k = NULL;

    if (atomic_load_explicit(slot, memory_order_relaxed))
        k = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
    if (k)
        atomic_fetch_sub_explicit(&cached_bytes, k->n, memory_order_relaxed);
    return k;
}

/* Puts a run into the first empty slot. False: the cache is full. */
static bool cache_run(struct cached_run *k)
{
    if (atomic_fetch_add_explicit(&cached_bytes, k->n, memory_order_relaxed) + k->n <=
        AS_PAGES_CACHE_MAX) {
        for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
            struct cached_run *none = NULL;

            if (!atomic_load_explicit(&slots[i], memory_order_relaxed) &&
                atomic_compare_exchange_strong_explicit(&slots[i], &none, k, memory_order_release,
                                                        memory_order_relaxed))
                return true;
        }
    }
    atomic_fetch_sub_explicit(&cached_bytes, k->n, memory_order_relaxed);
    return false;
}

static void unmap_run(struct cached_run *k)
{
    (void)munmap(k, k->n);
}

void *as_pages_reuse(size_t n, size_t *ret_n)
{
    size_t need = round_up(AS_MAX(n, PAGE));

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct cached_run *k = take_slot(&slots[i]);

        if (!k)
            continue;
        if (k->n >= need && k->n / 2 <= need) {
            *ret_n = k->n;
            return k;
        }
        if (!cache_run(k))
            unmap_run(k);
    }
    return NULL;
}

void *as_pages_get(size_t n, size_t *ret_n)
{
    size_t need;
    void *p;

    if (n > SIZE_MAX / 2)
        return NULL;
    p = as_pages_reuse(n, ret_n);
    if (p)
        return p;
    need = round_up(AS_MAX(n, PAGE));
    p = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    *ret_n = need;
    return p;
}

void *as_pages_grow(void *p, size_t old_n, size_t n, size_t *ret_n)
{
    size_t need;

    if (n > SIZE_MAX / 2)
        return NULL;
    need = round_up(n);
    p = mremap(p, old_n, need, MREMAP_MAYMOVE);
    if (p == MAP_FAILED)
        return NULL;
    *ret_n = need;
    return p;
}

void as_pages_put(void *p, size_t n)
{
    struct cached_run *k = p;

    *k = (struct cached_run){n, atomic_load_explicit(&trim_count, memory_order_relaxed)};
    if (!cache_run(k))
        unmap_run(k);
}

void as_pages_trim(void)
{
    unsigned now = atomic_fetch_add_explicit(&trim_count, 1, memory_order_relaxed) + 1;

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct cached_run *k = take_slot(&slots[i]);

        if (k && (now - k->age >= 2 || !cache_run(k)))
            unmap_run(k);
    }
}

size_t as_pages_cached(void)
{
    return atomic_load_explicit(&cached_bytes, memory_order_relaxed);
}
