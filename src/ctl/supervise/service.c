#include "ctl/supervise/service.h"

#include "core/replicas/heartbeat.h"
#include "io/loop/clock.h"

#include <signal.h>
#include <unistd.h>

struct as_service {
    struct as_child child;
    struct as_service_conf conf;
    struct as_service_ops ops;
    void *ctx;
    const struct as_log *log;
    struct as_loop *loop;
    struct as_channel *channel; /* NULL without a process */
    struct as_task down;
    bool stopping;
    struct as_heartbeat heartbeat;
    struct as_timer heartbeat_timer; /* checks the heartbeat */
    bool hang_logged; /* since the last heartbeat it was logged that it hangs in a debugger */
};

static struct as_service *service_of(struct as_child *c)
{
    return AS_CONTAINER(c, struct as_service, child);
}

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    struct as_service *s = ctx;

    if (m->type == AS_CTL_SERVING && m->number) {
        as_log_event(s->log, AS_LOG_DEBUG, "heartbeat", "from=%s pid=%d", s->conf.name,
                     (int)s->child.pid);
        as_heartbeat_received(&s->heartbeat);
        s->hang_logged = false;
    } else if (m->type == AS_CTL_SERVING) {
        as_child_ready(&s->child);
    } else {
        s->ops.on_message(s->ctx, m);
    }
}

/* --- the heartbeat --- */

static void schedule_heartbeat_check(struct as_service *s)
{
    as_timer_set(&s->heartbeat_timer,
                 as_loop_now(s->loop) + as_heartbeat_check_interval(s->heartbeat.timeout));
}

/* It is READY: the first interval starts now. */
static void start_heartbeat(struct as_service *s)
{
    as_heartbeat_init(&s->heartbeat, s->conf.heartbeat);
    s->hang_logged = false;
    if (s->conf.heartbeat)
        schedule_heartbeat_check(s);
}

static void on_hang(struct as_service *s)
{
    char why[128], event[64];

    if (!as_proc_is_traced(s->child.pid)) {
        snprintf(why, sizeof(why), "its event loop has not turned for %.6g s (--%s)",
                 (double)s->conf.heartbeat / (double)AS_SEC,
                 as_option_key(AS_OPT_HEARTBEAT_TIMEOUT));
        as_child_abort(&s->child, why);
        return;
    }
    snprintf(event, sizeof(event), "%s_hangs", s->conf.name);
    if (!s->hang_logged)
        as_log_event(s->log, AS_LOG_WARN, event, "pid=%d action=\"none: it is being debugged\"",
                     (int)s->child.pid);
    s->hang_logged = true;
    as_heartbeat_reset(&s->heartbeat);
}

static void on_heartbeat_timer(struct as_timer *t)
{
    struct as_service *s = AS_CONTAINER(t, struct as_service, heartbeat_timer);

    /* a start or an end has a timeout of its own */
    if (s->stopping || s->child.restarting || !as_service_is_ready(s))
        return;
    if (as_heartbeat_check(&s->heartbeat, as_loop_now(s->loop), as_clock_read(CLOCK_BOOTTIME)))
        on_hang(s);
    schedule_heartbeat_check(s);
}

static void on_channel_end(void *ctx)
{
    struct as_service *s = ctx;

    /* most likely it has just died; if not, it is killed after the start timeout */
    s->channel = NULL;
    s->ops.on_channel(s->ctx, NULL);
    as_child_lost(&s->child);
}

char **as_service_argv(const char *name, const struct as_option_set *opts, uint32_t scope,
                       const struct as_handover *h, const char *arg)
{
    char **options = as_option_argv(opts, scope), **argv;
    struct as_buf fds = {0};
    size_t n = 0;

    while (options[n])
        n++;
    argv = as_xalloc((n + 5) * sizeof(*argv));
    as_buf_printf(&fds, "--%s=", as_option_key(AS_OPT_FDS));
    as_handover_write(h, &fds);
    argv[0] = as_str_dup(AS_STR("anyserve"));
    argv[1] = as_str_dup(as_str_of(name));
    argv[2] = as_buf_cstr(&fds);
    memcpy(&argv[3], options, n * sizeof(*argv));
    if (arg)
        argv[3 + n] = as_str_dup(as_str_of(arg));
    free(options);
    return argv;
}

static const struct as_channel_ops channel_ops = {on_message, on_channel_end};

static_assert(AS_HANDOVER_MAX <= AS_PROC_FDS, "each of them is a descriptor of the process");

static int spawn_service(struct as_child *child, const struct as_process_ops *ops,
                         struct as_process **ret_p, struct as_buf *err)
{
    struct as_service *s = service_of(child);
    struct as_handover h = s->conf.fds;
    struct as_proc_spec spec = {
        .path = s->conf.program, .in = -1, .group = true, .death_signal = s->conf.death_signal};
    char **argv;
    int fd, e, rc;

    /* a new pair of sockets for each process: messages of the old one are dropped with its socket
     */
    if (as_channel_open(&s->channel, s->loop, &channel_ops, s, &fd) < 0) {
        as_buf_str(err, "cannot make the control socket");
        return AS_EIO;
    }
    as_handover_add(&h, AS_HANDOVER_CONTROL, fd);
    as_handover_add(&h, AS_HANDOVER_LOG, s->conf.console->fd);
    argv = as_service_argv(s->conf.name, s->conf.opts, s->conf.scope, &h, s->conf.arg);
    spec.argv = (const char *const *)argv;
    spec.fds = h.fd;
    spec.n_fds = h.n;
    /* before it runs, so that the state comes before any other message */
    s->ops.on_channel(s->ctx, s->channel);
    rc = as_process_start(ret_p, s->loop, &spec, true, s->conf.child.oom_seen, ops, child, &e);
    close(fd); /* the child's end: our copy would keep it open after its death */
    as_option_argv_free(argv);
    if (rc < 0)
        as_buf_printf(err, "cannot start %s: %s", s->conf.program, strerror(e));
    return rc;
}

static void on_child_line(struct as_child *child, struct as_str line)
{
    const struct as_service *s = service_of(child);

    as_console_write(s->conf.console, s->conf.name, line);
}

static void on_child_died(struct as_child *child, const struct as_child_death *d)
{
    struct as_service *s = service_of(child);
    char reason[256], last[512], event[64];
    struct as_str why, end;

    as_output_split_report(as_buf_slice(&child->reason), &why, &end);

    as_channel_close(s->channel);
    s->channel = NULL;
    snprintf(event, sizeof(event), "%s_exit", s->conf.name);
    if (d->kind != AS_EXIT_STOPPED)
        as_log_event(s->log, d->gave_up ? AS_LOG_ERROR : AS_LOG_WARN, event,
                     "pid=%d reason=%s restart_ms=%llu%s%s", (int)child->pid,
                     as_log_quote(reason, sizeof(reason), why),
                     (unsigned long long)(d->delay / AS_MS), end.n ? " last=" : "",
                     end.n ? as_log_quote(last, sizeof(last), end) : "");
    s->ops.on_channel(s->ctx, NULL);
}

static void on_child_state_changed(struct as_child *child, enum as_ctl_state from)
{
    struct as_service *s = service_of(child);

    if (child->state == AS_CTL_READY_STATE)
        start_heartbeat(s);
    if (child->state == AS_CTL_READY_STATE && from == AS_CTL_STARTING_STATE) {
        child->conf.restart.give_up = 0; /* it has served: it is restarted whatever happens */
        s->ops.on_serving(s->ctx);
    }
    if (child->state == AS_CTL_DOWN_STATE)
        as_loop_defer(s->loop, &s->down);
}

static void on_down(struct as_task *t)
{
    struct as_service *s = AS_CONTAINER(t, struct as_service, down);

    s->ops.on_down(s->ctx, !s->stopping);
}

int as_service_new(struct as_service **ret_s, struct as_loop *loop,
                   const struct as_service_conf *conf, const struct as_service_ops *ops, void *ctx,
                   const struct as_log *log)
{
    static const struct as_child_ops child_ops = {.spawn = spawn_service,
                                                  .on_line = on_child_line,
                                                  .on_died = on_child_died,
                                                  .on_state_changed = on_child_state_changed};
    struct as_service *s = as_xalloc(sizeof(*s));

    s->conf = *conf;
    s->ops = *ops;
    s->ctx = ctx;
    s->log = log;
    s->loop = loop;
    as_task_init(&s->down, on_down);
    as_timer_init(&s->heartbeat_timer, loop, on_heartbeat_timer);
    as_child_init(&s->child, conf->name, loop, &conf->child, &child_ops);
    *ret_s = s;
    return 0;
}

/* When the dispatcher closes its copies as well, the kernel refuses new connections. */
static void close_fds(struct as_service *s)
{
    as_handover_close(&s->conf.fds);
}

void as_service_close(struct as_service *s)
{
    close_fds(s);
    as_task_cancel(&s->down);
    as_timer_close(&s->heartbeat_timer, NULL);
    as_channel_close(s->channel);
    s->channel = NULL;
    as_child_fini(&s->child);
}

void as_service_free(struct as_service *s)
{
    free(s);
}

void as_service_start(struct as_service *s)
{
    as_child_start(&s->child);
}

void as_service_drain(struct as_service *s, as_ns timeout)
{
    s->stopping = true;
    close_fds(s);
    as_channel_send(s->channel, &(struct as_ctl_message){.type = AS_CTL_DRAIN});
    as_child_stop(&s->child, 0, timeout);
}

void as_service_stop(struct as_service *s)
{
    s->stopping = true;
    close_fds(s);
    as_child_stop(&s->child, SIGKILL, 0);
}

bool as_service_owns_pid(const struct as_service *s, pid_t pid)
{
    return s->child.pid == pid;
}

/* --- an upgrade --- */

void as_service_yield(struct as_service *s, uint32_t number, int fd, as_ns timeout)
{
    s->stopping = true;
    close_fds(s);
    as_channel_send_fd(s->channel, &(struct as_ctl_message){.type = AS_CTL_YIELD, .number = number},
                       fd);
    as_child_stop(&s->child, 0, timeout);
}

void as_service_restart(struct as_service *s, as_ns timeout)
{
    as_channel_send(s->channel, &(struct as_ctl_message){.type = AS_CTL_DRAIN});
    as_child_restart(&s->child, 0, timeout);
}

bool as_service_is_ready(const struct as_service *s)
{
    return s->child.state == AS_CTL_READY_STATE;
}

bool as_service_ensure_running(struct as_service *s)
{
    if (s->child.state == AS_CTL_WAITING_STATE)
        as_child_start(&s->child);
    return as_child_is_running(&s->child);
}

const struct as_handover *as_service_fds(const struct as_service *s)
{
    return &s->conf.fds;
}

bool as_service_is_idle(const struct as_service *s)
{
    return as_service_is_ready(s) && s->channel && as_channel_is_idle(s->channel);
}

As__Service *as_service_save(const struct as_service *s, As__Supervisor *state)
{
    As__Service *m = as_child_save(&s->child, state);

    m->control = as_reexec_put_fd(state, s->channel ? as_channel_fd(s->channel) : -1);
    m->messages = s->channel ? as_channel_format(s->channel) : AS_CTL_FORMAT;
    return m;
}

struct as_channel *as_service_restore(struct as_service *s, struct as_reexec_reader *in,
                                      const As__Service *m)
{
    int fd;

    if (!m) {
        as_reexec_fail(in, s->conf.name, "is missing");
        return NULL;
    }
    if (m->messages && m->messages != AS_CTL_FORMAT && m->messages != AS_CTL_PLAIN_FORMAT &&
        m->messages != AS_CTL_FORMER_FORMAT)
        as_reexec_fail(in, "messages", "are of another format than this version's");
    fd = as_reexec_take_fd(in, "control", m->control);
    as_child_restore(&s->child, in, m);
    if (in->failed || in->dry || !s->child.process)
        return NULL;
    s->child.conf.restart.give_up = 0; /* it has served */
    if (fd < 0 || as_channel_attach(&s->channel, s->loop, fd, &channel_ops, s) < 0)
        as_child_lost(&s->child); /* it is killed after the start timeout and started again */
    else
        start_heartbeat(s);
    if (s->channel)
        as_channel_set_format(s->channel, m->messages ? m->messages : AS_CTL_FORMER_FORMAT);
    return s->channel;
}
