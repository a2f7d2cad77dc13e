/* tests/sim/seeds.h — what both simulators have in common: the loop over seeds, and a heap of
 * events.
 *
 * Each seed is one complete run. The first seed that fails is run again with a trace, and the
 * program ends after 20 failures. A seed in which core asserts or that does not end is printed, and
 * ends the program.
 */
#ifndef AS_SIM_SEEDS_H
#define AS_SIM_SEEDS_H

#include "base/defs.h"

#include <string.h>

struct seeds {
    const char *name;                              /* name of the program */
    bool (*run_seed)(uint64_t seed, bool verbose); /* true: no violation */
    void (*print)(void);                           /* prints the sums over all runs */
};

/* The main function of NAME [--seeds N] [--first S] [--verbose]; returns the exit code. */
int seeds_main(const struct seeds *s, int argc, char **argv);

/* --- events, ordered by time, then by creation --- */

struct due { /* the first member of an event */
    as_ns at;
    uint64_t seq;
};

struct heap {
    uint8_t *p;
    uint32_t n, cap;
    uint64_t seq;
};

static inline bool due_earlier(const void *a, const void *b)
{
    const struct due *x = a, *y = b;

    return x->at != y->at ? x->at < y->at : x->seq < y->seq;
}

/* Copies an event. All events of a heap have the same size; inline, so that it is a constant. */
static inline void heap_put(struct heap *h, as_ns at, void *event, size_t size)
{
    struct due *d = event;
    size_t i = h->n++, up;

    if (h->n > h->cap) {
        h->cap = 2 * h->cap + 256;
        h->p = as_xrealloc(h->p, h->cap * size);
    }
    d->at = at;
    d->seq = h->seq++;
    for (; i && due_earlier(event, h->p + (up = (i - 1) / 2) * size); i = up)
        memcpy(h->p + i * size, h->p + up * size, size);
    memcpy(h->p + i * size, event, size);
}

/* Removes the earliest event; the heap must not be empty. */
static inline void heap_take(struct heap *h, void *ret_event, size_t size)
{
    const uint8_t *last = h->p + --h->n * size;
    size_t i = 0, k;

    memcpy(ret_event, h->p, size);
    while ((k = 2 * i + 1) < h->n) {
        if (k + 1 < h->n && due_earlier(h->p + (k + 1) * size, h->p + k * size))
            k++;
        if (!due_earlier(h->p + k * size, last))
            break;
        memcpy(h->p + i * size, h->p + k * size, size);
        i = k;
    }
    if (i != h->n)
        memcpy(h->p + i * size, last, size);
}

static inline void heap_fini(struct heap *h)
{
    free(h->p);
    *h = (struct heap){0};
}

#endif
