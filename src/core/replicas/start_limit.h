/* core/replicas/start_limit.h — how many processes may be starting at once, over all deployments.
 *
 * Starting is what costs: imports, models read from disk. Whoever may start stands in line; first
 * come, first served, so that a crash loop of one deployment, whose members come again and again,
 * cannot keep another's from starting. One that may not go yet, because it lacks something else,
 * keeps its place in the line, and those behind it go past it. Pure. Thread: the caller's, one for
 * all that share it.
 */
#ifndef AS_CORE_START_LIMIT_H
#define AS_CORE_START_LIMIT_H

#include "base/list.h"

struct as_start_limit {
    uint32_t max; /* > 0 */
    uint32_t n;   /* starting now; may be above max, by what was adopted */
    struct as_list line;
};

/* One that stands in line, or starts, or neither. */
struct as_start_request {
    struct as_list node; /* in the line */
    bool counted;        /* it is one of n */
    /* False: it lacks something, and is asked again. May not call as_start_limit_* back. */
    bool (*may_start)(struct as_start_request *s, as_ns now);
    /* Its turn: it starts now. May not call as_start_limit_* back. */
    void (*on_start)(struct as_start_request *s, as_ns now);
};

void as_start_limit_init(struct as_start_limit *a, uint32_t max);
void as_start_request_init(struct as_start_request *s,
                           bool (*may_start)(struct as_start_request *s, as_ns now),
                           void (*on_start)(struct as_start_request *s, as_ns now));
void as_start_limit_enqueue(struct as_start_limit *a,
                            struct as_start_request *s); /* at the end of the line */
void as_start_limit_count(struct as_start_limit *a,
                          struct as_start_request *s); /* it starts already (adopted) */
/* It starts no longer, or wants to no longer. Harmless when it does neither. */
void as_start_limit_remove(struct as_start_limit *a, struct as_start_request *s);
/* Lets as many go as there is room for, of those that may. */
void as_start_limit_admit(struct as_start_limit *a, as_ns now);

static inline bool as_start_request_is_queued(const struct as_start_request *s)
{
    return !as_list_empty(&s->node);
}

#endif
