/* ctl/supervisor.h — the parent of all: dispatcher and workers from start to drain.
 *
 *   STARTING ── every replica READY ──► SERVING
 *      │ └─ SIGTERM, SIGINT, SIGHUP ───────┤
 *      │ cannot start                      ▼
 *      │                               DRAINING   the dispatcher answers what it holds
 *      ▼                                   ▼ it has ended, or drain-timeout
 *   STOPPING ◄─────────────────────────────┘      workers end, stop-timeout
 *      ▼
 *   ENDED
 *
 * A second signal kills at once. SIGUSR1 ends the rest of replicas that were given up. One thread;
 * the only process that forks.
 */
#ifndef AS_CTL_SUPERVISOR_H
#define AS_CTL_SUPERVISOR_H

#include "ctl/describe.h"
#include "ctl/handover.h"
#include "ctl/option.h"

struct as_supervisor_conf {
    const struct as_option_set *opts; /* ports and paths are the final ones */
    const struct as_app *app;
    const char *python, *target;  /* NULL: no workers of ours */
    const char *link;             /* path of the link socket */
    const char *address;          /* for the ready line: "127.0.0.1:8000" */
    struct as_handover listeners; /* owned by the supervisor from here on */
    int signal_fd;                /* signalfd of as_supervisor_signals; not owned */
};

/* Blocks the signals that the supervisor takes and returns a signalfd for them, or -1. */
int as_supervisor_signals(void);

/* Runs until everything has ended; returns the exit code (ctl/exit_code.h). */
int as_supervisor_run(const struct as_supervisor_conf *conf);

#endif
