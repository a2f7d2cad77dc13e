/* core/replicas/lease.h — whether a worker that registered from outside is still there.
 *
 *            missed its heartbeat, or its socket refused
 *    LIVE ─────────────────────────────────────────────► LOST ──── grace ────► ENDED
 *      ▲                                                  │
 *      └──────── heartbeat, and the socket answers ───────┘
 *
 * LIVE: the worker gets requests. LOST: it does not. ENDED: the registration is to be removed. A
 * registration that replaces an older one of the same worker has a new lease; the caller ends the
 * older one. Pure; time is a parameter. Thread: the caller's.
 */
#ifndef AS_CORE_LEASE_H
#define AS_CORE_LEASE_H

#include "base/defs.h"

enum as_lease_state { AS_LEASE_LIVE, AS_LEASE_LOST, AS_LEASE_ENDED };

struct as_lease_conf {
    /* without a heartbeat for this long it is LOST; 0: no heartbeats are required */
    as_ns heartbeat;
    as_ns grace; /* from LOST to ENDED */
};

struct as_lease {
    enum as_lease_state state;
    bool refused; /* the last connection to its socket was refused */
    as_ns heard;  /* time of the last heartbeat, or of the registration */
    as_ns lost;   /* when it became LOST */
};

void as_lease_init(struct as_lease *l, as_ns now); /* LIVE */
/* Events: a heartbeat has come; its socket refused a connection; a connection to its socket was
 * made; time has passed. Each returns true when the state has changed. */
bool as_lease_heartbeat(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
bool as_lease_refused(struct as_lease *l, as_ns now);
bool as_lease_connected(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
bool as_lease_tick(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
/* When as_lease_tick has something to do, at the earliest; AS_NEVER: nothing. */
as_ns as_lease_next_due(const struct as_lease *l, const struct as_lease_conf *conf);

#endif
