/* core/queue/queue_drain.h — when a client that was refused by a full queue should come back.
 *
 * The hint is the time until the queue is empty, at the rate at which requests have recently left
 * it. The rate is measured only while requests are refused, so that it costs nothing otherwise. The
 * first refusal starts a measurement; until it has a result the caller's estimate is used. Pure.
 * Thread: the caller's.
 */
#ifndef AS_CORE_QUEUE_DRAIN_H
#define AS_CORE_QUEUE_DRAIN_H

#include "base/defs.h"

#define AS_QUEUE_DRAIN_MIN     AS_MS
#define AS_QUEUE_DRAIN_MAX     (60 * AS_SEC)
#define AS_QUEUE_DRAIN_DEFAULT AS_SEC /* the hint when no rate is known */

struct as_queue_drain {
    as_ns since;   /* when the current measurement began; 0: none */
    uint64_t left; /* `left` at that time */
    as_ns gap;     /* measured time between two requests that leave, in 1/1024 ns; 0: unknown */
};

/* Returns the time to wait, AS_QUEUE_DRAIN_MIN … AS_QUEUE_DRAIN_MAX. left: requests that ever left
 * the queue. waiting: requests in the queue. guess: the caller's estimate of the time between two
 * that leave, in 1/1024 ns; 0: none. */
as_ns as_queue_drain_time(struct as_queue_drain *s, uint64_t left, uint64_t waiting, as_ns guess,
                          as_ns now);

#endif
