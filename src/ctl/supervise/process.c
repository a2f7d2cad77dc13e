#include "ctl/supervise/process.h"

#include "ctl/supervise/memory_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* From SIGABRT to SIGKILL: a process that is stopped or waits for a disk does not act on the first.
 */
#define ABORT_GRACE (2 * AS_SEC)

/* Freed when libuv has closed its watchers, which is after the end of the process. */
struct as_process {
    struct as_loop *loop;
    struct as_process_ops ops;
    void *ctx;
    struct as_proc proc;
    pid_t pid;                 /* still set when it is reaped */
    struct as_sock exit_watch; /* the pidfd */
    struct as_sock out;
    struct as_timer kill_timer; /* SIGKILL */
    struct as_output output;
    uint64_t *oom_seen;
    struct as_cgroup group; /* path NULL: none */
    char *kill_reason;      /* why we killed it, or NULL */
    bool has_out;
    bool stopping; /* as_process_stop was called */
    bool aborted;  /* as_process_abort was called: a later stop may not delay the SIGKILL */
    uint32_t open_watchers; /* watchers that libuv has not closed yet */
};

static void on_output_line(void *ctx, struct as_str line)
{
    struct as_process *p = ctx;

    p->ops.on_line(p->ctx, line);
}

static void on_handle_closed(struct as_process *p)
{
    if (--p->open_watchers == 0) {
        free(p->kill_reason);
        free(p);
    }
}

static void on_exit_watch_closed(struct as_sock *s)
{
    on_handle_closed(AS_CONTAINER(s, struct as_process, exit_watch));
}

static void on_output_closed(struct as_sock *s)
{
    on_handle_closed(AS_CONTAINER(s, struct as_process, out));
}

static void on_kill_timer_closed(struct as_timer *t)
{
    on_handle_closed(AS_CONTAINER(t, struct as_process, kill_timer));
}

static void close_output(struct as_process *p)
{
    if (p->has_out) {
        p->has_out = false;
        as_output_end(&p->output);
        as_sock_close(&p->out, on_output_closed);
    }
}

/* At most `turns` reads, so that a process that prints much does not starve the others. */
static void read_output(struct as_process *p, int turns)
{
    char buf[16384];

    while (p->has_out && turns-- > 0) {
        ssize_t n = read(p->out.fd, buf, sizeof(buf)); /* a pipe: as_sock_read would recv */

        if (n > 0)
            as_output_feed(&p->output, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_output(p);
        else
            return;
    }
}

static void on_output(struct as_sock *s, int events AS_UNUSED)
{
    read_output(AS_CONTAINER(s, struct as_process, out), 4);
}

/* The first line of `reason`, then the last lines of its output. */
static void write_reason(const struct as_process *p, const struct as_process_end *e,
                         struct as_buf *reason)
{
    struct as_str crash = as_output_crash(&p->output);
    char how[48];

    as_buf_str(reason, as_proc_describe(e->status, how));
    if (p->kill_reason)
        as_buf_printf(reason, ": %s", p->kill_reason);
    else if (e->kind == AS_EXIT_OOM)
        as_buf_str(reason, p->group.path ? ": it exceeded its memory limit"
                                         : ": the kernel was out of memory");
    else if (crash.n && WIFSIGNALED(e->status) && WTERMSIG(e->status) != SIGKILL)
        as_buf_printf(reason, ": %.*s", AS_STR_FMT(crash));
    as_buf_str(reason, "\n");
    as_output_tail(&p->output, reason);
}

/* Processes that left the process group are still in the control group, and need a moment to die. A
 * control group that cannot be removed is removed by the next server. */
static void close_cgroup(struct as_process *p)
{
    for (int i = 0; i < 100 && as_cgroup_close(&p->group) == AS_EAGAIN; i++)
        sched_yield();
    free(p->group.path);
    p->group.path = NULL;
}

/* Each end by an unexplained SIGKILL takes one of the kernel's kills: it may have killed several of
 * our processes before the first end is seen. */
static bool was_out_of_memory(struct as_process *p, int status)
{
    uint64_t kills = as_memory_limit_oom_kills("");
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !p->kill_reason;
    bool grown = kills != *p->oom_seen;

    *p->oom_seen = killed && grown ? *p->oom_seen + 1 : kills;
    /* the process's own control group is more exact; kills in a v1 group are not counted above it
     */
    return killed && (p->group.path ? as_cgroup_oom_kills(&p->group) > 0 : grown);
}

static void on_process_exit(struct as_sock *s, int events AS_UNUSED)
{
    struct as_process *p = AS_CONTAINER(s, struct as_process, exit_watch);
    struct as_process_end e;
    struct as_buf reason = {0};

    p->proc.pidfd = as_sock_detach(&p->exit_watch, on_exit_watch_closed);
    e.status = as_proc_wait(&p->proc);
    read_output(p, 64); /* its process group is dead: nothing more comes, except from processes that
                           left the group */
    close_output(p);
    as_timer_close(&p->kill_timer, on_kill_timer_closed);
    e.kind = as_exit_kind_of(e.status, p->stopping);
    if (!p->stopping && p->kill_reason)
        e.kind = AS_EXIT_CRASH; /* as_process_kill: for a fault of its own */
    if (was_out_of_memory(p, e.status) && !p->stopping)
        e.kind = AS_EXIT_OOM;
    e.last = as_output_last(&p->output);
    write_reason(p, &e, &reason);
    e.reason = as_buf_slice(&reason);
    close_cgroup(p);
    p->ops.on_end(p->ctx, &e);
    as_buf_fini(&reason);
}

static void on_kill_timer(struct as_timer *t)
{
    as_proc_signal(&AS_CONTAINER(t, struct as_process, kill_timer)->proc, SIGKILL);
}

int as_process_watch(struct as_process **ret_p, struct as_loop *loop, const struct as_proc *proc,
                     int out, uint64_t *oom_seen, const struct as_process_ops *ops, void *ctx)
{
    struct as_process *p = as_xalloc(sizeof(*p));

    p->loop = loop;
    p->ops = *ops;
    p->ctx = ctx;
    p->proc = *proc;
    p->pid = proc->pid;
    p->oom_seen = oom_seen;
    as_output_init(&p->output, on_output_line, p);
    if (as_sock_open(&p->exit_watch, loop, proc->pidfd, on_process_exit) < 0) {
        as_proc_signal(&p->proc, SIGKILL);
        p->proc.pidfd = -1; /* as_sock_open closed it */
        as_proc_wait(&p->proc);
        if (out >= 0)
            close(out);
        free(p);
        return AS_EIO;
    }
    as_timer_init(&p->kill_timer, loop, on_kill_timer);
    p->open_watchers = 2;
    /* a process whose output cannot be read runs all the same */
    p->has_out = out >= 0 && as_sock_open(&p->out, loop, out, on_output) == 0;
    p->open_watchers += p->has_out ? 1 : 0;
    *ret_p = p;
    return 0;
}

int as_process_start(struct as_process **ret_p, struct as_loop *loop,
                     const struct as_proc_spec *spec, bool piped, uint64_t *oom_seen,
                     const struct as_process_ops *ops, void *ctx, int *ret_errno)
{
    struct as_proc_spec s = *spec;
    struct as_proc p;
    int out[2] = {-1, -1}, rc;

    if (piped && pipe2(out, O_CLOEXEC) < 0) {
        *ret_errno = errno;
        return AS_EIO;
    }
    if (piped)
        s.out = s.err = out[1]; /* one pipe for both keeps the order of stdout and stderr */
    rc = as_proc_spawn(&p, &s, ret_errno);
    if (piped)
        close(out[1]); /* our copy would keep the pipe open after the process's end */
    if (rc == 0) {
        *ret_errno = EMFILE;
        return as_process_watch(ret_p, loop, &p, out[0], oom_seen, ops, ctx);
    }
    if (piped)
        close(out[0]);
    return rc;
}

void as_process_set_cgroup(struct as_process *p, const struct as_cgroup *g)
{
    p->group = *g;
}

void as_process_set_owner(struct as_process *p, const struct as_process_ops *ops, void *ctx)
{
    p->ops = *ops;
    p->ctx = ctx;
}

pid_t as_process_pid(const struct as_process *p)
{
    return p->pid;
}

void as_process_kill(struct as_process *p, struct as_str why)
{
    /* the first reason is the cause; later ones are consequences */
    if (!p->kill_reason)
        p->kill_reason = as_str_dup(why);
    as_proc_signal(&p->proc, SIGKILL);
}

void as_process_abort(struct as_process *p, struct as_str why)
{
    if (p->kill_reason)
        return;
    p->kill_reason = as_str_dup(why);
    p->aborted = true;
    as_proc_signal(&p->proc, SIGABRT);
    as_timer_set(&p->kill_timer, as_loop_now(p->loop) + ABORT_GRACE);
}

void as_process_stop(struct as_process *p, int signal, as_ns timeout)
{
    as_ns at = as_loop_now(p->loop) + timeout;

    p->stopping = true;
    if (signal)
        as_proc_signal(&p->proc, signal);
    as_timer_set(&p->kill_timer, p->aborted ? AS_MIN(at, p->kill_timer.at) : at);
}

As__Process *as_process_save(const struct as_process *p, As__Supervisor *state)
{
    As__Process *m = as_reexec_new(&as__process__descriptor);

    m->pid = (uint32_t)p->pid;
    m->pidfd = as_reexec_put_fd(state, p->proc.pidfd);
    m->group = p->proc.group;
    m->out = as_reexec_put_fd(state, p->has_out ? p->out.fd : -1);
    m->output = as_output_save(&p->output);
    m->kill_at = p->kill_timer.at == AS_NEVER ? 0 : p->kill_timer.at;
    m->stopping = p->stopping;
    m->kill_reason = as_str_dup(as_str_of(p->kill_reason));
    m->cgroup = as_str_dup(as_str_of(p->group.path));
    m->cgroup_v2 = p->group.v2;
    return m;
}

/* Whether the process lives or waits to be reaped is found out by its watchers. */
struct as_process *as_process_restore(struct as_loop *loop, struct as_reexec_reader *in,
                                      const As__Process *m, uint64_t *oom_seen,
                                      const struct as_process_ops *ops, void *ctx)
{
    struct as_process *p = NULL;
    struct as_proc proc;
    int out;

    if (!m) {
        as_reexec_fail(in, "pid", "is no child of ours");
        return NULL;
    }
    proc = (struct as_proc){
        .pid = (pid_t)m->pid, .pidfd = as_reexec_take_fd(in, "pidfd", m->pidfd), .group = m->group};
    out = as_reexec_take_fd(in, "out", m->out);
    if (!in->failed && (proc.pid <= 1 || proc.pidfd < 0))
        as_reexec_fail(in, "pid", "is no child of ours");
    if (in->failed || in->dry || as_process_watch(&p, loop, &proc, out, oom_seen, ops, ctx) < 0)
        return NULL;
    as_output_restore(&p->output, m->output);
    p->stopping = m->stopping;
    if (m->kill_reason[0])
        p->kill_reason = as_str_dup(as_str_of(m->kill_reason));
    p->group = (struct as_cgroup){.procs = -1, .v2 = m->cgroup_v2};
    if (m->cgroup[0])
        p->group.path = as_str_dup(as_str_of(m->cgroup));
    as_timer_set(&p->kill_timer, m->kill_at ? m->kill_at : AS_NEVER);
    return p;
}
