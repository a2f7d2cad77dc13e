#include "core/replicas/heartbeat.h"

#define PER_TIMEOUT 8u /* heartbeats */
#define CHECKS      4u /* checks in a timeout: two heartbeats between two checks */
#define MIN_INTERVAL                                                                               \
    (10 * AS_MS) /* between two heartbeats: an idle loop must not be woken too often */

as_ns as_heartbeat_interval(as_ns timeout)
{
    return AS_MAX(timeout / PER_TIMEOUT, MIN_INTERVAL);
}

as_ns as_heartbeat_check_interval(as_ns timeout)
{
    return PER_TIMEOUT / CHECKS * as_heartbeat_interval(timeout);
}

void as_heartbeat_init(struct as_heartbeat *h, as_ns timeout)
{
    *h = (struct as_heartbeat){.timeout = timeout};
}

void as_heartbeat_received(struct as_heartbeat *h)
{
    h->ever_received = h->received = true;
}

void as_heartbeat_reset(struct as_heartbeat *h)
{
    h->missed_checks = 0;
}

static bool is_late(const struct as_heartbeat *h, as_ns monotonic, as_ns asleep)
{
    as_ns most = 2 * as_heartbeat_check_interval(h->timeout);

    return h->checked && (monotonic - h->checked_at > most || asleep - h->suspended > most);
}

bool as_heartbeat_check(struct as_heartbeat *h, as_ns monotonic, as_ns boottime)
{
    as_ns asleep = boottime > monotonic ? boottime - monotonic : 0;
    bool was_late = is_late(h, monotonic, AS_MAX(asleep, h->suspended));

    h->missed_checks =
        h->received || was_late ? 0 : h->missed_checks + (h->missed_checks < UINT32_MAX);
    h->received = false;
    h->checked = true;
    h->checked_at = monotonic;
    h->suspended = AS_MAX(asleep, h->suspended);
    /* one check more than the timeout has: the first may have come right after a heartbeat */
    return h->timeout && h->ever_received && h->missed_checks > CHECKS;
}
