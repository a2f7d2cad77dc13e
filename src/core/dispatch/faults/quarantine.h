/* core/dispatch/faults/quarantine.h — suspects (core/protect/blame.h) run alone in a replica, one
 * after the other, while the other replicas serve everybody else.
 *
 *               a suspect is next        it is idle               time over
 *         NONE ─────────────────► RESERVED ──────────► ALONE ────────────────► SHARED
 *          ▲ ▲                       │                   │                       │
 *          │ └── time over: pause ───┤                   │                       │
 *          └──── suspect leaves, ────┴──── it ends, ─────┴──── or the replica ───┘
 *                replica drains            replica goes        goes
 *
 * RESERVED: the replica takes nothing new until it is idle. ALONE: only the suspect runs there, so
 * a death proves that the suspect caused it. SHARED: the suspect has used up its time alone, and
 * others may come; until one does, a death still proves it.
 *
 * Fairness: one crash can make hundreds of suspects, and the other requests must not wait for all
 * of them. When a quarantine ends, all requests that wait at that moment have their turn first: no
 * replica that they could use is reserved until as many of them have been sent
 * (as_deployment.turns_owed). A replica that has room is of no use to them, since nothing waits
 * that it could take. So a request waits for at most one suspect, and suspects get the capacity
 * that the others leave. Under overload one suspect runs for each time that the queue was worked
 * off.
 *
 * Limits: RESERVED lasts at most `time`; then the replica serves the others for as long before it
 * is reserved again. ALONE lasts `time`, or twice as long as such a request had run when its worker
 * ended (a request that hangs shows it only after that time), but at most AS_QUARANTINE_MAX. A
 * suspect that waits for longer than `wait` while there is a replica is answered with AS_ESUSPECT,
 * or with AS_EMAYHAVERUN if it has run.
 *
 * Thread: the loop that owns the deployment.
 */
#ifndef AS_CORE_QUARANTINE_H
#define AS_CORE_QUARANTINE_H

#include "base/defs.h"

struct as_blame_entry;
struct as_deployment;
struct as_replica;
struct as_request;

enum as_quarantine_state {
    AS_QUARANTINE_NONE,
    AS_QUARANTINE_RESERVED,
    AS_QUARANTINE_ALONE,
    AS_QUARANTINE_SHARED
};

/* The longest time that a suspect may have a replica for itself: in a deployment with one replica
 * all other requests wait meanwhile. */
#define AS_QUARANTINE_MAX (60 * AS_SEC)

struct as_quarantine_conf {
    as_ns time; /* at least 1 */
    as_ns wait; /* at least 1 */
};

/* The quarantine of one replica. */
struct as_quarantine {
    enum as_quarantine_state state;
    bool alone;                 /* ALONE, SHARED: no other request has been there since it began */
    struct as_request *suspect; /* NULL in state NONE */
    as_ns until; /* RESERVED, ALONE: its end; NONE: not reserved before; 0: no limit */
};

/* --- the quarantines of a deployment; internal to it --- */

/* Could one more suspect of this model run alone at once, in a replica that is idle? */
bool as_quarantine_has_room(const struct as_deployment *d, uint32_t model);
/* Makes q (QUEUED, in no list, a suspect) wait for a replica of its own. as_quarantine_schedule
 * must follow. */
void as_quarantine_enqueue(struct as_deployment *d, struct as_request *q, as_ns now);
/* Removes q (QUEUED, a suspect) from the waiting suspects; it is no suspect any more. Returns the
 * replica that was reserved for it and now has room, or NULL. */
struct as_replica *as_quarantine_dequeue(struct as_deployment *d, struct as_request *q);
/* The same, and sends other requests to that replica. */
void as_quarantine_remove(struct as_deployment *d, struct as_request *q, as_ns now);
/* Reserves replicas for suspects as far as it is their turn, and sends the suspects whose replica
 * is idle. Keeps rule 1. */
void as_quarantine_schedule(struct as_deployment *d, as_ns now);
/* Lets replicas that lost their reservation (has_released_replicas) take waiting requests. */
void as_quarantine_pull_freed(struct as_deployment *d, as_ns now);
/* q was sent to r while turns are owed or r is in quarantine. */
void as_quarantine_on_sent(struct as_replica *r, const struct as_request *q);
/* The suspect q has been detached from r. well: it ended well, so requests like it are no suspects
 * any more. */
void as_quarantine_done(struct as_replica *r, struct as_request *q, bool well, as_ns now);
/* Ends the reservation of r: it drains, is ejected, has no slots, or does not serve the model. */
void as_quarantine_release(struct as_replica *r);
/* r is removed. If only a suspect ran there, this death may prove something: returns the entry of
 * that suspect, and no request like it runs until as_quarantine_resolve. Else NULL. */
struct as_blame_entry *as_quarantine_abort(struct as_replica *r);
/* The cause of that death is known, or will not be. e may be NULL. */
void as_quarantine_resolve(struct as_deployment *d, struct as_blame_entry *e);
/* After a replica was added, removed or drained: updates serving_since. */
void as_quarantine_update_serving(struct as_deployment *d, as_ns now);
/* Ends whatever has lasted too long. */
void as_quarantine_expire(struct as_deployment *d, as_ns now);
as_ns as_quarantine_next_due(const struct as_deployment *d); /* AS_NEVER: nothing */
bool as_quarantine_ok(const struct as_deployment *d);

#endif
