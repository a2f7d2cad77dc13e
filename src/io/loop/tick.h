/* io/loop/tick.h — a one-shot timer with the precision of the kernel.
 *
 * as_timer (io/loop/loop.h) counts milliseconds, which suffices for timeouts; a load generator that
 * sends at given times needs microseconds. It is a timerfd that the loop watches. Thread: the
 * loop's.
 */
#ifndef AS_IO_TICK_H
#define AS_IO_TICK_H

#include "io/loop/sock.h"

struct as_tick {
    struct as_sock sock;
    void (*fire)(struct as_tick *t);
    void (*closed)(struct as_tick *t);
};

/* 0 or AS_EIO: nothing to close. */
int as_tick_open(struct as_tick *t, struct as_loop *l, void (*fire)(struct as_tick *t));
/* Fires once, not before `at` (CLOCK_MONOTONIC), at once for a time in the past. Replaces the time
 * before; AS_NEVER stops it. */
void as_tick_set(struct as_tick *t, as_ns at);
/* Asynchronous: `closed` (may be NULL) is called when the memory may be freed. */
void as_tick_close(struct as_tick *t, void (*closed)(struct as_tick *t));

#endif
