#include "base/memory/pages.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

struct cached_run { /* at the start of the run itself */
    size_t n;
    unsigned age; /* trim_count when it was put into the cache */
};

/* Slot i has the run slots[i], or NULL. hints[i] is the size of that run in pages, 0 without one;
 * it may be out of date, and is read first, so that a slot is not taken in vain. */
static _Atomic(struct cached_run *) slots[AS_PAGES_SLOTS];
static _Atomic(uint32_t) hints[AS_PAGES_SLOTS];
static atomic_size_t cached_bytes;
static atomic_uint trim_count, hand;

/* Rounds to one of few sizes, so that a freed run fits the next request of about its size. */
static size_t round_up(size_t n)
{
    size_t step = ((size_t)1 << (63 - __builtin_clzll(n))) / 8;

    return AS_ALIGN(n, AS_MAX(step, PAGE));
}

static struct cached_run *take_slot(size_t i)
{
    struct cached_run *k = NULL;

    if (atomic_load_explicit(&hints[i], memory_order_relaxed))
        k = atomic_exchange_explicit(&slots[i], NULL, memory_order_acquire);
    if (!k)
        return NULL;
    atomic_store_explicit(&hints[i], 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cached_bytes, k->n, memory_order_relaxed);
    return k;
}

static void unmap_run(struct cached_run *k)
{
    if (k)
        (void)munmap(k, k->n);
}

/* Puts a run, whose bytes are counted already, into the first empty slot. */
static bool fill_slot(struct cached_run *k)
{
    uint32_t pages = (uint32_t)(k->n / PAGE);

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct cached_run *none = NULL;

        if (atomic_load_explicit(&hints[i], memory_order_relaxed) ||
            !atomic_compare_exchange_strong_explicit(&slots[i], &none, k, memory_order_release,
                                                     memory_order_relaxed))
            continue;
        atomic_store_explicit(&hints[i], pages, memory_order_relaxed);
        return true;
    }
    return false;
}

/* Unmaps runs of the cache, each slot in turn, until k has room: what is asked for again leaves the
 * cache and comes back, so the sizes that nobody asks for go. */
static void cache_run(struct cached_run *k)
{
    if (k->n > AS_PAGES_CACHE_MAX) {
        unmap_run(k);
        return;
    }
    atomic_fetch_add_explicit(&cached_bytes, k->n, memory_order_relaxed);
    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        if (atomic_load_explicit(&cached_bytes, memory_order_relaxed) <= AS_PAGES_CACHE_MAX &&
            fill_slot(k))
            return;
        unmap_run(
            take_slot(atomic_fetch_add_explicit(&hand, 1, memory_order_relaxed) % AS_PAGES_SLOTS));
    }
    atomic_fetch_sub_explicit(&cached_bytes, k->n, memory_order_relaxed);
    unmap_run(k); /* other threads have filled the slots meanwhile */
}

static bool fits(size_t n, size_t need)
{
    return n >= need && n / 2 <= need;
}

/* The slot of the smallest run that fits; AS_PAGES_SLOTS: there is none. */
static size_t best_slot(size_t need)
{
    size_t best = AS_PAGES_SLOTS, best_n = SIZE_MAX;

    for (size_t i = 0; i < AS_PAGES_SLOTS && best_n != need; i++) {
        size_t n = atomic_load_explicit(&hints[i], memory_order_relaxed) * PAGE;

        if (fits(n, need) && n < best_n) {
            best = i;
            best_n = n;
        }
    }
    return best;
}

void *as_pages_reuse(size_t n, size_t *ret_n)
{
    size_t need = round_up(AS_MAX(n, PAGE)), i = best_slot(need);
    struct cached_run *k = i < AS_PAGES_SLOTS ? take_slot(i) : NULL;

    if (!k)
        return NULL;
    if (fits(k->n, need)) {
        *ret_n = k->n;
        return k;
    }
    cache_run(k); /* another thread has put it there since */
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

/* Moves a run to one of n bytes. */
static void *move_run(void *p, size_t old_n, size_t n)
{
#ifdef __SANITIZE_THREAD__
    /* ThreadSanitizer does not see mremap: it would take what another thread did at the new
     * addresses, before its own run left them, for a race. */
    void *to = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (to != MAP_FAILED) {
        memcpy(to, p, old_n);
        (void)munmap(p, old_n);
    }
    return to;
#else
    return mremap(p, old_n, n, MREMAP_MAYMOVE);
#endif
}

void *as_pages_grow(void *p, size_t old_n, size_t n, size_t *ret_n)
{
    size_t need;

    if (n > SIZE_MAX / 2)
        return NULL;
    need = round_up(n);
    if (need <= old_n) {
        *ret_n = old_n;
        return p;
    }
    p = move_run(p, old_n, need);
    if (p == MAP_FAILED)
        return NULL;
    *ret_n = need;
    return p;
}

void as_pages_put(void *p, size_t n)
{
    struct cached_run *k = p;

    *k = (struct cached_run){n, atomic_load_explicit(&trim_count, memory_order_relaxed)};
    cache_run(k);
}

void as_pages_trim(void)
{
    unsigned now = atomic_fetch_add_explicit(&trim_count, 1, memory_order_relaxed) + 1;

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct cached_run *k = take_slot(i);

        if (k && now - k->age >= 2)
            unmap_run(k);
        else if (k)
            cache_run(k);
    }
}

size_t as_pages_cached(void)
{
    return atomic_load_explicit(&cached_bytes, memory_order_relaxed);
}
