/* core/dispatch/quarantine.h — a suspect (core/protect/blame.h) has a replica for itself, and the
 * others go on beside it.
 *
 *                  a suspect is next       it holds nothing else           time over
 *         NONE ─────────────────────► KEPT ────────────────────► ALONE ────────────────► OPEN
 *          ▲ ▲                         │                           │                       │
 *          │ └── time over: it rests ──┤                           │                       │
 *          └──── the suspect leaves, ──┴──── it ends, the ─────────┴───── or the replica ──┘
 *                the replica drains          replica goes                  goes
 *
 * KEPT: the replica takes nothing new until it holds nothing. ALONE: the suspect runs there, and
 * only the suspect; a death proves something. OPEN: it has run for as long as it may have a replica
 * for itself, and others may come; until one does, a death still proves something.
 *
 * Turns. Whoever waits for a replica that is KEPT or ALONE must not wait for all suspects, of which
 * one crash can make hundreds. When such a time ends, as many of the others as wait then are owed:
 * no replica that they could use is kept again until so many have been sent (a replica with room is
 * of no use to them: nothing waits that it could take). So a request waits for one suspect at most,
 * suspects get what capacity the others leave, and where more comes than can be served, one suspect
 * for each time that the queue was emptied.
 *
 * Bounds. KEPT lasts at most `time`; then the replica serves the others for as long before it is
 * kept again. ALONE lasts `time`, or twice as long as such a request had run before when a worker
 * ended (a request that hangs is only known for it by then), AS_QUARANTINE_MAX at most. A suspect
 * that waits for longer than `wait` while there is a replica is refused: AS_ESUSPECT, or
 * AS_EMAYHAVERUN if it has run.
 */
#ifndef AS_CORE_QUARANTINE_H
#define AS_CORE_QUARANTINE_H

#include "base/defs.h"

struct as_request;

enum as_quarantine_state {
    AS_QUARANTINE_NONE,
    AS_QUARANTINE_RESERVED,
    AS_QUARANTINE_ALONE,
    AS_QUARANTINE_SHARED
};

/* Longer than this no replica is anybody's alone, whatever the request took before: with one
 * replica all others wait meanwhile. */
#define AS_QUARANTINE_MAX (60 * AS_SEC)

struct as_quarantine_conf {
    as_ns time; /* at least 1 */
    as_ns wait; /* at least 1 */
};

/* Of one replica. */
struct as_quarantine {
    enum as_quarantine_state state;
    bool alone;                 /* ALONE, OPEN: nobody else has been there since it began */
    struct as_request *suspect; /* NULL: NONE */
    as_ns until;                /* KEPT, ALONE: at most; NONE: it rests before */
};

/* The only writer of t->state; asserts that the picture has the arrow. */
void as_quarantine_set_state(struct as_quarantine *t, enum as_quarantine_state to);
const char *as_quarantine_state_name(enum as_quarantine_state s); /* "kept" … */

#endif
