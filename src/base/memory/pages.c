#include "base/memory/pages.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

struct kept { /* lies in the run itself */
    size_t n;
    unsigned age; /* the number of trims there had been when it was put here */
};

static _Atomic(struct kept *) slots[AS_PAGES_SLOTS];
static atomic_size_t kept_bytes;
static atomic_uint trims;

/* Few different sizes, so that a run fits the next request of about its size. */
static size_t round_up(size_t n)
{
    size_t step = ((size_t)1 << (63 - __builtin_clzll(n))) / 8;

    return AS_ALIGN(n, AS_MAX(step, PAGE));
}

static struct kept *take(_Atomic(struct kept *) *slot)
{
    struct kept *k = NULL;

    if (atomic_load_explicit(slot, memory_order_relaxed))
        k = atomic_exchange_explicit(slot, NULL, memory_order_acquire);
    if (k)
        atomic_fetch_sub_explicit(&kept_bytes, k->n, memory_order_relaxed);
    return k;
}

/* Into the first empty slot; false: there is none, or enough is kept. */
static bool keep(struct kept *k)
{
    if (atomic_fetch_add_explicit(&kept_bytes, k->n, memory_order_relaxed) + k->n <=
        AS_PAGES_KEEP) {
        for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
            struct kept *none = NULL;

            if (!atomic_load_explicit(&slots[i], memory_order_relaxed) &&
                atomic_compare_exchange_strong_explicit(&slots[i], &none, k, memory_order_release,
                                                        memory_order_relaxed))
                return true;
        }
    }
    atomic_fetch_sub_explicit(&kept_bytes, k->n, memory_order_relaxed);
    return false;
}

static void give_back(struct kept *k)
{
    (void)munmap(k, k->n);
}

void *as_pages_reuse(size_t n, size_t *ret_n)
{
    size_t need = round_up(AS_MAX(n, PAGE));

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct kept *k = take(&slots[i]);

        if (!k)
            continue;
        if (k->n >= need && k->n / 2 <= need) {
            *ret_n = k->n;
            return k;
        }
        if (!keep(k))
            give_back(k);
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

void *as_pages_grow(void *p, size_t had, size_t n, size_t *ret_n)
{
    size_t need;

    if (n > SIZE_MAX / 2)
        return NULL;
    need = round_up(n);
    p = mremap(p, had, need, MREMAP_MAYMOVE);
    if (p == MAP_FAILED)
        return NULL;
    *ret_n = need;
    return p;
}

void as_pages_put(void *p, size_t n)
{
    struct kept *k = p;

    *k = (struct kept){n, atomic_load_explicit(&trims, memory_order_relaxed)};
    if (!keep(k))
        give_back(k);
}

void as_pages_trim(void)
{
    unsigned now = atomic_fetch_add_explicit(&trims, 1, memory_order_relaxed) + 1;

    for (size_t i = 0; i < AS_PAGES_SLOTS; i++) {
        struct kept *k = take(&slots[i]);

        if (k && (now - k->age >= 2 || !keep(k)))
            give_back(k);
    }
}

size_t as_pages_kept(void)
{
    return atomic_load_explicit(&kept_bytes, memory_order_relaxed);
}
