/* base/container/event_heap.h — the events of a simulation, in the order of their time.
 *
 * Events of equal times come in the order in which they were put, so a run can be repeated. An
 * event is any struct whose first member is a struct as_event_due; all events of a heap have the
 * same size. The functions are inline so that this size is a constant. Pure; one thread.
 */
#ifndef AS_BASE_EVENT_HEAP_H
#define AS_BASE_EVENT_HEAP_H

#include "base/defs.h"

#include <string.h>

struct as_event_due { /* the first member of an event; set by as_event_heap_put */
    as_ns at;
    uint64_t seq;
};

struct as_event_heap { /* all zero: empty */
    uint8_t *p;
    uint32_t n, cap;
    uint64_t seq;
};

static inline bool as_event_due_earlier(const void *a, const void *b)
{
    const struct as_event_due *x = a, *y = b;

    return x->at != y->at ? x->at < y->at : x->seq < y->seq;
}

/* When the earliest event is due; AS_NEVER: there is none. */
static inline as_ns as_event_heap_next(const struct as_event_heap *h)
{
    return h->n ? ((const struct as_event_due *)(const void *)h->p)->at : AS_NEVER;
}

/* Copies an event, which is due at `at`. */
static inline void as_event_heap_put(struct as_event_heap *h, as_ns at, void *event, size_t size)
{
    struct as_event_due *d = event;
    size_t i = h->n++, up;

    if (h->n > h->cap) {
        h->cap = 2 * h->cap + 256;
        h->p = as_xrealloc(h->p, h->cap * size);
    }
    d->at = at;
    d->seq = h->seq++;
    for (; i && as_event_due_earlier(event, h->p + (up = (i - 1) / 2) * size); i = up)
        memcpy(h->p + i * size, h->p + up * size, size);
    memcpy(h->p + i * size, event, size);
}

/* Removes the earliest event; the heap must not be empty. */
static inline void as_event_heap_take(struct as_event_heap *h, void *ret_event, size_t size)
{
    const uint8_t *last = h->p + --h->n * size;
    size_t i = 0, k;

    memcpy(ret_event, h->p, size);
    while ((k = 2 * i + 1) < h->n) {
        if (k + 1 < h->n && as_event_due_earlier(h->p + (k + 1) * size, h->p + k * size))
            k++;
        if (!as_event_due_earlier(h->p + k * size, last))
            break;
        memcpy(h->p + i * size, h->p + k * size, size);
        i = k;
    }
    if (i != h->n)
        memcpy(h->p + i * size, last, size);
}

static inline void as_event_heap_fini(struct as_event_heap *h)
{
    free(h->p);
    *h = (struct as_event_heap){0};
}

#endif
