#include "ctl/supervise/child.h"

#define BIT(name) (1u << AS_CTL_##name##_STATE)
static const uint32_t state_moves[AS_CTL_STATES] = {
    [AS_CTL_WAITING_STATE] = BIT(STARTING) | BIT(WAITING) | BIT(DOWN),
    [AS_CTL_STARTING_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_READY_STATE] = BIT(LOST) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_LOST_STATE] = BIT(READY) | BIT(WAITING) | BIT(DOWN) | BIT(STOPPING),
    [AS_CTL_STOPPING_STATE] = BIT(DOWN),
};

#define WITH_PROCESS (BIT(STARTING) | BIT(READY) | BIT(LOST) | BIT(STOPPING))

/* The invariant: there is a process in exactly the states WITH_PROCESS. */
static void check_invariant(const struct as_child *c)
{
    bool runs = ((1u << c->state) & WITH_PROCESS) != 0;

    AS_ASSERT(runs == (c->process != NULL));
    AS_ASSERT(runs == (c->pid > 0));
}

static void set_state(struct as_child *c, enum as_ctl_state to)
{
    enum as_ctl_state from = c->state;

    AS_ASSERT(state_moves[from] & (1u << to));
    c->state = to;
    check_invariant(c);
    c->ops.on_state_changed(c, from);
}

static as_ns loop_now(const struct as_child *c)
{
    return as_loop_now(c->loop);
}

static void set_timer(struct as_child *c, as_ns at)
{
    as_task_cancel(&c->due);
    as_timer_set(&c->timer, at);
}

/* For STARTING and LOST. */
static void arm_start_timeout(struct as_child *c)
{
    set_timer(c, loop_now(c) + c->conf.start_timeout);
}

static struct as_restart_verdict decide_restart(struct as_child *c, struct as_child_death *d)
{
    struct as_restart_verdict v =
        as_restart_died(&c->restart, &c->conf.restart, d->kind, c->conf.rand, loop_now(c));

    d->gave_up = !v.restart && d->kind != AS_EXIT_STOPPED;
    d->delay = v.restart ? v.at - loop_now(c) : 0;
    return v;
}

static void after_death(struct as_child *c, const struct as_restart_verdict *v)
{
    bool again = v->restart;

    c->pid = 0;
    c->process = NULL;
    if (c->state == AS_CTL_DOWN_STATE)
        return; /* the owner has stopped it in ops.on_died */
    if (c->state == AS_CTL_STOPPING_STATE)
        again = false;
    set_timer(c, again ? v->at : AS_NEVER);
    set_state(c, again ? AS_CTL_WAITING_STATE : AS_CTL_DOWN_STATE);
}

static void handle_death(struct as_child *c, struct as_child_death *d, struct as_str reason)
{
    struct as_restart_verdict v;
    bool again = c->restarting;

    as_buf_set(&c->reason, reason);
    /* decided first: the owner's callback gets the decision */
    v = decide_restart(c, d);
    c->restarting = false;
    if (again)
        v = (struct as_restart_verdict){.restart = true, .at = loop_now(c)};
    c->ops.on_died(c, d);
    after_death(c, &v);
}

static void on_process_line(void *ctx, struct as_str line)
{
    struct as_child *c = ctx;

    c->ops.on_line(c, line);
}

static void on_process_end(void *ctx, const struct as_process_end *e)
{
    struct as_child_death d = {.status = e->status, .kind = e->kind};

    handle_death(ctx, &d, e->reason);
}

static const struct as_process_ops process_ops = {on_process_line, on_process_end};

/* A process that cannot be started counts as one that has ended at once. */
static void spawn_failed(struct as_child *c, struct as_buf *err)
{
    struct as_child_death d = {.status = 127 << 8, .kind = AS_EXIT_CODE};

    as_buf_str(err, "\n");
    handle_death(c, &d, as_buf_slice(err));
}

static void spawn_process(struct as_child *c)
{
    struct as_buf err = {0};

    c->starts++;
    as_restart_started(&c->restart);
    if (c->ops.spawn(c, &process_ops, &c->process, &err) < 0) {
        spawn_failed(c, &err);
    } else {
        c->pid = as_process_pid(c->process);
        set_state(c, AS_CTL_STARTING_STATE);
        arm_start_timeout(c);
    }
    as_buf_fini(&err);
}

static void on_due(struct as_task *t)
{
    struct as_child *c = AS_CONTAINER(t, struct as_child, due);
    char why[96];

    if (c->state == AS_CTL_WAITING_STATE) {
        spawn_process(c);
    } else if (c->state == AS_CTL_STARTING_STATE || c->state == AS_CTL_LOST_STATE) {
        snprintf(why, sizeof(why), "not ready within %.6g s (--start-timeout)",
                 (double)c->conf.start_timeout / (double)AS_SEC);
        as_child_kill(c, why);
    }
}

/* Deferred: starting a process can take longer than a short backoff, and timers that are due again
 * at once would starve everything else in the loop. */
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
    AS_ASSERT(!c->process);
    as_task_cancel(&c->due);
    as_timer_close(&c->timer, NULL);
    as_buf_fini(&c->reason);
}

void as_child_start(struct as_child *c)
{
    AS_ASSERT(c->state == AS_CTL_WAITING_STATE);
    set_timer(c, AS_NEVER);
    spawn_process(c);
}

void as_child_ready(struct as_child *c)
{
    if (c->state != AS_CTL_STARTING_STATE && c->state != AS_CTL_LOST_STATE)
        return;
    if (c->state == AS_CTL_STARTING_STATE)
        as_restart_ready(&c->restart, loop_now(c));
    set_timer(c, AS_NEVER);
    set_state(c, AS_CTL_READY_STATE);
}

void as_child_lost(struct as_child *c)
{
    if (c->state != AS_CTL_READY_STATE)
        return;
    set_state(c, AS_CTL_LOST_STATE);
    arm_start_timeout(c);
}

void as_child_kill(struct as_child *c, const char *why)
{
    if (c->process)
        as_process_kill(c->process, as_str_of(why));
}

void as_child_abort(struct as_child *c, const char *why)
{
    if (c->process)
        as_process_abort(c->process, as_str_of(why));
}

void as_child_stop(struct as_child *c, int signal, as_ns timeout)
{
    set_timer(c, AS_NEVER);
    if (!c->process) {
        if (c->state != AS_CTL_DOWN_STATE)
            set_state(c, AS_CTL_DOWN_STATE);
        return;
    }
    as_process_stop(c->process, signal, timeout);
    if (c->state != AS_CTL_STOPPING_STATE)
        set_state(c, AS_CTL_STOPPING_STATE);
}

void as_child_restart(struct as_child *c, int signal, as_ns timeout)
{
    AS_ASSERT(c->state == AS_CTL_READY_STATE || c->state == AS_CTL_LOST_STATE);
    c->restarting = true;
    as_process_stop(c->process, signal, timeout);
}

As__Service *as_child_save(const struct as_child *c, As__Supervisor *state)
{
    As__Service *m = as_reexec_new(&as__service__descriptor);

    AS_ASSERT(c->process);
    m->starts = c->starts;
    m->failures = c->restart.failures;
    m->ready_at = c->restart.ready_at;
    m->process = as_process_save(c->process, state);
    return m;
}

void as_child_restore(struct as_child *c, struct as_reexec_reader *in, const As__Service *m)
{
    c->starts = m->starts;
    c->restart.ready = true;
    c->restart.failures = m->failures;
    c->restart.ready_at = m->ready_at;
    c->process = as_process_restore(c->loop, in, m->process, c->conf.oom_seen, &process_ops, c);
    if (!c->process)
        return;
    c->pid = as_process_pid(c->process);
    c->state = AS_CTL_READY_STATE;
    check_invariant(c);
}
