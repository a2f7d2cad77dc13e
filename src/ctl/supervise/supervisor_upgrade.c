/* An upgrade (SIGUSR2): supervisor, controller and dispatcher are replaced by the program as it is
 * on the disk now.
 *
 * First the new program is started to check that it can read the supervisor's state; until then
 * nothing changes. Then the supervisor executes it: children, sockets and pipes stay the same. The
 * controller is restarted as after a death. A second dispatcher starts beside the first; workers
 * connect to it, then clients, and the first one ends when it has answered the requests it has.
 */
#include "ctl/state/runtime_dir.h"
#include "ctl/state/store.h"
#include "ctl/supervise/supervisor_internal.h"
#include "io/process/core_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROLLER_TRIES   3u           /* starts of the new controller before the upgrade fails */
#define IDLE_POLL_INTERVAL (10 * AS_MS) /* until all sent messages have left our outboxes */
#define IDLE_POLLS_MAX     500u
#define YIELD_MARGIN       (5 * AS_SEC) /* the dispatcher observes the drain timeout itself */

#define CONTROLLER_NOT_STARTED "the new controller does not start; its log lines are above"

static const uint32_t stage_moves[AS_UPGRADE_STAGES] = {
    [AS_UPGRADE_NONE] = 1u << AS_UPGRADE_CHECKING | 1u << AS_UPGRADE_CONTROLLER,
    [AS_UPGRADE_CHECKING] = 1u << AS_UPGRADE_NONE,
    [AS_UPGRADE_CONTROLLER] = 1u << AS_UPGRADE_DISPATCHER | 1u << AS_UPGRADE_NONE,
    [AS_UPGRADE_DISPATCHER] = 1u << AS_UPGRADE_MOVING | 1u << AS_UPGRADE_NONE,
    [AS_UPGRADE_MOVING] = 1u << AS_UPGRADE_YIELDING | 1u << AS_UPGRADE_NONE,
    [AS_UPGRADE_YIELDING] = 1u << AS_UPGRADE_NONE,
};

static void set_stage(struct as_supervisor *s, enum as_upgrade_stage to)
{
    AS_ASSERT(stage_moves[s->upgrade.stage] & (1u << to));
    s->upgrade.stage = to;
    /* the timer of one stage must not end the next one, nor the check of a later upgrade */
    as_timer_set(&s->upgrade.timer, AS_NEVER);
}

/* For whoever asked for the upgrade: a line, "done VERSION" or "failed WHY". */
static void report_outcome(struct as_supervisor *s, struct as_str line)
{
    if (s->conf->upgraded)
        s->conf->upgraded(s->conf->ctx, line);
}

static void fail_upgrade(struct as_supervisor *s, const char *why)
{
    char quoted[512], *line = as_str_format("failed %s", why);

    as_log_event(&s->log, AS_LOG_ERROR, "upgrade_failed", "reason=%s action=\"%s\"",
                 as_log_quote(quoted, sizeof(quoted), as_str_of(why)),
                 s->upgrade.stage > AS_UPGRADE_CHECKING ? "the former dispatcher serves on"
                                                        : "everything is as before");
    report_outcome(s, as_str_of(line));
    free(line);
    if (s->upgrade.stage != AS_UPGRADE_NONE)
        set_stage(s, AS_UPGRADE_NONE);
}

/* --- in the old image: the check, then the exec --- */

static void save_listeners(const struct as_service *service, As__Supervisor *state)
{
    const struct as_handover *h = as_service_fds(service);

    for (uint32_t i = 0; i < h->n; i++) {
        As__Listener *m;

        if (h->kind[i] == AS_HANDOVER_APP)
            continue;
        m = as_reexec_new(&as__listener__descriptor);
        m->kind = as_str_dup(as_str_of(as_handover_name(h->kind[i])));
        m->fd = as_reexec_put_fd(state, h->fd[i]);
        AS_REEXEC_APPEND(state, listeners, m);
    }
}

/* Listeners are taken from the services: those of the conf went to the first dispatcher, and may be
 * closed since an earlier upgrade. */
static As__Supervisor *make_state(const struct as_supervisor *s)
{
    const struct as_supervisor_conf *conf = s->conf;
    As__Supervisor *m = as_reexec_new(&as__supervisor__descriptor);

    m->minor = AS_REEXEC_MINOR;
    m->version = as_str_dup(AS_STR(AS_VERSION));
    m->program = as_str_dup(as_str_of(conf->program));
    m->address = as_str_dup(as_str_of(conf->address));
    m->target = as_str_dup(as_str_of(conf->target));
    m->app = as_reexec_put_fd(m, conf->app);
    m->signals = as_reexec_put_fd(m, conf->signal_fd);
    save_listeners(s->current->service, m);
    save_listeners(s->controller, m);
    conf->save_state(conf->ctx, m);
    m->complete = s->complete;
    m->reloads_asked = s->reload.asked;
    m->reloads_done = s->reload.done;
    m->oom_seen = s->oom_seen;
    m->upgrade_began = s->upgrade.started_at;
    m->console = as_reexec_bytes(as_buf_slice(&s->console.out));
    m->console_dropped = s->console.dropped;
    as_journal_save(&s->journal, m);
    m->dispatcher = as_service_save(s->current->service, m);
    m->controller = as_service_save(s->controller, m);
    as_workers_save(s->workers, m);
    return m;
}

/* Returns only when the exec failed. */
static void exec_program(struct as_supervisor *s)
{
    As__Supervisor *state = make_state(s);
    char number[16], why[300];
    char *argv[] = {NULL, NULL, number, NULL};
    int file = as_reexec_make_memfd(state), e = errno;
    bool forbidden;

    if (file >= 0) {
        argv[0] = as_str_dup(as_str_of(s->conf->program));
        argv[1] = as_str_dup(AS_STR("resume"));
        snprintf(number, sizeof(number), "%d", file);
        as_reexec_set_inherited(state, file, true);
        as_supervisor_watchdog_pause(s);
        forbidden = as_core_dump_restore();
        execv(s->conf->program, argv);
        e = errno;
        if (forbidden)
            as_core_dump_forbid();
        as_supervisor_watchdog_resume(s);
        as_reexec_set_inherited(state, file, false);
        close(file);
        free(argv[0]);
        free(argv[1]);
    }
    as_reexec_free(state);
    snprintf(why, sizeof(why), "cannot execute %.200s: %s", s->conf->program, strerror(e));
    fail_upgrade(s, why);
}

static void close_handover_fd(struct as_supervisor *s)
{
    if (s->upgrade.handover_fd >= 0)
        close(s->upgrade.handover_fd);
    s->upgrade.handover_fd = -1;
}

static void send_told(struct as_supervisor *s, uint32_t foreign, bool waits)
{
    as_channel_send_fd(
        s->current->channel,
        &(struct as_ctl_message){.type = AS_CTL_TOLD, .number = foreign, .id = waits},
        s->upgrade.handover_fd);
    close_handover_fd(s);
}

/* The next image restarts the controller in any case. It may lose messages that a controller that
 * is not ready has not read: the next one gets the whole state. */
static bool can_replace_controller(struct as_service *controller)
{
    return as_service_is_ready(controller) ? as_service_is_idle(controller)
                                           : as_service_ensure_running(controller);
}

static void on_upgrade_timer(struct as_timer *t)
{
    struct as_supervisor *s = AS_CONTAINER(t, struct as_supervisor, upgrade.timer);

    if (s->upgrade.stage == AS_UPGRADE_MOVING)
        send_told(s, 0, false);
    else if (s->upgrade.stage == AS_UPGRADE_CONTROLLER)
        fail_upgrade(s, CONTROLLER_NOT_STARTED);
    if (s->upgrade.stage != AS_UPGRADE_CHECKING)
        return;
    if (as_service_is_idle(s->current->service) && can_replace_controller(s->controller)) {
        exec_program(s);
    } else if (++s->upgrade.attempts < IDLE_POLLS_MAX) {
        as_timer_set(t, as_loop_now(s->loop) + IDLE_POLL_INTERVAL);
    } else {
        fail_upgrade(s, as_service_is_ready(s->current->service)
                            ? "the dispatcher or the controller does not read its messages"
                            : "the dispatcher is not running");
    }
}

static void on_check_line(void *ctx, struct as_str line)
{
    struct as_supervisor *s = ctx;

    if (line.n)
        as_buf_set(&s->upgrade.check_output, line);
}

/* Removes the check's copy of the store, which is in --state-dir or, for `run`, in the server's
 * folder. */
static void remove_check_copy(struct as_supervisor *s)
{
    const struct as_option_set *o = s->conf->opts;
    const char *state = as_option_str(o, AS_OPT_STATE_DIR);
    char folder[AS_RUNTIME_PATH_MAX];

    if (state[0])
        as_store_remove_probe(state);
    else if (as_runtime_path(folder, as_option_str(o, AS_OPT_RUNTIME_DIR),
                             (uint16_t)as_option_u64(o, AS_OPT_PORT), "") == 0)
        as_store_remove_probe(folder);
}

static void on_check_end(void *ctx, const struct as_process_end *e)
{
    struct as_supervisor *s = ctx;
    as_ns limit = as_supervisor_option_ns(s, AS_OPT_UPGRADE_CHECK_TIMEOUT);
    char why[512], how[48];

    s->upgrade.check = NULL;
    if (WIFSIGNALED(e->status))
        remove_check_copy(s);
    if (s->upgrade.stage != AS_UPGRADE_CHECKING) { /* the server ends */
        as_supervisor_try_end(s);
        return;
    }
    if (e->status == 0) {
        s->upgrade.attempts = 0;
        on_upgrade_timer(&s->upgrade.timer);
        return;
    }
    if (as_loop_now(s->loop) - s->upgrade.started_at >= limit && WIFSIGNALED(e->status))
        snprintf(why, sizeof(why), "%.200s did not say in %.6g s whether it can take over (--%s)",
                 s->conf->program, (double)limit / (double)AS_SEC,
                 as_option_key(AS_OPT_UPGRADE_CHECK_TIMEOUT));
    else
        snprintf(why, sizeof(why), "%.200s cannot take over (%s)%s%.*s", s->conf->program,
                 as_proc_describe(e->status, how), s->upgrade.check_output.n ? ": " : "",
                 AS_STR_FMT(as_buf_slice(&s->upgrade.check_output)));
    fail_upgrade(s, why);
}

/* Runs `PROGRAM resume 3 check`; our state is its descriptor 3. */
static int start_check(struct as_supervisor *s, int file, int *ret_errno)
{
    static const struct as_process_ops ops = {on_check_line, on_check_end};
    const char *argv[] = {s->conf->program, "resume", "3", "check", NULL};
    struct as_proc_spec spec = {.path = s->conf->program,
                                .argv = argv,
                                .in = -1,
                                .fds = &file,
                                .n_fds = 1,
                                .group = true,
                                .death_signal = SIGKILL};

    return as_process_start(&s->upgrade.check, s->loop, &spec, true, &s->oom_seen, &ops, s,
                            ret_errno);
}

void as_supervisor_upgrade_start(struct as_supervisor *s)
{
    As__Supervisor *state;
    char why[300];
    int file, rc = AS_EIO, e;

    if (s->upgrade.stage != AS_UPGRADE_NONE) {
        as_log_event(&s->log, AS_LOG_WARN, "upgrade_ignored", "reason=\"one is under way\"");
        return;
    }
    /* the controller need not be ready: a broken one may be the reason for the upgrade */
    if (s->phase != SERVING || !as_service_is_ready(s->current->service) ||
        !as_service_ensure_running(s->controller)) {
        fail_upgrade(s, s->phase == STARTING  ? "the server is not ready yet"
                        : s->phase == SERVING ? "the dispatcher or the controller is being started"
                                              : "the server ends");
        return;
    }
    s->upgrade.started_at = as_loop_now(s->loop);
    s->upgrade.check_output.n = 0;
    as_log_event(&s->log, AS_LOG_INFO, "upgrade", "program=%s", s->conf->program);
    state = make_state(s);
    file = as_reexec_make_memfd(state);
    e = errno;
    as_reexec_free(state);
    if (file >= 0) {
        rc = start_check(s, file, &e);
        close(file);
    }
    if (rc < 0) {
        snprintf(why, sizeof(why), "cannot start %.200s: %s", s->conf->program, strerror(e));
        fail_upgrade(s, why);
        return;
    }
    as_process_stop(s->upgrade.check, 0, as_supervisor_option_ns(s, AS_OPT_UPGRADE_CHECK_TIMEOUT));
    set_stage(s, AS_UPGRADE_CHECKING);
}

/* --- in the new image --- */

void as_supervisor_conf_restore(struct as_supervisor_conf *conf, struct as_reexec_reader *in)
{
    const As__Supervisor *m = in->state;

    *conf = (struct as_supervisor_conf){.app = -1, .signal_fd = -1};
    conf->program = as_str_dup(as_str_of(m->program));
    conf->address = as_str_dup(as_str_of(m->address));
    conf->target = m->target[0] ? as_str_dup(as_str_of(m->target)) : NULL;
    conf->app = as_reexec_take_fd(in, "app", m->app);
    conf->signal_fd = as_reexec_take_fd(in, "signals", m->signals);
    for (size_t i = 0; i < m->n_listeners && !in->failed; i++) {
        int fd = as_reexec_take_fd(in, "listener", m->listeners[i]->fd);
        enum as_handover_kind kind;

        if (as_handover_kind_of(as_str_of(m->listeners[i]->kind), &kind) < 0)
            as_reexec_fail(in, "kind", "is no kind of listener");
        else if (i >= AS_HANDOVER_MAX)
            as_reexec_fail(in, "listeners", "are too many");
        else if (!in->failed)
            as_handover_add(&conf->listeners, kind, fd);
    }
    if (in->dry) { /* the numbers are descriptors of another process */
        conf->app = conf->signal_fd = -1;
        conf->listeners.n = 0;
    }
}

void as_supervisor_conf_fini(struct as_supervisor_conf *conf)
{
    if (conf->app >= 0)
        close(conf->app);
    if (conf->signal_fd >= 0)
        close(conf->signal_fd);
    free(conf->program);
    free((char *)(uintptr_t)conf->address);
    free((char *)(uintptr_t)conf->target);
}

bool as_supervisor_restore(struct as_supervisor *s, struct as_reexec_reader *in)
{
    const As__Supervisor *m = in->state;
    struct as_channel *dispatcher, *controller;

    s->complete = m->complete;
    s->reload.asked = m->reloads_asked;
    s->reload.done = m->reloads_done;
    s->phase = SERVING; /* an upgrade starts only then */
    s->oom_seen = m->oom_seen;
    s->upgrade.started_at = m->upgrade_began;
    as_buf_add(&s->console.out, m->console.data, m->console.len);
    s->console.dropped = m->console_dropped;
    as_journal_restore(&s->journal, m);
    dispatcher = as_service_restore(s->current->service, in, m->dispatcher);
    controller = as_service_restore(s->controller, in, m->controller);
    s->current->channel = dispatcher;
    s->current->serving = true;
    s->to_controller = controller;
    as_workers_restore(s->workers, in, dispatcher, controller);
    as_reexec_close_unknown_fds(in);
    if (in->failed || in->dry)
        return !in->failed;
    s->upgrade.stage = AS_UPGRADE_CONTROLLER;
    as_log_event(&s->log, AS_LOG_INFO, "upgrade_resumed", "version=%s", AS_VERSION);
    s->upgrade.attempts = 0;
    as_service_restart(s->controller, AS_SEC);
    as_timer_set(&s->upgrade.timer,
                 as_loop_now(s->loop) + AS_SEC + as_supervisor_option_ns(s, AS_OPT_START_TIMEOUT));
    return true;
}

void as_supervisor_controller_starting(struct as_supervisor *s)
{
    if (s->upgrade.stage == AS_UPGRADE_CONTROLLER && s->upgrade.attempts++ == CONTROLLER_TRIES)
        fail_upgrade(s, CONTROLLER_NOT_STARTED);
}

void as_supervisor_controller_serving(struct as_supervisor *s)
{
    const struct as_handover *fds = as_service_fds(s->current->service);
    struct as_handover copies = {.n = 0};

    if (s->upgrade.stage != AS_UPGRADE_CONTROLLER)
        return;
    for (uint32_t i = 0; i < fds->n; i++) {
        int fd = fcntl(fds->fd[i], F_DUPFD_CLOEXEC, 3);

        if (fd >= 0) {
            as_handover_add(&copies, fds->kind[i], fd);
            continue;
        }
        as_handover_close(&copies);
        fail_upgrade(s, "no file descriptors left for a second dispatcher");
        return;
    }
    set_stage(s, AS_UPGRADE_DISPATCHER);
    as_supervisor_make_dispatcher(s, s->other, &copies);
    as_service_start(s->other->service);
}

/* Both dispatchers get an end of a socket by which client connections are handed over. Without one
 * the former dispatcher closes idle connections. */
static void start_yield(struct as_supervisor *s, struct as_service *former)
{
    /* time to move the workers, time to drain, and a margin for each */
    as_ns timeout = 2 * (as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) +
                         as_supervisor_option_ns(s, AS_OPT_HANDSHAKE_TIMEOUT) + YIELD_MARGIN);
    int fd[2] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
        as_log_event(&s->log, AS_LOG_WARN, "no_relay", "reason=\"%s\"", strerror(errno));
    s->upgrade.handover_fd = fd[1];
    as_service_yield(former, 0, fd[0], timeout);
    if (fd[0] >= 0)
        close(fd[0]);
}

/* The second dispatcher serves: it gets the state of the workers, and the former one is asked to
 * hand them over. */
void as_supervisor_dispatcher_serving(struct as_supervisor *s, struct as_supervisor_dispatcher *d)
{
    struct as_supervisor_dispatcher *former = s->current;

    if (s->upgrade.stage != AS_UPGRADE_DISPATCHER || d != s->other)
        return;
    set_stage(s, AS_UPGRADE_MOVING);
    s->other = former;
    s->current = d;
    as_workers_switch_dispatcher(s->workers, d->channel);
    start_yield(s, former->service);
    as_supervisor_send_dispatcher_state(s);
}

void as_supervisor_on_moved(struct as_supervisor *s, uint32_t foreign, bool drains)
{
    if (s->upgrade.stage != AS_UPGRADE_MOVING)
        return;
    as_log_event(&s->log, AS_LOG_DEBUG, "upgrade_moves", "foreign=%u drains=%d", foreign, drains);
    send_told(s, foreign, true);
    /* a former one that does not drain yet would serve for ever if a worker never came over */
    if (!drains)
        as_timer_set(&s->upgrade.timer,
                     as_loop_now(s->loop) + as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT));
}

void as_supervisor_on_opened(struct as_supervisor *s)
{
    if (s->upgrade.stage != AS_UPGRADE_MOVING)
        return;
    set_stage(s, AS_UPGRADE_YIELDING);
    as_service_yield(s->other->service, 1, -1,
                     as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) + YIELD_MARGIN);
}

void as_supervisor_on_legacy(struct as_supervisor *s, const struct as_supervisor_dispatcher *d,
                             const struct as_ctl_message *m)
{
    bool is_handing_over =
        s->upgrade.stage == AS_UPGRADE_MOVING || s->upgrade.stage == AS_UPGRADE_YIELDING;

    if (d == s->other && is_handing_over)
        as_channel_send(s->current->channel, m);
}

static void on_upgrade_done(struct as_supervisor *s)
{
    as_ns took = as_loop_now(s->loop) - s->upgrade.started_at;

    as_log_event(&s->log, AS_LOG_INFO, "upgraded", "version=%s took_ms=%llu", AS_VERSION,
                 (unsigned long long)(took / AS_MS));
    report_outcome(s, AS_STR("done " AS_VERSION));
}

void as_supervisor_other_dispatcher_down(struct as_supervisor *s, bool gave_up)
{
    enum as_upgrade_stage stage = s->upgrade.stage;

    as_workers_remove_former(s->workers);
    if (stage == AS_UPGRADE_DISPATCHER && gave_up) {
        fail_upgrade(s, "the new dispatcher does not start; its log lines are above");
    } else if (stage == AS_UPGRADE_MOVING || stage == AS_UPGRADE_YIELDING) {
        if (stage == AS_UPGRADE_MOVING)
            send_told(s, 0, false); /* workers that are missing connect by themselves */
        as_channel_send(s->current->channel, &(struct as_ctl_message){.type = AS_CTL_RELIEVED});
        set_stage(s, AS_UPGRADE_NONE);
        on_upgrade_done(s);
    }
    as_supervisor_dispatcher_down(s);
}

void as_supervisor_upgrade_cancel(struct as_supervisor *s)
{
    switch (s->upgrade.stage) {
    case AS_UPGRADE_CHECKING:
        if (s->upgrade.check)
            as_process_stop(s->upgrade.check, SIGKILL, 0);
        break;
    case AS_UPGRADE_DISPATCHER:
        as_service_stop(s->other->service);
        break;
    case AS_UPGRADE_MOVING:
        as_service_yield(s->other->service, 1, -1,
                         as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) + YIELD_MARGIN);
        break;
    default:
        break;
    }
    close_handover_fd(s);
    if (s->upgrade.stage != AS_UPGRADE_NONE)
        fail_upgrade(s, "the server ends");
}

void as_supervisor_upgrade_init(struct as_supervisor *s)
{
    if (!s->conf->reexec)
        remove_check_copy(s); /* left by a supervisor that was killed together with its check */
    s->upgrade.handover_fd = -1;
    as_timer_init(&s->upgrade.timer, s->loop, on_upgrade_timer);
}

void as_supervisor_upgrade_fini(struct as_supervisor *s)
{
    close_handover_fd(s);
    as_buf_fini(&s->upgrade.check_output);
    as_timer_close(&s->upgrade.timer, NULL);
}
