/* core/replicas/heartbeat.h — detects a process whose event loop hangs by its missing heartbeats.
 *
 * The watched process sends heartbeats at intervals, and its watcher checks for them at intervals.
 * Silence is measured in checks without a heartbeat, not by a clock. A check that comes late does
 * not count: the watcher itself was kept from running (stopped, no CPU time, the machine was
 * suspended), so the watched process may have been, too, and its heartbeats may not be read yet.
 * Lateness is seen by CLOCK_MONOTONIC, and by CLOCK_BOOTTIME, which also counts while the machine
 * is suspended. Pure. One thread.
 */
#ifndef AS_CORE_HEARTBEAT_H
#define AS_CORE_HEARTBEAT_H

#include "base/defs.h"

struct as_heartbeat {
    as_ns timeout;                /* 0: not watched */
    bool ever_received, received; /* a heartbeat came, ever; since the last check */
    uint32_t missed_checks;       /* checks in a row without a heartbeat */
    /* of the last check: CLOCK_MONOTONIC, and by how much CLOCK_BOOTTIME is ahead of it */
    as_ns checked_at, suspended;
    bool checked; /* there was a check */
};

/* The intervals of heartbeats and of checks. A timeout below 80 ms counts as 80 ms. */
as_ns as_heartbeat_interval(as_ns timeout);
as_ns as_heartbeat_check_interval(as_ns timeout);

/* A process that never sends a heartbeat, as one of another version may, never counts as hung. */
void as_heartbeat_init(struct as_heartbeat *h, as_ns timeout);
void as_heartbeat_received(struct as_heartbeat *h);
/* True: it has been silent for longer than the timeout (at most 1.5 times the timeout if checks are
 * in time). Each further check returns true until a heartbeat comes. */
bool as_heartbeat_check(struct as_heartbeat *h, as_ns monotonic, as_ns boottime);
/* The silence had a known reason: its measurement starts anew. */
void as_heartbeat_reset(struct as_heartbeat *h);

#endif
