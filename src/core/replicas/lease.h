/* core/replicas/lease.h — how long a worker that registered from outside is believed to be there.
 *
 *            missed its heartbeat, or its socket refused
 *    LIVE ─────────────────────────────────────────────► LOST ──── grace ────► ENDED
 *      ▲                                                  │
 *      └──────── heartbeat, and the socket answers ───────┘
 *
 * LIVE is in the rotation, LOST is not, ENDED is to be forgotten. A registration that replaces an
 * older one of the same worker is a lease of its own; the older one is ended by whoever keeps them.
 * Pure: time comes in. Thread: the caller's.
 */
#ifndef AS_CORE_LEASE_H
#define AS_CORE_LEASE_H

#include "base/defs.h"

enum as_lease_state { AS_LEASE_LIVE, AS_LEASE_LOST, AS_LEASE_ENDED };

struct as_lease_conf {
    as_ns heartbeat; /* so long without one, and it is LOST; 0: none are asked for */
    as_ns grace;     /* from LOST to ENDED */
};

struct as_lease {
    enum as_lease_state state;
    bool refused; /* the last word of its socket */
    as_ns heard;  /* the last heartbeat, or the registration */
    as_ns lost;   /* when it became LOST */
};

void as_lease_init(struct as_lease *l, as_ns now); /* LIVE */
/* Each returns true when the state has changed: a heartbeat has come; its socket refused; its
 * socket was connected to; time has passed. */
bool as_lease_heartbeat(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
bool as_lease_refused(struct as_lease *l, as_ns now);
bool as_lease_connected(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
bool as_lease_tick(struct as_lease *l, const struct as_lease_conf *conf, as_ns now);
/* When as_lease_tick has something to do, at the earliest; AS_NEVER: nothing. */
as_ns as_lease_next_due(const struct as_lease *l, const struct as_lease_conf *conf);

#endif
