/* core/replicas/restart.h — when a dead worker (or dispatcher) is started again.
 *
 * Pure: the supervisor asks, later the controller. At once after an outside kill (SIGKILL, SIGTERM
 * not sent by us, OOM included) that followed READY; otherwise exponential backoff: base, doubled
 * to a maximum, with jitter ±20 %; forgotten after `healthy` of being READY. An outside kill before
 * READY waits as long as the failures so far ask for, `base` at least, and is none itself: it says
 * nothing about the worker, so that killing alone never brings it to rest. Want of memory does.
 */
#ifndef AS_CORE_RESTART_H
#define AS_CORE_RESTART_H

#include "base/defs.h"
#include "base/rand.h"

struct as_restart_conf {
    as_ns base;    /* first delay */
    as_ns max;     /* longest delay */
    as_ns healthy; /* READY this long: failures are forgotten */
    uint32_t
        give_up; /* consecutive failures without READY until the replica is given up; 0 never */
};

struct as_restart {
    uint32_t failures; /* consecutive */
    uint32_t unready;  /* consecutive failures without READY */
    bool ready;        /* this incarnation has been READY */
    as_ns ready_at;
};

enum as_exit_kind {
    AS_EXIT_CODE,   /* ended by itself with a code */
    AS_EXIT_CRASH,  /* by SEGV, BUS, ABRT, ILL, FPE */
    AS_EXIT_KILLED, /* by a signal from outside */
    AS_EXIT_OOM,    /* by the kernel, because memory was out */
    AS_EXIT_STOPPED /* because we asked: never started again */
};

struct as_restart_verdict {
    bool restart;
    bool gave_up;
    as_ns at; /* when to start, >= now */
};

void as_restart_started(struct as_restart *s);
void as_restart_ready(struct as_restart *s, as_ns now);
struct as_restart_verdict as_restart_died(struct as_restart *s, const struct as_restart_conf *conf,
                                          enum as_exit_kind kind, struct as_rand *rand, as_ns now);
/* From a wait status, which does not tell OOM. stopping: we sent the signal. */
enum as_exit_kind as_exit_kind_of(int wait_status, bool stopping);

#endif
