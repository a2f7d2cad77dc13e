/* core/registry/counts.h — how often each status was answered for one thing that has a label in the
 * metrics: a route, a method of a service.
 *
 * Snapshots share it: it is counted (atomic), and a newer snapshot takes the reference of the older
 * one, so nothing is lost when routes change. Any thread adds and reads.
 */
#ifndef AS_CORE_COUNTS_H
#define AS_CORE_COUNTS_H

#include "base/defs.h"

#include <stdatomic.h>

#define AS_COUNTS_ROUTE   24u /* statuses of HTTP; the edge says which */
#define AS_COUNTS_SERVICE 17u /* those of gRPC */

struct as_counts {
    atomic_uint refs;
    uint32_t n;
    _Atomic uint64_t by[];
};

static inline struct as_counts *as_counts_new(uint32_t n) /* zeros; with one reference */
{
    struct as_counts *c = as_xalloc(sizeof(*c) + n * sizeof(c->by[0]));

    atomic_init(&c->refs, 1);
    c->n = n;
    return c;
}

static inline struct as_counts *as_counts_ref(struct as_counts *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static inline void as_counts_unref(struct as_counts *c) /* NULL is fine */
{
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
        free(c);
}

static inline void as_counts_add(struct as_counts *c, uint32_t i)
{
    AS_ASSERT(i < c->n);
    atomic_fetch_add_explicit(&c->by[i], 1, memory_order_relaxed);
}

static inline uint64_t as_counts_read(const struct as_counts *c, uint32_t i)
{
    return i < c->n ? atomic_load_explicit(&c->by[i], memory_order_relaxed) : 0;
}

#endif
