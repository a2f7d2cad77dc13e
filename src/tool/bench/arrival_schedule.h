/* tool/bench/arrival_schedule.h — the times at which the calls of an open-loop load are due.
 *
 * The times do not depend on the server: a call that could not be sent in time is still due at its
 * time, and its latency counts from then. This avoids coordinated omission. Pure: the caller
 * provides the time and the seed.
 */
#ifndef AS_TOOL_ARRIVAL_SCHEDULE_H
#define AS_TOOL_ARRIVAL_SCHEDULE_H

#include "base/rand.h"

struct as_arrival_schedule {
    as_ns start;
    uint64_t rate; /* calls per second, > 0 */
    uint64_t n;    /* times returned so far */
    bool poisson;
    double offset; /* Poisson: the last time, in ns after start */
    struct as_rand rand;
};

void as_arrival_schedule_init(struct as_arrival_schedule *s, as_ns start, uint64_t rate,
                              bool poisson, uint64_t seed);
/* The next time, never before the last one. Constant: start + i/rate, without drift, the first at
 * start. Poisson: exponentially distributed distances with the mean 1/rate, also before the first.
 */
as_ns as_arrival_schedule_next(struct as_arrival_schedule *s);

#endif
