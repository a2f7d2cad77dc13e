/* core/autoscale/load_history.h — the number of requests over time, and its mean, largest and least
 * value over the last seconds.
 *
 * The counts are exact and come when they change; each holds until the next one. So the mean is
 * weighted by time. The past is kept in AS_LOAD_BUCKETS parts of the longest window, so a window is
 * exact to a part; one of 0 is the count of now. Where less is known than the window, it covers
 * what is known. Pure.
 */
#ifndef AS_CORE_LOAD_HISTORY_H
#define AS_CORE_LOAD_HISTORY_H

#include "base/defs.h"

#define AS_LOAD_BUCKETS 64u

enum as_load_aggregation { AS_LOAD_MEAN, AS_LOAD_MAX, AS_LOAD_MIN };

struct as_load_bucket {
    uint64_t index;     /* which part of time; a bucket with another one is empty */
    as_ns covered;      /* ns of it that are known */
    double sum;         /* count × ns */
    uint32_t high, low; /* the largest and the least count */
};

struct as_load_history {
    as_ns width; /* of a bucket */
    bool known;  /* `count` has a value */
    uint32_t count;
    as_ns at; /* `count` is in the buckets up to then */
    struct as_load_bucket bucket[AS_LOAD_BUCKETS + 1];
};

/* window: the longest one that is asked for. Nothing is known. */
void as_load_history_init(struct as_load_history *h, as_ns window);
/* The count is this from now on. */
void as_load_history_set(struct as_load_history *h, uint32_t count, as_ns now);
/* Nothing is known any more: who counts has ended. */
void as_load_history_forget(struct as_load_history *h);
/* The aggregate of the last `window` ns; 0 if nothing is known. *ret_varies: it may change without
 * a new count, since counts leave the window. */
double as_load_history_value(struct as_load_history *h, enum as_load_aggregation how, as_ns window,
                             as_ns now, bool *ret_varies);

#endif
