/* core/replicas/heartbeat.h — whether a process that says at intervals that its event loop turns
 * still does.
 *
 * Pure: whoever hears it looks at intervals, and says what the clocks are. Silence is counted in
 * looks, not read off a clock. A look that comes late counts for nothing: the one who looks was
 * kept from it (stopped, out of CPU time, the machine asleep), so the others may have been, too,
 * and what they said has not been read yet. By CLOCK_MONOTONIC, and by CLOCK_BOOTTIME, which counts
 * sleep. One thread.
 */
#ifndef AS_CORE_HEARTBEAT_H
#define AS_CORE_HEARTBEAT_H

#include "base/defs.h"

struct as_heartbeat {
    as_ns timeout;                /* 0: it is not watched */
    bool ever_received, received; /* since the beginning; since the last look */
    uint32_t missed_checks;       /* looks in a row */
    as_ns checked_at, suspended;  /* at the last look: asleep is how far CLOCK_BOOTTIME is ahead */
    bool checked;
};

/* How often it is to be said, and to look. For a timeout below 80 ms both are as for that. */
as_ns as_heartbeat_interval(as_ns timeout);
as_ns as_heartbeat_check_interval(as_ns timeout);

/* A process that never says anything, one of another version, is well. */
void as_heartbeat_init(struct as_heartbeat *h, as_ns timeout);
void as_heartbeat_received(struct as_heartbeat *h);
/* True: it has been silent for longer than the timeout, at most one and a half of it when looks are
 * in time. Until it is heard again each look says so. */
bool as_heartbeat_check(struct as_heartbeat *h, as_ns monotonic, as_ns boottime);
/* It was silent for a reason: its time begins anew. */
void as_heartbeat_reset(struct as_heartbeat *h);

#endif
