/* ctl/supervisor.h — the parent of all: dispatcher, controller and workers from start to drain.
 *
 *   STARTING ── COMPLETE ──────────────► SERVING
 *      │ └─ SIGTERM, SIGINT, SIGHUP ───────┤
 *      │ FATAL, a process gives up         ▼
 *      │                               DRAINING   the dispatcher answers what it holds
 *      ▼                                   ▼ it has ended, or drain-timeout
 *   STOPPING ◄─────────────────────────────┘      controller and workers end, stop-timeout
 *      ▼
 *   ENDED
 *
 * A second signal kills at once. SIGUSR1 ends the rest of replicas that were given up. It decides
 * nothing about replicas: that is the controller's. One thread; the only process that forks.
 */
#ifndef AS_CTL_SUPERVISOR_H
#define AS_CTL_SUPERVISOR_H

#include "ctl/handover.h"
#include "ctl/option.h"
#include "io/notify.h"

struct as_supervisor_conf {
    const struct as_option_set *opts; /* ports and paths are the final ones */
    int app;                          /* memfd of what the controller reads first; not owned */
    const char *target;               /* the controller's argument, or NULL */
    const char *address;              /* for the ready line: "127.0.0.1:8000" */
    struct as_handover listeners;     /* owned by the supervisor from here on */
    const struct as_notify *notify;   /* the service manager, which may be nobody */
    int signal_fd;                    /* signalfd of as_supervisor_signals; not owned */
};

/* Blocks the signals that the supervisor takes and returns a signalfd for them, or -1. */
int as_supervisor_signals(void);

/* Runs until everything has ended; returns the exit code (ctl/exit_code.h). */
int as_supervisor_run(const struct as_supervisor_conf *conf);

#endif
