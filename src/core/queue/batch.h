/* core/queue/batch.h — when requests become one call of a handler, and how many of them.
 *
 * A model with batching takes several requests at once. They wait in a lane of the queue (queue.h)
 * with others of their kind: those that may share a call. A lane is *ripe* when it holds enough
 * items, or when one of its requests has waited as long as it may; a ripe lane goes to the next
 * free slot. So with max_wait 0 a batch is what came while the slots were taken, and nobody ever
 * waits while one is free. Pure; times in ns.
 */
#ifndef AS_CORE_BATCH_H
#define AS_CORE_BATCH_H

#include "base/defs.h"
#include "base/list.h"

#define AS_BATCH_MAX       65535u /* items of a batch */
#define AS_BATCH_WAIT_MAX  (60 * AS_SEC)
#define AS_BATCH_PREFERRED 16u

struct as_batch_conf {
    uint32_t max_size; /* items (rows of the first dimension) of one call; 0: no batching */
    as_ns max_wait;    /* how long a request may be held back for others while a slot is free */
    uint32_t n_preferred;
    uint32_t preferred[AS_BATCH_PREFERRED]; /* sizes that the model is best at, rising */
    bool ragged; /* requests whose further dimensions differ share a call too */
};

/* One call of a handler with several requests: a slot, until the last of them has ended. */
struct as_batch {
    uint32_t n;          /* requests that have not ended */
    uint32_t items;      /* of those, and of those that ended after the handler had them */
    bool learned;        /* one of them has told the service time */
    bool counted;        /* one of them was answered: statistics have the call */
    struct as_list node; /* the pool */
};

/* NULL, or what is wrong with it (static text). A max_size of 0 needs nothing else. */
const char *as_batch_check(const struct as_batch_conf *c);
bool as_batch_eq(const struct as_batch_conf *a, const struct as_batch_conf *b);

/* So many items need not wait for more: the smallest preferred size, else max_size. */
static inline uint32_t as_batch_enough(const struct as_batch_conf *c)
{
    return c->n_preferred ? c->preferred[0] : c->max_size;
}

/* Of so many waiting items a batch takes up to this many: the largest preferred size among them,
 * or, when there are fewer than any, what there is. */
uint32_t as_batch_limit(const struct as_batch_conf *c, uint32_t items);

/* Until when a request that comes now may be held back: for max_wait, and no longer than half of
 * what the handler's usual time (`service`) leaves of its deadline. The other half is for timers
 * that fire late, and for calls that take longer than usual. Where the deadline counts and that
 * time is not known yet (0), and where nothing is left: 0, not at all. */
as_ns as_batch_hold_until(const struct as_batch_conf *c, as_ns deadline, as_ns service, as_ns now);

#endif
