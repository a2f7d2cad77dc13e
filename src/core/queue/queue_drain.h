/* core/queue/queue_drain.h — when it is worth coming back to a queue that is full.
 *
 * The time in which the queue would be empty at the rate at which requests have left it of late.
 * Measured only while requests are refused, so that it costs the others nothing: the first refusal
 * begins a measurement, and until there is one an estimate of the caller's is taken. Pure. Thread:
 * the caller's.
 */
#ifndef AS_CORE_QUEUE_DRAIN_H
#define AS_CORE_QUEUE_DRAIN_H

#include "base/defs.h"

#define AS_QUEUE_DRAIN_MIN     AS_MS
#define AS_QUEUE_DRAIN_MAX     (60 * AS_SEC)
#define AS_QUEUE_DRAIN_DEFAULT AS_SEC /* nothing is known */

struct as_queue_drain {
    as_ns since;   /* when this measurement began; 0: none is under way */
    uint64_t left; /* requests that had left by then */
    as_ns gap;     /* between two that leave, in 1/1024 ns; 0: unknown */
};

/* left: requests that have left the queue, ever. waiting: that are in it. guess: the caller's
 * estimate of the time between two that leave, in 1/1024 ns; 0: none. */
as_ns as_queue_drain_time(struct as_queue_drain *s, uint64_t left, uint64_t waiting, as_ns guess,
                          as_ns now);

#endif
