/* core/route/sticky.h — which member served a key last: a bounded table with a time to live.
 *
 * Keys are 64-bit hashes. When the table is full, the key that was not used for the longest time is
 * forgotten. All functions take O(1), but for forgetting a member, which takes O(its keys). The
 * table does not own its members. Thread: that of its owner.
 */
#ifndef AS_CORE_STICKY_H
#define AS_CORE_STICKY_H

#include "base/container/list.h"

struct as_sticky_entry;

/* What the table knows of a member; embedded in it. */
struct as_sticky_member {
    struct as_list keys; /* its entries */
};

struct as_sticky {
    struct as_sticky_entry *by_key; /* a hash table */
    struct as_list by_use;          /* least recently used first */
    uint32_t n, max;
    as_ns ttl;
};

void as_sticky_init(struct as_sticky *t, uint32_t max, as_ns ttl); /* max > 0 */
void as_sticky_fini(struct as_sticky *t);
static inline void as_sticky_member_init(struct as_sticky_member *m)
{
    as_list_init(&m->keys);
}
/* The member of the key; NULL: it is not known, or was not used for ttl. */
struct as_sticky_member *as_sticky_find(struct as_sticky *t, uint64_t key, as_ns now);
/* The key was given to m. */
void as_sticky_put(struct as_sticky *t, uint64_t key, struct as_sticky_member *m, as_ns now);
/* m goes. */
void as_sticky_forget(struct as_sticky *t, struct as_sticky_member *m);

#endif
