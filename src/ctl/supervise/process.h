/* ctl/supervise/process.h — one child process from its start to its end: its output, why it ended.
 *
 * Watches a process that io/process/proc starts: its pidfd, and the pipe that it prints to.
 * The pidfd alone tells that it has ended: a grandchild may hold the pipe open for longer. The
 * owner decides whether it is started again. Thread: the loop's.
 */
#ifndef AS_CTL_PROCESS_H
#define AS_CTL_PROCESS_H

#include "core/replicas/restart.h"
#include "ctl/output/output.h"
#include "io/loop/sock.h"
#include "io/process/proc.h"

struct as_process;

struct as_process_end {
    int status;             /* of waitpid */
    enum as_exit_kind kind; /* AS_EXIT_OOM is a guess */
    struct as_str reason; /* first how it ended and why, then its last lines; each with a newline */
    struct as_str last;   /* the last line that it printed that is not blank */
};

struct as_process_ops {
    void (*on_line)(void *ctx, struct as_str line);
    /* Called once, when the process has ended. The as_process is freed afterwards. */
    void (*on_end)(void *ctx, const struct as_process_end *end);
};

/* Starts the process of `spec` and watches it. piped: its stdout and stderr are one pipe, whose
 * lines `ops` gets; else they are those of `spec`. oom_seen: as much of the machine's count of OOM
 * kills as earlier ends account for; shared by all processes, and outlives them. 0; AS_E… of
 * as_proc_spawn, AS_EIO: it was not started, or could not be watched and was killed, *ret_errno
 * says why. */
int as_process_start(struct as_process **ret_p, struct as_loop *loop,
                     const struct as_proc_spec *spec, bool piped, uint64_t *oom_seen,
                     const struct as_process_ops *ops, void *ctx, int *ret_errno);
/* Watches a process that was started already. Takes over proc and `out`, its pipe (-1: none), also
 * on failure. 0, or AS_EIO: it cannot be watched, and has been killed. */
int as_process_watch(struct as_process **ret_p, struct as_loop *loop, const struct as_proc *proc,
                     int out, uint64_t *oom_seen, const struct as_process_ops *ops, void *ctx);
/* For an upgrade's exec (ctl/message/reexec_state.h): the process stays our child; its pidfd, its
 * pipe, its last output and the time of its SIGKILL are kept. _restore returns NULL in a dry read,
 * and when it cannot be watched and has been killed. */
As__Process *as_process_save(const struct as_process *p, As__Supervisor *state);
struct as_process *as_process_restore(struct as_loop *loop, struct as_reexec_reader *in,
                                      const As__Process *m, uint64_t *oom_seen,
                                      const struct as_process_ops *ops, void *ctx);
/* Takes over its control group, which tells whether the process ran out of its memory, and is
 * removed when the process has ended. To be called before the loop turns again. */
void as_process_set_cgroup(struct as_process *p, const struct as_cgroup *g);
/* Replaces the owner's callbacks. */
void as_process_set_owner(struct as_process *p, const struct as_process_ops *ops, void *ctx);
pid_t as_process_pid(const struct as_process *p);

/* SIGKILL to its process group for a fault of its own: its end counts as a crash. The first `why`
 * is reported. */
void as_process_kill(struct as_process *p, struct as_str why);
/* The same by SIGABRT to the process alone, which may leave a core file; two seconds later SIGKILL.
 */
void as_process_abort(struct as_process *p, struct as_str why);
/* Sends `signal` (0: none, a message has asked it to end), after `timeout` SIGKILL. A second call
 * may shorten the timeout. Its end is AS_EXIT_STOPPED. */
void as_process_stop(struct as_process *p, int signal, as_ns timeout);

#endif
