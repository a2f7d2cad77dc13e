/* core/queue/batch.h — when waiting requests become one call of a handler, and how many of them.
 *
 * A model with batching executes several requests in one call. Its requests wait in a lane of the
 * queue (core/queue/queue.h) together with others of their kind, that is, with requests that may
 * share a call. A lane is *due* when it holds enough items, or when one of its requests has waited
 * as long as it may. A lane that is due goes to the next free slot. With max_wait 0 a batch is
 * therefore what arrived while all slots were taken, and no request waits while a slot is free.
 * Pure; times in ns.
 */
#ifndef AS_CORE_BATCH_H
#define AS_CORE_BATCH_H

#include "base/defs.h"
#include "base/container/list.h"

#define AS_BATCH_MAX       65535u /* items of a batch */
#define AS_BATCH_WAIT_MAX  (60 * AS_SEC)
#define AS_BATCH_PREFERRED 16u

struct as_batch_conf {
    uint32_t max_size; /* items (rows of the first dimension) of one call; 0: no batching */
    as_ns max_wait;    /* how long a request may wait for others while a slot is free */
    uint32_t n_preferred;
    /* sizes at which the model is most efficient, in rising order */
    uint32_t preferred[AS_BATCH_PREFERRED];
    bool ragged; /* requests may share a call although their other dimensions differ */
};

/* One call of a handler with several requests. It takes one slot until the last of them ends. */
struct as_batch {
    uint32_t n;     /* requests that have not ended */
    uint32_t items; /* items of these, and of requests that ended after the handler received them */
    bool learned;   /* the service time of this call is recorded */
    bool counted;   /* the call is in the statistics: one of its requests was answered */
    struct as_list node; /* in as_deployment.batch_pool while unused */
};

/* NULL, or what is wrong with c (static text). With a max_size of 0 the other fields must be 0. */
const char *as_batch_check(const struct as_batch_conf *c);
bool as_batch_eq(const struct as_batch_conf *a, const struct as_batch_conf *b);

/* A lane with this many items is due: the smallest preferred size, else max_size. */
static inline uint32_t as_batch_enough(const struct as_batch_conf *c)
{
    return c->n_preferred ? c->preferred[0] : c->max_size;
}

/* The most items for one batch when `items` wait: the largest preferred size that they fill, or
 * max_size if they fill none. */
uint32_t as_batch_limit(const struct as_batch_conf *c, uint32_t items);

/* Until when a request that arrives now may wait for others: for max_wait, but no longer than half
 * of the time that `service` (the usual time of a call) leaves before its deadline. The other half
 * allows for late timers and slow calls. 0: it must not wait, because no time is left, or because
 * the deadline would shorten the wait and `service` is not known yet (0). */
as_ns as_batch_hold_until(const struct as_batch_conf *c, as_ns deadline, as_ns service, as_ns now);

#endif
