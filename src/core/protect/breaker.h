/* core/protect/breaker.h — a circuit breaker: a replica that fails gets no requests for a while.
 *
 *              tripped                     time is over
 *   CLOSED ──────────────► OPEN ─────────────────────────► HALF_OPEN
 *     ▲                     ▲                                │    │
 *     │                     └────────── the probe failed ────┘    │
 *     └─────────────────────────────── enough probes succeeded ───┘
 *
 * HALF_OPEN takes one request at a time, as a probe. Each opening in a row lasts twice as long as
 * the one before, up to open_max. A replica that stayed CLOSED for open_max starts again with the
 * shortest time. core/protect/outlier.h decides whether a replica that should trip really does.
 * Pure. Thread: the caller's.
 */
#ifndef AS_CORE_BREAKER_H
#define AS_CORE_BREAKER_H

#include "base/defs.h"

enum as_breaker_state { AS_BREAKER_CLOSED, AS_BREAKER_OPEN, AS_BREAKER_HALF_OPEN };

struct as_breaker_conf {
    uint32_t failures; /* failures in a row that trip it; 0: it never trips */
    uint32_t probes;   /* good answers in a row that close it */
    as_ns open;        /* how long it is open the first time … */
    as_ns open_max;    /* … and at most */
};

struct as_breaker {
    enum as_breaker_state state;
    uint32_t streak; /* CLOSED: failures in a row; HALF_OPEN: good answers in a row */
    uint32_t opened; /* openings in a row */
    as_ns until;     /* OPEN: when it becomes HALF_OPEN; CLOSED: when `opened` is reset */
};

/* An answer has come; failed: it counts as a failure of the replica. True: the state has changed. A
 * CLOSED breaker does not trip here: see as_breaker_should_trip. */
bool as_breaker_on_answer(struct as_breaker *b, const struct as_breaker_conf *conf, bool failed,
                          as_ns now);
/* It is CLOSED and has had enough failures in a row to trip. */
static inline bool as_breaker_should_trip(const struct as_breaker *b,
                                          const struct as_breaker_conf *conf)
{
    return b->state == AS_BREAKER_CLOSED && conf->failures && b->streak >= conf->failures;
}
void as_breaker_trip(struct as_breaker *b, const struct as_breaker_conf *conf, as_ns now);
/* OPEN becomes HALF_OPEN when its time is over. True: it did. */
bool as_breaker_tick(struct as_breaker *b, as_ns now);
const char *as_breaker_state_name(enum as_breaker_state s); /* "closed" … */

#endif
