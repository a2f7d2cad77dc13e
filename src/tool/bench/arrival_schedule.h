/* tool/bench/arrival_schedule.h — the moments at which an open-loop load wants its calls sent.
 *
 * The moments do not depend on how the server does: a call that could not be sent in time is still
 * due at its moment, and its latency counts from there. That is what keeps the measurement free of
 * coordinated omission. Pure: time and random state are the caller's.
 */
#ifndef AS_TOOL_SCHEDULE_H
#define AS_TOOL_SCHEDULE_H

#include "base/rand.h"

struct as_arrival_schedule {
    as_ns start;
    uint64_t rate; /* per second, > 0 */
    uint64_t n;    /* moments given so far */
    bool poisson;
    double offset; /* ns of the last poisson moment */
    struct as_rand rand;
};

void as_arrival_schedule_init(struct as_arrival_schedule *s, as_ns start, uint64_t rate,
                              bool poisson, uint64_t seed);
/* The next moment, never before the last one. Constant: start + i/rate, without drift, the first at
 * start. Poisson: exponentially distributed distances with mean 1/rate, the first one included. */
as_ns as_arrival_schedule_next(struct as_arrival_schedule *s);

#endif
