/* io/loop/clock.h — the kernel's clocks, in nanoseconds. What runs in a loop takes the loop's time
 * (as_loop_now), which is read once a turn. Any thread.
 */
#ifndef AS_IO_CLOCK_H
#define AS_IO_CLOCK_H

#include "base/defs.h"

#include <time.h>

static inline as_ns as_timespec_ns(const struct timespec *t)
{
    return (as_ns)t->tv_sec * AS_SEC + (as_ns)t->tv_nsec;
}

/* `clock`: of clock_gettime(2), and one that the kernel has. */
static inline as_ns as_clock_read(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return as_timespec_ns(&t);
}

static inline as_ns as_clock_now(void)
{
    return as_clock_read(CLOCK_MONOTONIC);
}

#endif
