/* core/replicas/restart.h — when a dead process (worker or dispatcher) is started again.
 *
 * After a kill from outside (SIGKILL or SIGTERM that we did not send, out of memory) that followed
 * READY: at once. Otherwise with exponential backoff: `base`, doubled with each failure up to
 * `max`, with a jitter of ±20 %. Failures are forgotten after the process was READY for `healthy`.
 * A kill from outside before READY waits for the backoff of the failures so far, at least `base`,
 * but is no failure itself, because it says nothing about the process: kills alone never make a
 * replica be given up. Out of memory before READY is a failure. Pure. Thread: the caller's.
 */
#ifndef AS_CORE_RESTART_H
#define AS_CORE_RESTART_H

#include "base/defs.h"
#include "base/rand.h"

struct as_restart_conf {
    as_ns base;    /* first delay */
    as_ns max;     /* longest delay */
    as_ns healthy; /* failures are forgotten after being READY for this long */
    /* consecutive failures without READY until the replica is given up; 0 never */
    uint32_t give_up;
};

struct as_restart {
    uint32_t failures; /* consecutive */
    uint32_t unready;  /* consecutive failures without READY */
    bool ready;        /* this process has been READY */
    as_ns ready_at;
};

enum as_exit_kind {
    AS_EXIT_CODE,   /* it exited with a code */
    AS_EXIT_CRASH,  /* by SEGV, BUS, ABRT, ILL, FPE */
    AS_EXIT_KILLED, /* by another signal, from outside */
    AS_EXIT_OOM,    /* by the kernel, out of memory */
    AS_EXIT_STOPPED /* because we asked it to end: it is not started again */
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
/* The kind for a wait status, which cannot tell AS_EXIT_OOM. stopping: we sent the signal. */
enum as_exit_kind as_exit_kind_of(int wait_status, bool stopping);

#endif
