#include "ctl/supervise/supervisor.h"

#include "conf/option/exit_code.h"
#include "ctl/output/journal.h"
#include "ctl/output/log_file.h"
#include "ctl/supervise/memory_limit.h"
#include "ctl/supervise/supervisor_internal.h"
#include "io/random.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* The dispatcher observes the drain timeout itself; it is killed this much later. */
#define DRAIN_MARGIN (2 * AS_SEC)
/* From DRAIN to SIGKILL: the controller has nothing to finish. */
#define CONTROLLER_STOP_TIMEOUT AS_SEC

/* STARTING → SERVING → DRAINING → STOPPING → ENDED: forward only; only the last two cannot be
 * skipped. DRAINING waits for the dispatcher, STOPPING for controller and workers. */
static const uint32_t phase_moves[PHASES] = {
    [STARTING] = 1u << SERVING | 1u << DRAINING | 1u << STOPPING,
    [SERVING] = 1u << DRAINING | 1u << STOPPING,
    [DRAINING] = 1u << STOPPING,
    [STOPPING] = 1u << ENDED,
};

static void set_phase(struct as_supervisor *s, enum as_supervisor_phase to)
{
    AS_ASSERT(phase_moves[s->phase] & (1u << to));
    s->phase = to;
}

as_ns as_supervisor_option_ns(const struct as_supervisor *s, enum as_option_id id)
{
    return as_option_ns(s->conf->opts, id);
}

/* The loop stops only when no child process is left. */
void as_supervisor_try_end(struct as_supervisor *s)
{
    if (s->phase == STOPPING && s->current->down && (!s->other->service || s->other->down) &&
        s->controller_down && s->workers_down && !s->upgrade.check) {
        set_phase(s, ENDED);
        as_loop_stop(s->loop);
    }
}

/* From here on nothing is served. */
static void stop_all(struct as_supervisor *s)
{
    if (s->phase == STOPPING || s->phase == ENDED)
        return;
    set_phase(s, STOPPING);
    as_supervisor_upgrade_cancel(s);
    as_service_stop(s->current->service);
    if (s->other->service)
        as_service_stop(s->other->service);
    as_service_drain(s->controller, CONTROLLER_STOP_TIMEOUT);
    as_workers_stop(s->workers, SIGTERM, as_supervisor_option_ns(s, AS_OPT_STOP_TIMEOUT));
}

static void stop_with_code(struct as_supervisor *s, int code)
{
    /* the first failure counts: those during a stop follow from it */
    if (s->phase == STARTING || s->phase == SERVING)
        s->code = code;
    stop_all(s);
}

static void start_drain(struct as_supervisor *s, const struct signalfd_siginfo *si)
{
    as_ns delay = as_supervisor_option_ns(s, AS_OPT_SHUTDOWN_DELAY);
    char from[AS_SENDER_MAX];

    set_phase(s, DRAINING);
    as_supervisor_upgrade_cancel(s);
    as_supervisor_notify(s, "STOPPING=1");
    as_log_event(&s->log, AS_LOG_INFO, "drain", "signal=%u timeout_ms=%llu delay_ms=%llu from=%s",
                 si->ssi_signo,
                 (unsigned long long)(as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) / AS_MS),
                 (unsigned long long)(delay / AS_MS), as_supervisor_signal_sender(si, from));
    as_supervisor_print_drain(s, si, delay);
    as_service_drain(s->current->service,
                     delay + as_supervisor_option_ns(s, AS_OPT_DRAIN_TIMEOUT) + DRAIN_MARGIN);
}

/* A second Ctrl-C or SIGTERM is a decision of the user. A second SIGHUP is not: both the shell and
 * the kernel send one when a terminal closes. */
static void kill_all_now(struct as_supervisor *s, const struct signalfd_siginfo *si)
{
    char from[AS_SENDER_MAX];

    as_log_event(&s->log, AS_LOG_INFO, "end_at_once", "signal=%u from=%s", si->ssi_signo,
                 as_supervisor_signal_sender(si, from));
    if (si->ssi_signo == SIGINT)
        as_console_write(&s->console, NULL, AS_STR("Ending at once."));
    /* as shells report a death by signal */
    s->code = AS_EXIT_CODE_SIGNAL + (int)si->ssi_signo;
    stop_all(s);
    as_service_stop(s->current->service);
    as_service_stop(s->controller);
    as_workers_stop(s->workers, SIGKILL, 0);
}

static bool is_own_child(void *ctx, pid_t pid)
{
    struct as_supervisor *s = ctx;

    for (size_t i = 0; i < AS_COUNT(s->dispatchers); i++) {
        if (s->dispatchers[i].service && as_service_owns_pid(s->dispatchers[i].service, pid))
            return true;
    }
    return as_service_owns_pid(s->controller, pid) || as_workers_owns_pid(s->workers, pid) ||
           (s->upgrade.check && as_process_pid(s->upgrade.check) == pid);
}

/* At the end of the loop's turn: children of ours were reaped by their pidfds before, but for one
 * that ended during this turn. The next turn's poll finds its pidfd. */
static void reap_orphans(struct as_task *t)
{
    struct as_supervisor *s = AS_CONTAINER(t, struct as_supervisor, orphans);

    if (as_proc_reap_orphans(is_own_child, s))
        as_loop_defer_next_turn(s->loop, &s->orphans);
}

static void on_signal(struct as_sock *sock, int events AS_UNUSED)
{
    struct as_supervisor *s = AS_CONTAINER(sock, struct as_supervisor, signals);
    struct signalfd_siginfo si;

    /* until it is empty: several signals may come as one event */
    while (read(sock->fd, &si, sizeof(si)) == sizeof(si)) {
        if (si.ssi_signo == SIGCHLD)
            as_loop_defer(s->loop, &s->orphans);
        else if (as_supervisor_refuses_signal(s, &si))
            continue;
        else if (si.ssi_signo == SIGUSR1)
            as_channel_send(s->to_controller, &(struct as_ctl_message){.type = AS_CTL_REVIVE});
        else if (si.ssi_signo == SIGUSR2)
            as_supervisor_upgrade_start(s);
        else if (si.ssi_signo == SIGHUP && s->phase != STARTING && s->phase != SERVING)
            as_log_event(&s->log, AS_LOG_INFO, "hangup_ignored", "reason=\"the server ends\"");
        else if (si.ssi_signo == SIGHUP && !as_supervisor_hangup_ends(s, &si))
            as_supervisor_reload(s, &si);
        else if (s->phase == STARTING || s->phase == SERVING)
            start_drain(s, &si);
        else
            kill_all_now(s, &si);
    }
}

/* --- messages of dispatcher and controller, to us and to each other --- */

void as_supervisor_send_dispatcher_state(struct as_supervisor *s)
{
    as_channel_send(s->to_controller,
                    &(struct as_ctl_message){.type = AS_CTL_DISPATCHER,
                                             .state = s->current->serving ? AS_CTL_READY_STATE
                                                                          : AS_CTL_LOST_STATE});
}

/* The current dispatcher gets the whole state before its process runs; one that is to take over
 * gets it when it has sent SERVING. */
static void on_dispatcher(void *ctx, struct as_channel *channel)
{
    struct as_supervisor_dispatcher *d = ctx;
    struct as_supervisor *s = d->s;

    d->channel = channel;
    d->serving = false;
    if (d != s->current)
        return;
    as_workers_set_dispatcher(s->workers, channel);
    as_supervisor_send_dispatcher_state(s);
}

static void on_dispatcher_serving(void *ctx)
{
    struct as_supervisor_dispatcher *d = ctx;

    d->serving = true;
    if (d != d->s->current)
        as_supervisor_dispatcher_serving(d->s, d);
    else
        as_supervisor_send_dispatcher_state(d->s);
    if (d == d->s->current) /* also one that has just taken over */
        as_supervisor_reload_pending(d->s);
}

/* It gets the whole state before its process runs, and decides nothing before TOLD. */
static void on_controller(void *ctx, struct as_channel *channel)
{
    struct as_supervisor *s = ctx;

    s->to_controller = channel;
    if (channel)
        as_supervisor_controller_starting(s);
    as_workers_set_controller(s->workers, channel);
    as_supervisor_send_dispatcher_state(s);
    as_channel_send(channel, &(struct as_ctl_message){.type = AS_CTL_TOLD, .number = s->complete});
}

static void on_controller_serving(void *ctx)
{
    struct as_supervisor *s = ctx;

    as_workers_controller_ready(s->workers);
    as_supervisor_controller_serving(s);
}

static void on_fatal(struct as_supervisor *s, const struct as_ctl_message *m)
{
    const char *nl = memchr(m->text.p, '\n', m->text.n);
    struct as_buf b = {0};

    if (s->phase != STARTING)
        return;
    as_buf_printf(&b, "%.*s cannot start (%.*s); its output is above. Nothing is served.",
                  AS_STR_FMT(as_id_shown(m->replica)),
                  (int)(nl ? nl - m->text.p : (ptrdiff_t)m->text.n), m->text.p);
    as_console_write(&s->console, NULL, as_buf_slice(&b));
    as_buf_fini(&b);
    stop_with_code(s, (int)(m->number & 0x7f));
}

static void on_complete(struct as_supervisor *s, uint32_t n, uint32_t wanted)
{
    struct as_buf b = {0};

    s->complete = true;
    if (s->phase != STARTING)
        return;
    set_phase(s, SERVING);
    as_buf_printf(&b, "Ready: %s (", s->conf->address);
    if (!wanted)
        as_buf_str(&b, "waits for workers");
    else if (n < wanted)
        as_buf_printf(&b, "%u of ", n);
    if (wanted)
        as_buf_printf(&b, "%u replica%s", wanted, wanted == 1 ? "" : "s");
    as_buf_printf(&b, ", %.1f s)", (double)(as_loop_now(s->loop) - s->started_at) / (double)AS_SEC);
    as_console_write(&s->console, NULL, as_buf_slice(&b));
    as_buf_fini(&b);
    as_supervisor_notify(s, "READY=1");
}

/* Called before a message is passed on, so that its receiver finds our part done. */
static void handle_message(struct as_supervisor *s, const struct as_ctl_message *m)
{
    if (m->type == AS_CTL_FATAL)
        on_fatal(s, m);
    else if (m->type == AS_CTL_COMPLETE)
        on_complete(s, m->number, (uint32_t)m->id);
    else if (m->type == AS_CTL_RELOADED)
        s->reload.done = AS_MAX(s->reload.done, m->number);
    else if (m->type != AS_CTL_DRAINED) /* the end of its process is what counts */
        as_workers_handle(s->workers, m);
}

static bool check_sender(struct as_supervisor *s, uint32_t from, const char *name,
                         const struct as_ctl_message *m)
{
    char replica[AS_CTL_NAME_MAX + 8];

    as_log_event(&s->log, AS_LOG_DEBUG, "heard", "from=%s type=%s replica=%s", name,
                 as_ctl_type_name(m->type), as_log_quote(replica, sizeof(replica), m->replica));
    if (as_ctl_senders(m->type) & from)
        return true;
    as_log_event(&s->log, AS_LOG_WARN, "control_unexpected", "from=%s type=%s", name,
                 as_ctl_type_name(m->type));
    return false;
}

/* A process that an earlier version has started has names in place of ids. */
static struct as_ctl_message with_ids(const struct as_supervisor *s, const struct as_channel *from,
                                      const struct as_ctl_message *m,
                                      struct as_workers_names *names)
{
    return !from || as_channel_format(from) == AS_CTL_FORMAT
               ? *m
               : as_workers_qualify(s->workers, m, names);
}

static void route_message(struct as_supervisor *s, const struct as_ctl_message *m)
{
    uint32_t to = as_ctl_receivers(m->type);

    if (to & AS_CTL_S)
        handle_message(s, m);
    if (to & AS_CTL_C && as_workers_accepts(s->workers, m))
        as_channel_send(s->to_controller, m);
    /* what the supervisor stores is sent on by the module that stores it */
    if (to == AS_CTL_D)
        as_channel_send(s->current->channel, m);
}

static void on_dispatcher_message(void *ctx, const struct as_ctl_message *said)
{
    struct as_supervisor_dispatcher *d = ctx;
    struct as_supervisor *s = d->s;
    struct as_workers_names names;
    struct as_ctl_message full = with_ids(s, d->channel, said, &names), *m = &full;

    if (!check_sender(s, AS_CTL_D, d == s->current ? "dispatcher" : "other dispatcher", m))
        return;
    if (m->type == AS_CTL_MOVED || m->type == AS_CTL_OPENED) {
        if (m->type == AS_CTL_MOVED && d == s->other)
            as_supervisor_on_moved(s, m->number, m->id);
        else if (m->type == AS_CTL_OPENED && d == s->current)
            as_supervisor_on_opened(s);
    } else if (m->type == AS_CTL_LEGACY || m->type == AS_CTL_FEWER) {
        as_supervisor_on_legacy(s, d, m);
    } else if (d == s->current) {
        route_message(s, m);
    } else if (as_workers_handle_former(s->workers, m)) {
        as_channel_send(s->to_controller, m);
    }
}

static void on_controller_message(void *ctx, const struct as_ctl_message *said)
{
    struct as_supervisor *s = ctx;
    struct as_workers_names names;
    struct as_ctl_message m = with_ids(s, s->to_controller, said, &names);

    if (check_sender(s, AS_CTL_C, "controller", &m))
        route_message(s, &m);
}

/* --- processes end --- */

static void on_service_down(struct as_supervisor *s, bool gave_up)
{
    if (gave_up)
        stop_with_code(s, AS_EXIT_CODE_FAILED);
    stop_all(s);
    as_supervisor_try_end(s);
}

/* While the server drains, a former dispatcher may still have clients. */
void as_supervisor_dispatcher_down(struct as_supervisor *s)
{
    if (s->current->down && !(s->phase == DRAINING && s->other->service && !s->other->down))
        on_service_down(s, false);
    else
        as_supervisor_try_end(s);
}

static void on_dispatcher_down(void *ctx, bool gave_up)
{
    struct as_supervisor_dispatcher *d = ctx;

    d->down = true;
    if (d != d->s->current) {
        as_supervisor_other_dispatcher_down(d->s, gave_up);
        return;
    }
    if (gave_up)
        stop_with_code(d->s, AS_EXIT_CODE_FAILED);
    as_supervisor_dispatcher_down(d->s);
}

static void on_controller_down(void *ctx, bool gave_up)
{
    struct as_supervisor *s = ctx;

    s->controller_down = true;
    on_service_down(s, gave_up);
}

static void on_workers_stopped(void *ctx)
{
    struct as_supervisor *s = ctx;

    s->workers_down = true;
    as_supervisor_try_end(s);
}

static struct as_service_conf service_conf(struct as_supervisor *s, const char *name,
                                           uint32_t scope)
{
    const struct as_option_set *o = s->conf->opts;

    return (struct as_service_conf){
        .name = name,
        .program = "/proc/self/exe",
        .opts = o,
        .scope = scope,
        .console = &s->console,
        .heartbeat = as_option_ns(o, AS_OPT_HEARTBEAT_TIMEOUT),
        .child = {.restart = {.base = as_option_ns(o, AS_OPT_RESTART_BACKOFF),
                              .max = as_option_ns(o, AS_OPT_RESTART_BACKOFF_MAX),
                              .healthy = as_option_ns(o, AS_OPT_RESTART_HEALTHY_AFTER),
                              .give_up = (uint32_t)as_option_u64(o, AS_OPT_MAX_START_FAILURES)},
                  .start_timeout = as_option_ns(o, AS_OPT_START_TIMEOUT),
                  .rand = &s->rand,
                  .oom_seen = &s->oom_seen}};
}

/* The API listener is the controller's; all others are the dispatcher's. */
static void split_listeners(const struct as_handover *all, struct as_handover *dispatcher,
                            struct as_handover *controller)
{
    for (uint32_t i = 0; i < all->n; i++)
        as_handover_add(all->kind[i] == AS_HANDOVER_API ? controller : dispatcher, all->kind[i],
                        all->fd[i]);
}

void as_supervisor_make_dispatcher(struct as_supervisor *s, struct as_supervisor_dispatcher *d,
                                   const struct as_handover *fds)
{
    static const struct as_service_ops ops = {on_dispatcher, on_dispatcher_serving,
                                              on_dispatcher_message, on_dispatcher_down};
    struct as_service_conf conf = service_conf(s, "dispatcher", AS_SCOPE_DISPATCHER);

    conf.fds = *fds;
    d->s = s;
    as_service_new(&d->service, s->loop, &conf, &ops, d, &s->log);
}

/* The workers come first: the services hand them their channels as soon as they start. */
static int make_children(struct as_supervisor *s)
{
    static const struct as_service_ops controller_ops = {on_controller, on_controller_serving,
                                                         on_controller_message, on_controller_down};
    const struct as_supervisor_conf *conf = s->conf;
    struct as_workers_conf workers = {.oom_seen = &s->oom_seen,
                                      .terminal = as_option_bool(conf->opts, AS_OPT_DEBUG),
                                      .on_stopped = on_workers_stopped,
                                      .ctx = s};
    struct as_handover dispatcher_fds = {.n = 0};
    struct as_service_conf controller = service_conf(s, "controller", AS_SCOPE_CONTROLLER);
    /* a check (dry read) has none */
    int app = conf->app < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                            : fcntl(conf->app, F_DUPFD_CLOEXEC, 3);
    int error = app < 0 ? errno : 0;

    controller.arg = conf->target;
    /* unlike the dispatcher it has nothing to finish when the supervisor dies */
    controller.death_signal = SIGKILL;
    /* everything is made even after an error: the end of as_supervisor_run closes it all */
    split_listeners(&conf->listeners, &dispatcher_fds, &controller.fds);
    if (app >= 0)
        as_handover_add(&controller.fds, AS_HANDOVER_APP, app);
    as_workers_new(&s->workers, s->loop, &workers, &s->console, &s->log);
    as_supervisor_make_dispatcher(s, s->current, &dispatcher_fds);
    as_service_new(&s->controller, s->loop, &controller, &controller_ops, s, &s->log);
    if (error) {
        errno = error;
        return AS_EIO;
    }
    if (!(conf->reexec && conf->reexec->dry) && as_supervisor_watch_parent(s) < 0)
        return AS_EIO;
    return as_sock_open(&s->signals, s->loop, fcntl(conf->signal_fd, F_DUPFD_CLOEXEC, 3),
                        on_signal);
}

static int print_refusal(const char *what)
{
    fprintf(stderr, "anyserve: the system refused %s: %s\n", what, strerror(errno));
    return AS_EXIT_CODE_SYSTEM;
}

static void open_journal(struct as_supervisor *s)
{
    const struct as_option_set *o = s->conf->opts;

    s->console.journal = &s->journal;
    if (as_journal_open(&s->journal, as_option_str(o, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(o, AS_OPT_PORT), "supervisor",
                        as_option_u64(o, AS_OPT_LOG_KEEP),
                        (uint32_t)as_option_u64(o, AS_OPT_MAX_OLD_LOGS)) < 0)
        as_log_event(&s->log, AS_LOG_WARN, "no_journal", "reason=\"%s\"", strerror(errno));
}

/* Only for a server in the background, which prints to this file; any other output is not ours to
 * bound. */
static void open_log_file(struct as_supervisor *s)
{
    const struct as_option_set *o = s->conf->opts;
    char *path = as_str_format("%s/" AS_LOG_FILE, as_option_str(o, AS_OPT_STATE_DIR));

    as_log_file_init(&s->log_file, s->loop, STDERR_FILENO, path,
                     as_option_u64(o, AS_OPT_LOG_FILE_SIZE),
                     (uint32_t)as_option_u64(o, AS_OPT_LOG_FILES), &s->log);
    s->console.file = &s->log_file;
    free(path);
}

static int setup(struct as_supervisor *s)
{
    const struct as_supervisor_conf *conf = s->conf;

    s->current = &s->dispatchers[0];
    s->other = &s->dispatchers[1];
    s->started_at = as_loop_now(s->loop);
    s->oom_seen = as_memory_limit_oom_kills("");
    as_random_bytes(&s->rand.s, sizeof(s->rand.s));
    as_console_init(&s->console, s->loop, STDERR_FILENO);
    s->log =
        as_console_log(&s->console, (enum as_log_level)as_option_u64(conf->opts, AS_OPT_LOG_LEVEL));
    open_journal(s);
    open_log_file(s);
    as_task_init(&s->orphans, reap_orphans);
    as_supervisor_look_for_terminal(s);
    as_supervisor_upgrade_init(s);
    as_supervisor_watchdog_init(s);
    if (make_children(s) < 0)
        return print_refusal("a file descriptor");
    if (!conf->reexec) {
        as_service_start(s->current->service);
        as_service_start(s->controller);
    } else if (as_supervisor_restore(s, conf->reexec)) {
        as_loop_defer(s->loop, &s->orphans); /* children that died during the exec */
    } else {
        fprintf(stderr, "anyserve: %.*s\n", AS_STR_FMT(as_buf_slice(conf->reexec->err)));
        return AS_EXIT_CODE_SYSTEM;
    }
    return AS_EXIT_CODE_OK;
}

int as_supervisor_run(const struct as_supervisor_conf *conf)
{
    struct as_supervisor s = {.conf = conf, .code = AS_EXIT_CODE_OK};
    int rc;

    if (as_loop_new(&s.loop, 0) < 0)
        return print_refusal("an event loop");
    rc = setup(&s);
    if (rc == AS_EXIT_CODE_OK) {
        if (!(conf->reexec && conf->reexec->dry)) {
            as_supervisor_watchdog_start(&s);
            as_loop_run(s.loop); /* the loop's callbacks set s.code */
        }
        as_sock_close(&s.signals, NULL);
    } else if (conf->reexec) {
        _exit(rc); /* running processes end with us: none was taken over yet */
    } else {
        s.code = rc;
    }
    /* Closing is asynchronous: first everything is closed, then as_loop_free runs the loop until
     * libuv has closed all handles, and only then the memory is freed. */
    if (s.watches_parent)
        as_sock_close(&s.parent, NULL);
    as_workers_close(s.workers);
    for (size_t i = 0; i < AS_COUNT(s.dispatchers); i++) {
        if (s.dispatchers[i].service)
            as_service_close(s.dispatchers[i].service);
    }
    as_service_close(s.controller);
    as_supervisor_upgrade_fini(&s);
    as_timer_close(&s.watchdog, NULL);
    as_console_close(&s.console);
    as_log_file_close(&s.log_file);
    as_loop_free(s.loop);
    for (size_t i = 0; i < AS_COUNT(s.dispatchers); i++)
        as_service_free(s.dispatchers[i].service);
    as_service_free(s.controller);
    as_workers_free(s.workers);
    as_journal_close(&s.journal);
    return s.code;
}
