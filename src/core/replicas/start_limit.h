/* core/replicas/start_limit.h — how many processes may be starting at once, over all deployments.
 *
 * Starting is what costs: imports, models read from disk. Whoever may start stands in line; first
 * come, first served, so that a crash loop of one deployment, whose members come again and again,
 * cannot keep another's from starting. One that may not go yet, because it lacks something else,
 * keeps its place in the line, and those behind it go past it. Pure. Thread: the caller's, one for
 * all that share it.
 */
#ifndef AS_CORE_STARTS_H
#define AS_CORE_STARTS_H

#include "base/list.h"

struct as_starts {
    uint32_t max; /* > 0 */
    uint32_t n;   /* starting now; may be above max, by what was adopted */
    struct as_list line;
};

/* One that stands in line, or starts, or neither. */
struct as_start {
    struct as_list place; /* in the line */
    bool counted;         /* it is one of n */
    /* False: it lacks something, and is asked again. May not call as_starts_* back. */
    bool (*may)(struct as_start *s, as_ns now);
    /* Its turn: it starts now. May not call as_starts_* back. */
    void (*go)(struct as_start *s, as_ns now);
};

void as_starts_init(struct as_starts *a, uint32_t max);
void as_start_init(struct as_start *s, bool (*may)(struct as_start *s, as_ns now),
                   void (*go)(struct as_start *s, as_ns now));
void as_starts_ask(struct as_starts *a, struct as_start *s);   /* at the end of the line */
void as_starts_count(struct as_starts *a, struct as_start *s); /* it starts already (adopted) */
/* It starts no longer, or wants to no longer. Harmless when it does neither. */
void as_starts_leave(struct as_starts *a, struct as_start *s);
/* Lets as many go as there is room for, of those that may. */
void as_starts_admit(struct as_starts *a, as_ns now);

static inline bool as_start_waits(const struct as_start *s)
{
    return !as_list_empty(&s->place);
}

#endif
