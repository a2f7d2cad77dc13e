#include "core/queue/due_heap.h"

void as_due_heap_init(struct as_due_heap *h)
{
    *h = (struct as_due_heap){0};
}

void as_due_heap_fini(struct as_due_heap *h)
{
    free(h->all);
    *h = (struct as_due_heap){0};
}

static void put(struct as_due_heap *h, size_t i, struct as_due *x)
{
    h->all[i] = x;
    x->index = i;
}

static void sift_up(struct as_due_heap *h, size_t i, struct as_due *x)
{
    while (i > 0 && h->all[(i - 1) / 2]->at > x->at) {
        put(h, i, h->all[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(h, i, x);
}

static void sift_down(struct as_due_heap *h, size_t i, struct as_due *x)
{
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->all[child + 1]->at < h->all[child]->at)
            child++;
        if (h->all[child]->at >= x->at)
            break;
        put(h, i, h->all[child]);
        i = child;
    }
    put(h, i, x);
}

void as_due_heap_push(struct as_due_heap *h, struct as_due *x)
{
    AS_ASSERT(x->index == SIZE_MAX);
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->all = as_xrealloc(h->all, h->cap * sizeof(struct as_due *));
    }
    sift_up(h, h->n++, x);
}

void as_due_heap_remove(struct as_due_heap *h, struct as_due *x)
{
    size_t i = x->index;
    struct as_due *last;

    if (i == SIZE_MAX)
        return;
    AS_ASSERT(i < h->n && h->all[i] == x);
    last = h->all[--h->n];
    x->index = SIZE_MAX;
    if (last == x)
        return;
    if (i > 0 && h->all[(i - 1) / 2]->at > last->at)
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
}

bool as_due_heap_ok(const struct as_due_heap *h)
{
    for (size_t i = 0; i < h->n; i++) {
        if (h->all[i]->index != i || h->all[i]->at == AS_NEVER)
            return false;
        if (i > 0 && h->all[(i - 1) / 2]->at > h->all[i]->at)
            return false;
    }
    return true;
}
