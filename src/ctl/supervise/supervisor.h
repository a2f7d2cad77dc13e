/* ctl/supervise/supervisor.h — the parent of all: dispatcher, controller and workers from start to
 * drain.
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
 * A second signal kills at once, but for SIGHUP, which is ignored then, and altogether if it was
 * ignored when we were started. SIGUSR1
 * ends the rest of replicas that were given up. SIGUSR2: all three become what the program is now,
 * workers and clients stay (docs/ARCHITECTURE.md). It decides nothing about replicas: that is the
 * controller's. One thread; the only process that forks.
 */
#ifndef AS_CTL_SUPERVISOR_H
#define AS_CTL_SUPERVISOR_H

#include "conf/option.h"
#include "ctl/message/reexec_state.h"
#include "ctl/supervise/handover.h"
#include "io/socket/notify.h"

struct as_supervisor_conf {
    const struct as_option_set *opts; /* ports and paths are the final ones */
    int app;                          /* memfd of what the controller reads first; not owned */
    const char *target;               /* the controller's argument, or NULL */
    const char *address;              /* for the ready line: "127.0.0.1:8000" */
    struct as_handover listeners;     /* owned by the supervisor from here on */
    const struct as_notify *notify;   /* the service manager, which may be nobody */
    int signal_fd;                    /* signalfd of as_supervisor_signals; not owned */
    char *program;                    /* what an upgrade executes: absolute */
    /* Writes what the next image has to know beside what the supervisor itself does. */
    void (*save_state)(void *ctx, struct as_reexec_writer *c);
    void (*upgraded)(void *ctx, struct as_str outcome); /* one line: how an upgrade ended */
    void *ctx;
    struct as_reexec_reader *reexec; /* what the image before us wrote; NULL: everything begins */
};

/* Blocks the signals that the supervisor takes and returns a signalfd for them, or -1. */
int as_supervisor_signals(void);

/* A second signalfd, for the time before the supervisor runs: only for those of them that end a
 * server, so that the others wait for it. -1: errno. */
int as_supervisor_end_signals(void);

/* In an image that took over: the signalfd gives what this one takes. 0 or -1. */
int as_supervisor_signals_restore(int fd);

/* What an upgrade carries of a conf, out of `in`: program, address, descriptors. Before anything
 * else of it is read; _fini frees the texts. */
void as_supervisor_conf_restore(struct as_supervisor_conf *conf, struct as_reexec_reader *in);
void as_supervisor_conf_fini(struct as_supervisor_conf *conf);

/* Runs until everything has ended; returns the exit code (conf/exit_code.h). */
int as_supervisor_run(const struct as_supervisor_conf *conf);

#endif
