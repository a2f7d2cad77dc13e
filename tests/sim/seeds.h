/* tests/sim/seeds.h — what both simulators have in common: seed after seed, and a heap of events.
 *
 * A seed is a whole run. The first that fails is run again with a trace; after 20 failures it is
 * enough. What asserts or does not end is told with its seed, and ends the program.
 */
#ifndef AS_SIM_SEEDS_H
#define AS_SIM_SEEDS_H

#include "base/defs.h"

#include <string.h>

struct seeds {
    const char *name;                              /* of the program */
    bool (*run_seed)(uint64_t seed, bool verbose); /* whether all went well */
    void (*print)(void);                           /* what all runs together have met */
};

/* The program: NAME [--seeds N] [--first S] [--verbose]; its exit code. */
int seeds_main(const struct seeds *s, int argc, char **argv);

/* --- events, by time, then by the order in which they were made --- */

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

/* Copies the event of that size, which is the same for all of a heap; inline, so that it is a
 * constant. */
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

/* The earliest; there is one. */
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
