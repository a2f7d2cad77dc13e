#include "ctl/supervisor.h"

#include "ctl/crew.h"
#include "ctl/exit_code.h"
#include "ctl/front.h"
#include "ctl/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* The dispatcher keeps the drain timeout itself; this much later it is killed. */
#define DRAIN_MARGIN (2 * AS_SEC)

enum phase { STARTING, SERVING, DRAINING, STOPPING, ENDED, PHASES };

/* STARTING → SERVING → DRAINING → STOPPING → ENDED, forward only, any of them may be left out but
 * the last two. DRAINING is the dispatcher's time, STOPPING the workers'. */
static const uint32_t moves[PHASES] = {
    [STARTING] = 1u << SERVING | 1u << DRAINING | 1u << STOPPING,
    [SERVING] = 1u << DRAINING | 1u << STOPPING,
    [DRAINING] = 1u << STOPPING,
    [STOPPING] = 1u << ENDED,
};

/* Small enough to be obviously right: it forks, signals, reaps and passes messages on. Everything
 * that can go wrong with bytes from outside is in other processes. */
struct supervisor {
    const struct as_supervisor_conf *conf;
    enum phase phase;
    int code;
    struct as_loop *loop;
    struct as_console console;
    struct as_log log;
    struct as_sock signals;
    struct as_front *front;
    struct as_crew *crew;
    struct as_rand rand;
    uint64_t oom_seen;
    as_ns began;
    struct as_task strays;
    bool front_down, crew_down;
};

static void move(struct supervisor *s, enum phase to)
{
    AS_ASSERT(moves[s->phase] & (1u << to));
    s->phase = to;
}

static as_ns option_ns(const struct supervisor *s, enum as_option_id id)
{
    return as_option_ns(s->conf->opts, id);
}

/* The loop is stopped only when nobody is left who would outlive it. */
static void try_end(struct supervisor *s)
{
    if (s->phase == STOPPING && s->front_down && s->crew_down) {
        move(s, ENDED);
        as_loop_stop(s->loop);
    }
}

/* Nothing is served any more. */
static void stop(struct supervisor *s)
{
    if (s->phase == STOPPING || s->phase == ENDED)
        return;
    move(s, STOPPING);
    as_front_stop(s->front);
    as_crew_stop(s->crew, SIGTERM, option_ns(s, AS_OPT_STOP_TIMEOUT));
}

static void fail(struct supervisor *s, int code)
{
    /* the first reason counts: what follows from stopping is no failure of its own */
    if (s->phase == STARTING || s->phase == SERVING)
        s->code = code;
    stop(s);
}

static void drain(struct supervisor *s, uint32_t signo)
{
    move(s, DRAINING);
    as_log_event(&s->log, AS_LOG_INFO, "drain", "signal=%u timeout_ms=%llu", signo,
                 (unsigned long long)(option_ns(s, AS_OPT_DRAIN_TIMEOUT) / AS_MS));
    as_front_drain(s->front, option_ns(s, AS_OPT_DRAIN_TIMEOUT) + DRAIN_MARGIN);
}

/* A second Ctrl-C, or SIGTERM while draining: the user has decided. */
static void kill_all(struct supervisor *s, uint32_t signo)
{
    /* as shells report a death by signal */
    s->code = AS_CODE_SIGNAL + (int)signo;
    stop(s);
    as_front_stop(s->front);
    as_crew_stop(s->crew, SIGKILL, 0);
}

static bool is_ours(void *ctx, pid_t pid)
{
    struct supervisor *s = ctx;

    return as_front_has(s->front, pid) || as_crew_has(s->crew, pid);
}

/* At the end of the turn, when the dead of ours that SIGCHLD may be about have been reaped. */
static void reap_strays(struct as_task *t)
{
    struct supervisor *s = AS_CONTAINER(t, struct supervisor, strays);

    as_proc_reap_strays(is_ours, s);
}

static void on_signal(struct as_sock *sock, int events)
{
    struct supervisor *s = AS_CONTAINER(sock, struct supervisor, signals);
    struct signalfd_siginfo si;

    (void)events;
    /* to the end: several signals may be one event */
    while (read(sock->fd, &si, sizeof(si)) == sizeof(si)) {
        if (si.ssi_signo == SIGCHLD)
            as_loop_defer(s->loop, &s->strays);
        else if (si.ssi_signo == SIGUSR1)
            as_log_event(&s->log, AS_LOG_INFO, "revive", "replicas=%u", as_crew_revive(s->crew));
        else if (s->phase == STARTING || s->phase == SERVING)
            drain(s, si.ssi_signo);
        else
            kill_all(s, si.ssi_signo);
    }
}

static void on_channel(void *ctx, struct as_channel *channel)
{
    struct supervisor *s = ctx;

    as_crew_set_channel(s->crew, channel);
}

static void on_serving(void *ctx)
{
    struct supervisor *s = ctx;

    as_crew_serving(s->crew);
}

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    struct supervisor *s = ctx;

    as_log_event(&s->log, AS_LOG_DEBUG, "dispatcher_says", "type=%s replica=%.*s",
                 as_ctl_type_name(m->type), AS_STR_FMT(m->replica));
    as_crew_message(s->crew, m);
}

static void on_front_down(void *ctx, bool gave_up)
{
    struct supervisor *s = ctx;

    s->front_down = true;
    if (gave_up)
        fail(s, AS_CODE_FAILED);
    stop(s);
    try_end(s);
}

static void on_fatal(void *ctx, int code, const char *replica, struct as_str reason)
{
    struct supervisor *s = ctx;
    const char *nl = memchr(reason.p, '\n', reason.n);
    struct as_buf b;

    as_buf_init(&b);
    as_buf_printf(&b, "%s cannot start (%.*s); its output is above. Nothing is served.", replica,
                  (int)(nl ? nl - reason.p : (ptrdiff_t)reason.n), reason.p);
    as_console_line(&s->console, NULL, as_buf_slice(&b));
    as_buf_fini(&b);
    fail(s, code);
}

static void on_ready(void *ctx)
{
    struct supervisor *s = ctx;
    uint32_t n = as_crew_size(s->crew);
    struct as_buf b;

    if (s->phase != STARTING)
        return;
    move(s, SERVING);
    as_buf_init(&b);
    as_buf_printf(&b, "Ready: %s (", s->conf->address);
    if (n)
        as_buf_printf(&b, "%u replica%s", n, n == 1 ? "" : "s");
    else
        as_buf_str(&b, "waits for workers");
    as_buf_printf(&b, ", %.1f s)", (double)(as_loop_now(s->loop) - s->began) / (double)AS_SEC);
    as_console_line(&s->console, NULL, as_buf_slice(&b));
    as_buf_fini(&b);
}

static void on_crew_stopped(void *ctx)
{
    struct supervisor *s = ctx;

    s->crew_down = true;
    try_end(s);
}

static struct as_child_conf child_conf(struct supervisor *s)
{
    const struct as_option_set *o = s->conf->opts;

    return (struct as_child_conf){
        .restart = {.base = as_option_ns(o, AS_OPT_RESTART_BACKOFF),
                    .max = as_option_ns(o, AS_OPT_RESTART_BACKOFF_MAX),
                    .healthy = as_option_ns(o, AS_OPT_RESTART_HEALTHY_AFTER),
                    .give_up = (uint32_t)as_option_u64(o, AS_OPT_MAX_START_FAILURES)},
        .start_timeout = as_option_ns(o, AS_OPT_START_TIMEOUT),
        .rand = &s->rand,
        .oom_seen = &s->oom_seen};
}

/* Starting an interpreter is CPU work: more at once than twice the cores that we may use would only
 * make all of them late. */
static uint32_t max_starting(const struct as_option_set *o)
{
    uint32_t given = (uint32_t)as_option_u64(o, AS_OPT_MAX_STARTING);
    cpu_set_t cpus;

    if (given)
        return given;
    return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? 2 * (uint32_t)CPU_COUNT(&cpus) : 2;
}

/* The crew first: the front tells it of its channel as soon as it starts. */
static int make_parts(struct supervisor *s)
{
    static const struct as_front_ops front_ops = {on_channel, on_serving, on_message,
                                                  on_front_down};
    static const struct as_crew_ops crew_ops = {on_fatal, on_ready, on_crew_stopped};
    const struct as_supervisor_conf *conf = s->conf;
    struct as_front_conf front = {.program = "/proc/self/exe",
                                  .opts = conf->opts,
                                  .listeners = conf->listeners,
                                  .child = child_conf(s)};
    struct as_crew_conf crew = {
        .app = conf->app,
        .python = conf->python,
        .target = conf->target,
        .link = conf->link,
        .workers = (uint32_t)as_option_u64(conf->opts, AS_OPT_WORKERS),
        .max_starting = max_starting(conf->opts),
        .stream_inputs = (uint32_t)as_option_u64(conf->opts, AS_OPT_STREAM_INPUTS),
        .stream_input_bytes = as_option_u64(conf->opts, AS_OPT_STREAM_INPUT_BYTES),
        .debug_errors = as_option_bool(conf->opts, AS_OPT_DEBUG_ERRORS),
        .batch = as_option_u64(conf->opts, AS_OPT_WORKER_SCHEDULING) == 0,
        .child = child_conf(s)};

    as_crew_new(&s->crew, s->loop, &crew, &crew_ops, s, &s->console, &s->log);
    as_front_new(&s->front, s->loop, &front, &front_ops, s, &s->log);
    return as_sock_open(&s->signals, s->loop, fcntl(conf->signal_fd, F_DUPFD_CLOEXEC, 3),
                        on_signal);
}

int as_supervisor_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    /* blocked before the first fork and read as bytes: no handler of ours ever interrupts anything.
     * Children get the default mask back (io/proc). */
    sigaddset(&set, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int cannot(const char *what)
{
    fprintf(stderr, "anyserve: the system refused %s: %s\n", what, strerror(errno));
    return AS_CODE_SYSTEM;
}

int as_supervisor_run(const struct as_supervisor_conf *conf)
{
    struct supervisor s = {.conf = conf, .code = AS_CODE_OK};

    if (as_loop_new(&s.loop, 0) < 0)
        return cannot("an event loop");
    s.began = as_loop_now(s.loop);
    s.oom_seen = as_memory_oom_kills("");
    if (getrandom(&s.rand.s, sizeof(s.rand.s), 0) != sizeof(s.rand.s))
        as_fatal_system("random bytes", errno);
    as_console_init(&s.console, s.loop, STDERR_FILENO);
    s.log =
        as_console_log(&s.console, (enum as_log_level)as_option_u64(conf->opts, AS_OPT_LOG_LEVEL));
    as_task_init(&s.strays, reap_strays);
    if (make_parts(&s) == 0) {
        as_front_start(s.front);
        as_crew_start(s.crew);
        as_loop_run(s.loop);
        as_sock_close(&s.signals, NULL);
    } else {
        s.code = cannot("to watch for signals");
    }
    /* Closing is asynchronous: everything is closed first, as_loop_free runs the loop until libuv
     * has let go, and only then may the memory go. */
    as_crew_close(s.crew);
    as_front_close(s.front);
    as_console_close(&s.console);
    as_loop_free(s.loop);
    as_crew_free(s.crew);
    as_front_free(s.front);
    return s.code;
}
