/* ctl/supervise/supervisor.h — the supervisor: the parent of dispatcher, controller and workers.
 *
 * It starts and reaps every process of a server, restarts the dispatcher and the controller when
 * they die, passes messages between them, and drains the server when a signal asks for it. It
 * decides nothing about replicas: the controller does. One thread; the only process that forks.
 *
 *   STARTING ── COMPLETE ──────────────► SERVING
 *      │ └─ SIGTERM, SIGINT, SIGHUP ───────┤
 *      │ FATAL, a process gives up         ▼
 *      │                               DRAINING   the dispatcher answers the requests that it has
 *      ▼                                   ▼ the dispatcher has ended, or drain-timeout
 *   STOPPING ◄─────────────────────────────┘      controller and workers end, stop-timeout
 *      ▼
 *   ENDED
 *
 * A second SIGTERM or SIGINT kills every process at once. SIGHUP ends the server only if its
 * terminal was closed, and it was not started with SIGHUP ignored (nohup); then a second one is
 * ignored. Any other SIGHUP makes the dispatcher read certificates and keys again. SIGUSR1 starts
 * replicas again that were given up. SIGUSR2 upgrades: supervisor, controller and dispatcher are
 * replaced by the program as it is on the disk now; workers and clients stay connected
 * (docs/ARCHITECTURE.md).
 */
#ifndef AS_CTL_SUPERVISOR_H
#define AS_CTL_SUPERVISOR_H

#include "conf/option/option.h"
#include "ctl/message/reexec_state.h"
#include "ctl/supervise/handover.h"
#include "io/socket/notify.h"

struct as_supervisor_conf {
    const struct as_option_set *opts; /* ports and paths are the final ones */
    int app;                          /* memfd of what the controller reads first; not owned */
    const char *target;               /* the controller's argument, or NULL */
    const char *address;              /* printed when the server is ready: "127.0.0.1:8000" */
    struct as_handover listeners;     /* owned by the supervisor from here on */
    const struct as_notify *notify;   /* the service manager, if there is one */
    int signal_fd;                    /* signalfd of as_supervisor_signals; not owned */
    char *program;                    /* absolute path of what an upgrade executes */
    /* Adds the caller's own state to what the next image reads after an upgrade's exec. */
    void (*save_state)(void *ctx, As__Supervisor *state);
    void (*upgraded)(void *ctx, struct as_str outcome); /* how an upgrade ended, in a line */
    void *ctx;
    /* after an upgrade's exec: the state of the image before; else NULL */
    struct as_reexec_reader *reexec;
};

/* Blocks the signals that the supervisor handles and returns a signalfd for them, or -1: errno. */
int as_supervisor_signals(void);

/* A second signalfd for the time before as_supervisor_run: of the signals that end a server alone.
 * The others stay pending until the supervisor runs. -1: errno. */
int as_supervisor_end_signals(void);

/* After an upgrade's exec: makes the inherited signalfd deliver the signals that this version
 * handles. 0 or -1: errno. */
int as_supervisor_signals_restore(int fd);

/* Reads the part of a conf that survives an upgrade's exec: program, address, target, descriptors.
 * It is the first part of the state, so this is called before anything else is read from `in`.
 * as_supervisor_conf_fini frees the texts and closes the descriptors. */
void as_supervisor_conf_restore(struct as_supervisor_conf *conf, struct as_reexec_reader *in);
void as_supervisor_conf_fini(struct as_supervisor_conf *conf);

/* Runs until every process has ended; returns the exit code (conf/option/exit_code.h). */
int as_supervisor_run(const struct as_supervisor_conf *conf);

#endif
