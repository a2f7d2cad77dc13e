/* core/replicas/start_limit.h — limits how many processes start at once, over all deployments.
 *
 * A start is expensive: imports, models read from disk. Starts wait in a queue, first come first
 * served, so that a crash loop of one deployment cannot keep another from starting. A start that is
 * not possible yet, because it lacks some resource, stays in its place in the queue, and those
 * behind it may go first. Pure. Thread: the caller's, one for all plans that share the limit.
 */
#ifndef AS_CORE_START_LIMIT_H
#define AS_CORE_START_LIMIT_H

#include "base/container/list.h"

struct as_start_limit {
    uint32_t max; /* > 0 */
    uint32_t n;   /* starting now; adopted processes may bring it above max */
    struct as_list line;
};

/* A start that is queued, or under way, or neither. */
struct as_start_request {
    struct as_list node; /* in as_start_limit.line while queued */
    bool counted;        /* it is counted in `n` */
    /* False: it lacks a resource, and is asked again later. Must not call as_start_limit_*. */
    bool (*may_start)(struct as_start_request *s, as_ns now);
    /* It starts now. Must not call as_start_limit_*. */
    void (*on_start)(struct as_start_request *s, as_ns now);
};

void as_start_limit_init(struct as_start_limit *a, uint32_t max);
void as_start_request_init(struct as_start_request *s,
                           bool (*may_start)(struct as_start_request *s, as_ns now),
                           void (*on_start)(struct as_start_request *s, as_ns now));
/* At the end of the queue. */
void as_start_limit_enqueue(struct as_start_limit *a, struct as_start_request *s);
/* It is starting already (adopted). */
void as_start_limit_count(struct as_start_limit *a, struct as_start_request *s);
/* The start has ended, or is not wanted any more. No effect if it is neither queued nor counted. */
void as_start_limit_remove(struct as_start_limit *a, struct as_start_request *s);
/* Starts queued ones that may start, as far as the limit allows. */
void as_start_limit_admit(struct as_start_limit *a, as_ns now);

static inline bool as_start_request_is_queued(const struct as_start_request *s)
{
    return !as_list_empty(&s->node);
}

#endif
