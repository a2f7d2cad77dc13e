/* link/worker/worker_table.h — finds what is open on a link by its stream.
 *
 * A hash table of entries that are members of the objects. Streams of one side rise in steps of 2,
 * so that their buckets differ. It grows, and never shrinks. With the worker's lock held.
 */
#ifndef AS_LINK_WORKER_TABLE_H
#define AS_LINK_WORKER_TABLE_H

#include "base/defs.h"

struct as_worker_entry {
    uint64_t stream;
    struct as_worker_entry *next; /* of its bucket */
};

struct as_worker_table { /* zeros: empty */
    struct as_worker_entry **buckets;
    uint32_t cap, n; /* cap: a power of two, or 0 */
};

/* NULL: there is none. */
static inline struct as_worker_entry *as_worker_table_find(const struct as_worker_table *t,
                                                           uint64_t stream)
{
    struct as_worker_entry *e = t->n ? t->buckets[(stream >> 1) & (t->cap - 1)] : NULL;

    while (e && e->stream != stream)
        e = e->next;
    return e;
}

/* No other entry has this stream. */
void as_worker_table_add(struct as_worker_table *t, struct as_worker_entry *e, uint64_t stream);
void as_worker_table_remove(struct as_worker_table *t, struct as_worker_entry *e);
/* Removes one entry, and returns it; NULL: there is none. *at: where to continue, at first 0. */
struct as_worker_entry *as_worker_table_pop(struct as_worker_table *t, uint32_t *at);
void as_worker_table_clear(struct as_worker_table *t); /* forgets all entries */
void as_worker_table_fini(struct as_worker_table *t);

#endif
