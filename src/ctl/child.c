#include "ctl/child.h"

#include "ctl/memory.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* One process. Lives on its own until libuv has closed both watchers. */
struct as_life {
    struct as_child *child; /* NULL after its death */
    struct as_proc proc;
    struct as_sock end; /* the pidfd */
    struct as_sock out;
    struct as_output output;
    bool has_out;
    uint32_t handles; /* watchers that libuv still knows */
};

#define BIT(name) (1u << AS_CTL_##name##_STATE)
static const uint32_t moves[AS_CTL_STATES] = {
    [AS_CTL_WAITING_STATE] = BIT(STARTING) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_STARTING_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_READY_STATE] = BIT(LOST) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_LOST_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_STOPPING_STATE] = BIT(DOWN),
    [AS_CTL_DOWN_STATE] = BIT(WAITING),
};

#define WITH_PROCESS (BIT(STARTING) | BIT(READY) | BIT(LOST) | BIT(STOPPING))

/* The invariant: a process exists in exactly the states that say so. */
static void check(const struct as_child *c)
{
    bool runs = ((1u << c->state) & WITH_PROCESS) != 0;

    AS_ASSERT(runs == (c->life != NULL));
    AS_ASSERT(runs == (c->pid > 0));
}

static void move(struct as_child *c, enum as_ctl_state to)
{
    enum as_ctl_state from = c->state;

    AS_ASSERT(moves[from] & (1u << to));
    c->state = to;
    check(c);
    c->ops.moved(c, from);
}

static as_ns now_of(const struct as_child *c)
{
    return as_loop_now(c->loop);
}

static void set_timer(struct as_child *c, as_ns at)
{
    as_task_cancel(&c->due);
    as_timer_set(&c->timer, at);
}

/* The deadline of STARTING and LOST. */
/* Held: without a dispatcher nobody can become READY, and a healthy worker must not be killed for
 * that. */
static void arm(struct as_child *c)
{
    if (c->state == AS_CTL_STARTING_STATE || c->state == AS_CTL_LOST_STATE)
        set_timer(c, c->held ? AS_NEVER : now_of(c) + c->conf.start_timeout);
}

static void on_line(void *ctx, struct as_str line)
{
    struct as_life *l = ctx;

    l->child->ops.line(l->child, line);
}

/* The life outlasts the child's interest in it: libuv may still report on a watcher that is being
 * closed. */
static void on_handle_closed(struct as_life *l)
{
    if (--l->handles == 0)
        free(l);
}

static void on_end_closed(struct as_sock *s)
{
    on_handle_closed(AS_CONTAINER(s, struct as_life, end));
}

static void on_out_closed(struct as_sock *s)
{
    on_handle_closed(AS_CONTAINER(s, struct as_life, out));
}

static void close_out(struct as_life *l)
{
    if (l->has_out) {
        l->has_out = false;
        as_output_end(&l->output);
        as_sock_close(&l->out, on_out_closed);
    }
}

/* Takes what the pipe has, at most `turns` reads, so that one talker does not starve the others. */
static void read_out(struct as_life *l, int turns)
{
    char buf[16384];

    while (l->has_out && turns-- > 0) {
        ssize_t n = read(l->out.fd, buf, sizeof(buf)); /* a pipe: as_sock_read would recv */

        if (n > 0)
            as_output_feed(&l->output, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_out(l);
        else
            return;
    }
}

static void on_out(struct as_sock *s, int events)
{
    (void)events;
    read_out(AS_CONTAINER(s, struct as_life, out), 4);
}

/* The first line of `reason`, then what it printed last. */
static void write_reason(struct as_child *c, const struct as_child_death *d,
                         const struct as_output *out)
{
    char how[48];

    as_buf_drop(&c->reason, c->reason.n);
    as_buf_str(&c->reason, as_proc_describe(d->status, how));
    if (c->sentence)
        as_buf_printf(&c->reason, ": %s", c->sentence);
    else if (d->oom)
        as_buf_str(&c->reason, ": the kernel was out of memory");
    as_buf_str(&c->reason, "\n");
    as_output_tail(out, &c->reason);
    free(c->sentence);
    c->sentence = NULL;
}

static bool out_of_memory(struct as_child *c, int status)
{
    uint64_t kills = as_memory_oom_kills("");
    bool grown = kills > *c->conf.oom_seen;

    *c->conf.oom_seen = kills;
    return grown && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !c->sentence;
}

/* What comes after a death. */
static struct as_restart_verdict judge(struct as_child *c, struct as_child_death *d)
{
    struct as_restart_verdict v =
        as_restart_died(&c->restart, &c->conf.restart, d->kind, c->conf.rand, now_of(c));

    d->gave_up = !v.restart && d->kind != AS_EXIT_STOPPED;
    d->delay = v.restart ? v.at - now_of(c) : 0;
    return v;
}

static void after_death(struct as_child *c, const struct as_restart_verdict *v)
{
    bool again = v->restart;

    c->pid = 0;
    c->life = NULL;
    if (c->state == AS_CTL_DOWN_STATE)
        return; /* stopped by its owner on hearing of the death */
    if (c->state == AS_CTL_STOPPING_STATE)
        again = false;
    set_timer(c, again ? v->at : AS_NEVER);
    move(c, again ? AS_CTL_WAITING_STATE : AS_CTL_DOWN_STATE);
}

static void on_end(struct as_sock *s, int events)
{
    struct as_life *l = AS_CONTAINER(s, struct as_life, end);
    struct as_child *c = l->child;
    bool stopping = c->state == AS_CTL_STOPPING_STATE;
    struct as_child_death d = {.was_ready = c->restart.ready};
    struct as_restart_verdict v;

    (void)events;
    l->proc.pidfd = as_sock_detach(&l->end, on_end_closed);
    d.status = as_proc_wait(&l->proc);
    read_out(l, 64); /* its group is dead: this is all that comes, unless one escaped the group */
    close_out(l);
    d.kind = as_exit_kind_of(d.status, stopping);
    if (!stopping && c->sentence)
        d.kind = AS_EXIT_CRASH; /* our SIGKILL, its fault */
    d.oom = out_of_memory(c, d.status);
    if (d.oom && !stopping)
        d.kind = AS_EXIT_OOM;
    d.last = as_output_last(&l->output);
    write_reason(c, &d, &l->output);
    /* before the owner hears of it: the verdict is part of what it is told */
    v = judge(c, &d);
    c->ops.died(c, &d);
    /* late events of this life find nobody */
    l->child = NULL;
    after_death(c, &v);
}

/* The process could not even be started: treated as one that ended at once. */
static void spawn_failed(struct as_child *c, const struct as_buf *err)
{
    struct as_child_death d = {.status = 127 << 8, .kind = AS_EXIT_CODE};
    struct as_restart_verdict v;

    as_buf_drop(&c->reason, c->reason.n);
    as_buf_printf(&c->reason, "%.*s\n", AS_STR_FMT(as_buf_slice(err)));
    d.last = (struct as_str){(const char *)c->reason.p, c->reason.n - 1};
    v = judge(c, &d);
    c->ops.died(c, &d);
    after_death(c, &v);
}

/* Watches a process that has just been started; on failure it is gone again. */
static int watch(struct as_child *c, const struct as_proc *p, int out)
{
    struct as_life *l = as_xalloc(sizeof(*l));

    l->child = c;
    l->proc = *p;
    as_output_init(&l->output, on_line, l);
    if (as_sock_open(&l->end, c->loop, p->pidfd, on_end) < 0) {
        as_proc_signal(&l->proc, SIGKILL);
        l->proc.pidfd = -1; /* as_sock_open closed it */
        as_proc_wait(&l->proc);
        if (out >= 0)
            close(out);
        free(l);
        return AS_EIO;
    }
    l->handles = 1;
    l->has_out = out >= 0 && as_sock_open(&l->out, c->loop, out, on_out) == 0;
    l->handles += l->has_out ? 1 : 0;
    c->life = l;
    c->pid = p->pid;
    return 0;
}

static void spawn(struct as_child *c)
{
    struct as_proc p;
    struct as_buf err;
    int out = -1, rc;

    as_buf_init(&err);
    c->starts++;
    as_restart_started(&c->restart);
    rc = c->ops.spawn(c, &p, &out, &err);
    if (rc == 0)
        rc = watch(c, &p, out);
    if (rc < 0) {
        if (err.n == 0)
            as_buf_str(&err, "no descriptor left to watch it");
        spawn_failed(c, &err);
    } else {
        move(c, AS_CTL_STARTING_STATE);
        arm(c);
    }
    as_buf_fini(&err);
}

static void come_due(struct as_child *c)
{
    if (c->ops.due)
        c->ops.due(c);
    else
        spawn(c);
}

static void revive(struct as_child *c)
{
    /* earlier failures are forgiven: it may fail as often again */
    c->restart = (struct as_restart){0};
    move(c, AS_CTL_WAITING_STATE);
    come_due(c);
}

static void on_due(struct as_task *t)
{
    struct as_child *c = AS_CONTAINER(t, struct as_child, due);
    char why[96];

    if (c->state == AS_CTL_WAITING_STATE) {
        come_due(c);
    } else if (c->state == AS_CTL_DOWN_STATE) {
        revive(c);
    } else if (c->state == AS_CTL_STOPPING_STATE) {
        as_proc_signal(&c->life->proc, SIGKILL);
    } else if (c->state == AS_CTL_STARTING_STATE || c->state == AS_CTL_LOST_STATE) {
        snprintf(why, sizeof(why), "not ready within %.6g s (--start-timeout)",
                 (double)c->conf.start_timeout / (double)AS_SEC);
        as_child_kill(c, why);
    }
}

/* Not at once: starting a process can take longer than a short backoff, and timers that are due
 * again and again would keep the loop from everything else. */
static void on_timer(struct as_timer *t)
{
    struct as_child *c = AS_CONTAINER(t, struct as_child, timer);

    as_loop_defer(c->loop, &c->due);
}

void as_child_init(struct as_child *c, const char *name, struct as_loop *loop,
                   const struct as_child_conf *conf, const struct as_child_ops *ops)
{
    *c = (struct as_child){
        .name = name, .state = AS_CTL_WAITING_STATE, .conf = *conf, .ops = *ops, .loop = loop};
    as_task_init(&c->due, on_due);
    as_timer_init(&c->timer, loop, on_timer);
}

void as_child_fini(struct as_child *c)
{
    AS_ASSERT(!c->life);
    as_task_cancel(&c->due);
    as_timer_close(&c->timer, NULL);
    as_buf_fini(&c->reason);
    free(c->sentence);
    c->sentence = NULL;
}

void as_child_start(struct as_child *c)
{
    AS_ASSERT(c->state == AS_CTL_WAITING_STATE);
    set_timer(c, AS_NEVER);
    spawn(c);
}

void as_child_ready(struct as_child *c)
{
    if (c->state != AS_CTL_STARTING_STATE && c->state != AS_CTL_LOST_STATE)
        return;
    if (c->state == AS_CTL_STARTING_STATE)
        as_restart_ready(&c->restart, now_of(c));
    set_timer(c, AS_NEVER);
    move(c, AS_CTL_READY_STATE);
}

void as_child_lost(struct as_child *c)
{
    if (c->state != AS_CTL_READY_STATE)
        return;
    move(c, AS_CTL_LOST_STATE);
    arm(c);
}

void as_child_kill(struct as_child *c, const char *why)
{
    if (!c->life)
        return;
    /* the first reason is the one that ended it; later ones are consequences */
    if (!c->sentence)
        c->sentence = as_str_dup(as_str_of(why));
    as_proc_signal(&c->life->proc, SIGKILL);
}

void as_child_stop(struct as_child *c, int signal, as_ns timeout)
{
    if (!c->life) {
        set_timer(c, AS_NEVER);
        if (c->state != AS_CTL_DOWN_STATE)
            move(c, AS_CTL_DOWN_STATE);
        return;
    }
    if (signal)
        as_proc_signal(&c->life->proc, signal);
    set_timer(c, now_of(c) + timeout);
    if (c->state != AS_CTL_STOPPING_STATE)
        move(c, AS_CTL_STOPPING_STATE);
}

void as_child_revive(struct as_child *c, as_ns at)
{
    if (c->state != AS_CTL_DOWN_STATE)
        return;
    set_timer(c, at > now_of(c) ? at : AS_NEVER);
    if (at <= now_of(c))
        revive(c);
}

void as_child_hold(struct as_child *c, bool held)
{
    c->held = held;
    arm(c);
}
