/* core/protect/breaker.h — a replica that fails gets no requests for a while.
 *
 *              tripped                     its time is over
 *   CLOSED ──────────────► OPEN ─────────────────────────► HALF_OPEN
 *     ▲                     ▲                                │    │
 *     │                     └────────── the probe failed ────┘    │
 *     └─────────────────────────────── enough probes were well ───┘
 *
 * HALF_OPEN takes one request at a time. Each opening in a row lasts twice as long, up to a bound;
 * a replica that stayed CLOSED for as long as that bound starts anew. Whether a replica that should
 * trip may be spared is decided by core/protect/outlier.h. Pure. Thread: the caller's.
 */
#ifndef AS_CORE_BREAKER_H
#define AS_CORE_BREAKER_H

#include "base/defs.h"

enum as_breaker_state { AS_BREAKER_CLOSED, AS_BREAKER_OPEN, AS_BREAKER_HALF_OPEN };

struct as_breaker_conf {
    uint32_t failures; /* in a row that trip it; 0: it never trips */
    uint32_t probes;   /* answers in a row that close it */
    as_ns open;        /* first time that it is open … */
    as_ns open_max;    /* … and the longest */
};

struct as_breaker {
    enum as_breaker_state state;
    uint32_t streak; /* failures in a row; HALF_OPEN: good answers in a row */
    uint32_t opened; /* times in a row */
    as_ns until;     /* OPEN: then HALF_OPEN; CLOSED: forgets `opened` */
};

/* An answer has come, and was a failure of the replica or not. True: the state has changed. CLOSED
 * stays so: as_breaker_should_trip tells. */
bool as_breaker_on_answer(struct as_breaker *b, const struct as_breaker_conf *conf, bool failed,
                          as_ns now);
/* CLOSED, and has failed so often in a row that it should trip. */
static inline bool as_breaker_should_trip(const struct as_breaker *b,
                                          const struct as_breaker_conf *conf)
{
    return b->state == AS_BREAKER_CLOSED && conf->failures && b->streak >= conf->failures;
}
void as_breaker_trip(struct as_breaker *b, const struct as_breaker_conf *conf, as_ns now);
/* Time has passed: OPEN becomes HALF_OPEN. True: it has. */
bool as_breaker_tick(struct as_breaker *b, as_ns now);
const char *as_breaker_state_name(enum as_breaker_state s); /* "closed" … */

#endif
