/* ctl/supervise/child.h — a process of ours over its lives: started, ready, dead, started again,
 * stopped.
 *
 * For the dispatcher and the controller, of which there is always one; workers are the controller's
 * to decide about. What is started and what is told to whom is the owner's (ops). When to start
 * again is core/replicas/restart's decision. Thread: the loop's.
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
    as_ns start_timeout; /* READY after a start, or again after LOST */
    struct as_rand *rand;
    uint64_t *oom_seen; /* the machine's count of OOM kills at the last death; shared */
};

struct as_child_death {
    int status; /* of waitpid */
    enum as_exit_kind kind;
    bool was_ready; /* in this life */
    bool gave_up;   /* it is not started again */
    as_ns delay;    /* until the next start */
};

struct as_child_ops {
    /* Starts the process. *ret_out: the end of a pipe that it prints to; -1: none. 0 or an error
     * with its text. */
    int (*spawn)(struct as_child *c, struct as_proc *ret_p, int *ret_out, struct as_buf *err);
    void (*line)(struct as_child *c, struct as_str line);             /* that it printed there */
    void (*died)(struct as_child *c, const struct as_child_death *d); /* the move comes after it */
    void (*moved)(struct as_child *c, enum as_ctl_state from);        /* may not free c */
};

struct as_child {
    const char *name; /* the owner's */
    enum as_ctl_state state;
    uint32_t starts;      /* processes so far */
    pid_t pid;            /* 0 without a process */
    struct as_buf reason; /* why the last life ended */
    struct as_child_conf conf;
    struct as_child_ops ops;
    struct as_loop *loop;
    struct as_timer timer; /* the state's one deadline */
    struct as_task due;    /* it has come */
    struct as_restart restart;
    struct as_process *process;
    bool restarting; /* it ends because another life of it is wanted */
};

void as_child_init(struct as_child *c, const char *name, struct as_loop *loop,
                   const struct as_child_conf *conf, const struct as_child_ops *ops);
/* The loop must run on until it has closed the timer; only without a process. */
void as_child_fini(struct as_child *c);

void as_child_start(struct as_child *c); /* WAITING: now, whether it is due or not */
void as_child_ready(struct as_child *c); /* STARTING, LOST; else nothing happens */
void as_child_lost(struct as_child *c);  /* READY; else nothing */
/* SIGKILL to its group, because of what it did: counts as a crash. */
void as_child_kill(struct as_child *c, const char *why);
/* As well, by as_process_abort. */
void as_child_abort(struct as_child *c, const char *why);
/* `signal` (0: it was told otherwise), after `timeout` SIGKILL; may be repeated to hurry. */
void as_child_stop(struct as_child *c, int signal, as_ns timeout);

/* READY or LOST: its next life begins as soon as this one has ended, which it is asked for by
 * `signal`, after `timeout` by SIGKILL. Not a death that anybody is told of. */
void as_child_restart(struct as_child *c, int signal, as_ns timeout);

/* Over an exec (ctl/message/reexec_state.h); with a process, and _resume on one that was just
 * initialised: it is READY then, of which `moved` is not told. One that was not is to be renewed.
 */
void as_child_save(const struct as_child *c, struct as_reexec_writer *out);
void as_child_restore(struct as_child *c, struct as_reexec_reader *in);

static inline bool as_child_is_running(const struct as_child *c)
{
    return c->process != NULL;
}

#endif
