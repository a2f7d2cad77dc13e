#include "core/replicas/heartbeat.h"

#define PER_TIMEOUT 8u           /* times that it is said */
#define LOOKS       4u           /* in a timeout: two are said between two looks */
#define LEAST       (10 * AS_MS) /* between two: a loop that sleeps must not be woken all the time */

as_ns as_heartbeat_interval(as_ns timeout)
{
    return AS_MAX(timeout / PER_TIMEOUT, LEAST);
}

as_ns as_heartbeat_check_interval(as_ns timeout)
{
    return PER_TIMEOUT / LOOKS * as_heartbeat_interval(timeout);
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
    /* one more than the timeout has: the first one may have come right after it was heard */
    return h->timeout && h->ever_received && h->missed_checks > LOOKS;
}
