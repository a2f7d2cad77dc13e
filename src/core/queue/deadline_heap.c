#include "core/queue/deadline_heap.h"

void as_deadline_heap_init(struct as_deadline_heap *h)
{
    *h = (struct as_deadline_heap){0};
}

void as_deadline_heap_fini(struct as_deadline_heap *h)
{
    free(h->at);
    *h = (struct as_deadline_heap){0};
}

static void set_at(struct as_deadline_heap *h, size_t i, struct as_request *q)
{
    h->at[i] = q;
    q->heap_index = i;
}

static void sift_up(struct as_deadline_heap *h, size_t i, struct as_request *q)
{
    while (i > 0 && h->at[(i - 1) / 2]->deadline > q->deadline) {
        set_at(h, i, h->at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    set_at(h, i, q);
}

static void sift_down(struct as_deadline_heap *h, size_t i, struct as_request *q)
{
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->at[child + 1]->deadline < h->at[child]->deadline)
            child++;
        if (h->at[child]->deadline >= q->deadline)
            break;
        set_at(h, i, h->at[child]);
        i = child;
    }
    set_at(h, i, q);
}

void as_deadline_heap_push(struct as_deadline_heap *h, struct as_request *q)
{
    AS_ASSERT(q->heap_index == SIZE_MAX);
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->at = as_xrealloc(h->at, h->cap * sizeof(struct as_request *));
    }
    sift_up(h, h->n++, q);
}

void as_deadline_heap_remove(struct as_deadline_heap *h, struct as_request *q)
{
    size_t i = q->heap_index;
    struct as_request *last;

    if (i == SIZE_MAX)
        return;
    AS_ASSERT(i < h->n && h->at[i] == q);
    last = h->at[--h->n];
    q->heap_index = SIZE_MAX;
    if (last == q)
        return;
    if (i > 0 && h->at[(i - 1) / 2]->deadline > last->deadline)
        sift_up(h, i, last);
    else
        sift_down(h, i, last);
}

struct as_request *as_deadline_heap_first(const struct as_deadline_heap *h)
{
    return h->n ? h->at[0] : NULL;
}

bool as_deadline_heap_ok(const struct as_deadline_heap *h)
{
    for (size_t i = 0; i < h->n; i++) {
        if (h->at[i]->heap_index != i || h->at[i]->deadline == AS_NEVER)
            return false;
        if (i > 0 && h->at[(i - 1) / 2]->deadline > h->at[i]->deadline)
            return false;
    }
    return true;
}
