#include "core/replicas/lease.h"

static bool on_time(const struct as_lease *l, const struct as_lease_conf *conf, as_ns now)
{
    return !conf->heartbeat || now - l->heard < conf->heartbeat;
}

static void mark_lost(struct as_lease *l, as_ns now)
{
    l->state = AS_LEASE_LOST;
    l->lost = now;
}

/* It is LIVE again when heartbeats are in time and its socket accepts connections. */
static bool recover(struct as_lease *l, const struct as_lease_conf *conf, as_ns now)
{
    if (l->state != AS_LEASE_LOST || l->refused || !on_time(l, conf, now))
        return false;
    l->state = AS_LEASE_LIVE;
    return true;
}

void as_lease_init(struct as_lease *l, as_ns now)
{
    *l = (struct as_lease){.state = AS_LEASE_LIVE, .heard = now};
}

bool as_lease_heartbeat(struct as_lease *l, const struct as_lease_conf *conf, as_ns now)
{
    l->heard = now;
    return recover(l, conf, now);
}

bool as_lease_refused(struct as_lease *l, as_ns now)
{
    l->refused = true;
    if (l->state != AS_LEASE_LIVE)
        return false;
    mark_lost(l, now);
    return true;
}

bool as_lease_connected(struct as_lease *l, const struct as_lease_conf *conf, as_ns now)
{
    l->refused = false;
    return recover(l, conf, now);
}

bool as_lease_tick(struct as_lease *l, const struct as_lease_conf *conf, as_ns now)
{
    if (l->state == AS_LEASE_LIVE && !on_time(l, conf, now)) {
        mark_lost(l, now);
        return true;
    }
    if (l->state == AS_LEASE_LOST && now - l->lost >= conf->grace) {
        l->state = AS_LEASE_ENDED;
        return true;
    }
    return false;
}

as_ns as_lease_next_due(const struct as_lease *l, const struct as_lease_conf *conf)
{
    if (l->state == AS_LEASE_LIVE)
        return conf->heartbeat ? l->heard + conf->heartbeat : AS_NEVER;
    return l->state == AS_LEASE_LOST ? l->lost + conf->grace : AS_NEVER;
}
