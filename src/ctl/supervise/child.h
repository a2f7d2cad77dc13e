/* ctl/supervise/child.h — a process that is started again when it dies.
 *
 * For the dispatcher and the controller, of which there is always one (ctl/supervise/service);
 * worker processes are the controller's decision. The owner's ops start the process; this module
 * keeps its state, its deadlines and its restarts, which core/replicas/restart decides.
 * Thread: the loop's.
 *
 *            start                  ready                 lost
 *   WAITING ───────► STARTING ─────────────► READY ◄────────────► LOST
 *      ▲                 │                     │                    │
 *      └──── died ───────┴─────────────────────┴────────────────────┤
 *                                                          given up ▼
 *   any with a process ── stop ──► STOPPING ── died ─────────────► DOWN
 *   WAITING ── stop ───────────────────────────────────────────────►
 */
#ifndef AS_CTL_CHILD_H
#define AS_CTL_CHILD_H

#include "ctl/message/message.h"
#include "ctl/supervise/process.h"

struct as_child;

struct as_child_conf {
    struct as_restart_conf restart;
    as_ns start_timeout; /* from the start, or from LOST, to READY */
    struct as_rand *rand;
    uint64_t *oom_seen; /* ctl/supervise/process.h; shared by all */
};

struct as_child_death {
    int status; /* of waitpid */
    enum as_exit_kind kind;
    bool gave_up; /* it is not started again */
    as_ns delay;  /* until the next start */
};

struct as_child_ops {
    /* Starts the process by as_process_start with `ops` and c. 0, or AS_E… with the reason in
     * `err`.
     */
    int (*spawn)(struct as_child *c, const struct as_process_ops *ops, struct as_process **ret_p,
                 struct as_buf *err);
    void (*on_line)(struct as_child *c, struct as_str line); /* that the process printed */
    /* The process has ended. Called before the state changes. */
    void (*on_died)(struct as_child *c, const struct as_child_death *d);
    /* The state has changed. May not free c. */
    void (*on_state_changed)(struct as_child *c, enum as_ctl_state from);
};

struct as_child {
    const char *name; /* not owned */
    enum as_ctl_state state;
    uint32_t starts;      /* processes so far */
    pid_t pid;            /* 0 without a process */
    struct as_buf reason; /* why the last process ended */
    struct as_child_conf conf;
    struct as_child_ops ops;
    struct as_loop *loop;
    struct as_timer timer; /* the deadline of the state */
    struct as_task due;    /* the deadline has come */
    struct as_restart restart;
    struct as_process *process;
    bool restarting; /* as_child_restart: it ends to be started again at once */
};

void as_child_init(struct as_child *c, const char *name, struct as_loop *loop,
                   const struct as_child_conf *conf, const struct as_child_ops *ops);
/* Only without a process. The loop must run on until the timer is closed. */
void as_child_fini(struct as_child *c);

/* Only in WAITING: starts it now, whether it is due or not. */
void as_child_start(struct as_child *c);
void as_child_ready(struct as_child *c); /* STARTING, LOST → READY; else ignored */
void as_child_lost(struct as_child *c);  /* READY → LOST; else ignored */
/* SIGKILL to its process group for a fault of its own: counts as a crash. */
void as_child_kill(struct as_child *c, const char *why);
/* The same by as_process_abort. */
void as_child_abort(struct as_child *c, const char *why);
/* Sends `signal` (0: none, a message has asked it to end), after `timeout` SIGKILL. A second call
 * may shorten the timeout. */
void as_child_stop(struct as_child *c, int signal, as_ns timeout);

/* Only in READY or LOST: ends the process as as_child_stop does, and starts the next one as soon as
 * it has ended. This is no failure. */
void as_child_restart(struct as_child *c, int signal, as_ns timeout);

/* For an upgrade's exec (ctl/message/reexec_state.h). _save: only with a process. _restore: on a
 * child that was just initialised; it is READY afterwards, without a call of `on_state_changed`. A
 * child that was not READY must be restarted after it. */
As__Service *as_child_save(const struct as_child *c, As__Supervisor *state); /* without `control` */
void as_child_restore(struct as_child *c, struct as_reexec_reader *in, const As__Service *m);

static inline bool as_child_is_running(const struct as_child *c)
{
    return c->process != NULL;
}

#endif
