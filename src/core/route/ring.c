#include "core/route/ring.h"

#include "base/rand.h"

struct as_ring_point {
    uint64_t at;
    void *member;
};

void as_ring_init(struct as_ring *g)
{
    *g = (struct as_ring){0};
}

void as_ring_fini(struct as_ring *g)
{
    free(g->points);
    as_ring_init(g);
}

static int compare(const void *a, const void *b)
{
    const struct as_ring_point *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

void as_ring_add(struct as_ring *g, void *member, uint64_t id, uint32_t n)
{
    struct as_rand positions = {id};
    struct as_ring_point *own;
    size_t from = g->n, to = g->n + n;

    AS_ASSERT(n > 0);
    own = as_xalloc(n * sizeof(*own));
    for (uint32_t i = 0; i < n; i++)
        own[i] = (struct as_ring_point){as_rand_next(&positions), member};
    qsort(own, n, sizeof(*own), compare);
    if (to > g->cap) {
        g->cap = AS_MAX(2 * g->cap, to);
        g->points = as_xrealloc(g->points, g->cap * sizeof(*own));
    }
    g->n = to;
    while (n) { /* merges both from the end */
        if (from && g->points[from - 1].at > own[n - 1].at)
            g->points[--to] = g->points[--from];
        else
            g->points[--to] = own[--n];
    }
    free(own);
}

void as_ring_remove(struct as_ring *g, const void *member)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (g->points[i].member != member)
            g->points[n++] = g->points[i];
    }
    g->n = n;
}

uint32_t as_ring_find(const struct as_ring *g, uint64_t key, void **ret_members, uint32_t max)
{
    size_t low = 0, high = g->n;
    uint32_t n = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (g->points[middle].at < key)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = 0; n < max && i < AS_MIN(g->n, AS_RING_WALK); i++) {
        void *m = g->points[(low + i) % g->n].member;
        uint32_t k = 0;

        while (k < n && ret_members[k] != m)
            k++;
        if (k == n)
            ret_members[n++] = m;
    }
    return n;
}
