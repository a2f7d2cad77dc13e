/* ctl/supervise/process.h — one child process from its start to its end: what it prints, why it
 * ended.
 *
 * Watches a process that io/process/proc has started: its pidfd, and the pipe that it prints to.
 * Its end is known by the pidfd alone: a pipe may outlive it in a grandchild. Whether it is started
 * again is the owner's business. Thread: the loop's.
 */
#ifndef AS_CTL_PROCESS_H
#define AS_CTL_PROCESS_H

#include "core/replicas/restart.h"
#include "ctl/output/output.h"
#include "io/process/proc.h"
#include "io/loop/sock.h"

struct as_process;

struct as_process_end {
    int status;             /* of waitpid */
    enum as_exit_kind kind; /* OOM: as far as can be told */
    struct as_str reason;   /* how it ended and why; then its last lines; each with a newline */
    struct as_str last;     /* line that it printed, blank ones aside */
};

struct as_process_ops {
    void (*on_line)(void *ctx, struct as_str line);
    /* Once. The process is gone, and so is the as_process when this returns. */
    void (*on_end)(void *ctx, const struct as_process_end *end);
};

/* p: taken over, also on failure (then it has been killed). out: its pipe, taken over; -1: none.
 * oom_seen: the machine's count of OOM kills at the last death; shared by all; outlives them.
 * 0, or AS_EIO: it cannot be watched. */
int as_process_watch(struct as_process **ret_p, struct as_loop *loop, const struct as_proc *proc,
                     int out, uint64_t *oom_seen, const struct as_process_ops *ops, void *ctx);
/* Over an exec (ctl/message/reexec_state.h): the process stays our child, with its pidfd, its pipe,
 * what it printed last, and the moment of its SIGKILL. _resume: NULL in a dry read, and when it
 * cannot be watched: then it has been killed. */
void as_process_save(const struct as_process *p, struct as_reexec_writer *c);
struct as_process *as_process_restore(struct as_loop *loop, struct as_reexec_reader *c,
                                      uint64_t *oom_seen, const struct as_process_ops *ops,
                                      void *ctx);
/* Its control group, taken over: tells whether it ran out of the memory that it was given, and goes
 * with it. Before the loop turns again. */
void as_process_set_cgroup(struct as_process *p, const struct as_cgroup *g);
/* Another owner from now on. */
void as_process_set_owner(struct as_process *p, const struct as_process_ops *ops, void *ctx);
pid_t as_process_pid(const struct as_process *p);

/* SIGKILL to its group, because of what it did: its end is a crash. The first `why` counts. */
void as_process_kill(struct as_process *p, struct as_str why);
/* As well, by SIGABRT to the process alone, which may leave a core file; a moment later SIGKILL. */
void as_process_abort(struct as_process *p, struct as_str why);
/* It is asked to end: `signal` (0: it was told otherwise), after `timeout` SIGKILL; may be repeated
 * to hurry. Its end is AS_EXIT_STOPPED. */
void as_process_stop(struct as_process *p, int signal, as_ns timeout);

#endif
