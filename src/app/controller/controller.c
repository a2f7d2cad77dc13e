/* The controller process: connects the reconciler, the control API and the supervisor's socket. */
#include "app/controller/controller.h"

#include "app/controller/control_api.h"
#include "app/controller/reload.h"
#include "app/options/conf.h"
#include "base/counter.h"
#include "conf/option/exit_code.h"
#include "conf/spec/spec_row.h"
#include "core/replicas/heartbeat.h"
#include "ctl/message/channel.h"
#include "ctl/output/console.h"
#include "ctl/output/journal.h"
#include "ctl/reconcile/reconciler.h"
#include "ctl/state/code_store.h"
#include "ctl/state/failpoint.h"
#include "ctl/state/runtime_dir.h"
#include "ctl/state/token.h"
#include "ctl/supervise/memory_limit.h"
#include "edge/admin/control_events.h"
#include "io/process/cpu_limit.h"
#include "io/random.h"
#include "io/socket/listen.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#define UPLOADS_AT_ONCE 2u /* of the largest pickled code; further bytes are refused */
#define ANSWERS_MOST    ((uint64_t)64 << 20) /* bytes of answers that clients have not read yet */

struct controller {
    struct as_journal journal;
    struct as_console_shared console;
    struct as_log log;
    struct as_loop *loop;
    struct as_channel *channel;
    struct as_timer heartbeat; /* the next heartbeat to the supervisor */
    as_ns heartbeat_interval;  /* 0: none are sent */
    struct as_timer refusals;  /* when the dispatcher is told of more refusals */
    uint64_t refusals_told;
    struct as_declared app;
    struct as_reconciler *reconciler;
    struct as_control_api control_api;
    struct as_edge_budgets budgets;
    struct as_edge *edge; /* for the control API */
    char token[AS_TOKEN_MAX + 1],
        host[AS_LISTEN_HOST_MAX]; /* of the control API over TCP; "": none */
    char link[AS_RUNTIME_PATH_MAX], folder[AS_RUNTIME_PATH_MAX], cwd[4096];
    char *code_dir;           /* folder of the copies of code */
    struct as_buf gpus, cpus; /* lists of numbers: "0,1" */
    int code;
};

static void send_heartbeat(struct controller *c)
{
    as_channel_send(c->channel, &(struct as_ctl_message){.type = AS_CTL_SERVING, .number = 1});
    as_timer_set(&c->heartbeat, as_loop_now(c->loop) + c->heartbeat_interval);
}

static void on_heartbeat(struct as_timer *t)
{
    struct controller *c = AS_CONTAINER(t, struct controller, heartbeat);

    if (c->channel && as_channel_is_idle(c->channel) &&
        as_ctl_unread(as_channel_fd(c->channel)) <= AS_CTL_UNREAD_MAX)
        send_heartbeat(c);
    else
        as_timer_set(t, as_loop_now(c->loop) + c->heartbeat_interval);
}

/* Refusals of the control API are counted with the other ones, in the dispatcher's metrics. At most
 * one message a second says how many there were. */
static void tell_refusals(struct controller *c)
{
    const struct as_edge_stat *s = as_edge_stat(c->edge);
    uint64_t all = as_counter_read(&s->other_users) + as_counter_read(&s->unauthenticated);

    if (all == c->refusals_told || !c->channel)
        return;
    as_channel_send(c->channel,
                    &(struct as_ctl_message){.type = AS_CTL_REFUSED,
                                             .number = (uint32_t)(all - c->refusals_told)});
    c->refusals_told = all;
    as_timer_set(&c->refusals, as_loop_now(c->loop) + AS_SEC);
}

static void on_refusals(struct as_timer *t)
{
    tell_refusals(AS_CONTAINER(t, struct controller, refusals));
}

static void on_refused(void *ctx)
{
    struct controller *c = ctx;

    if (c->refusals.at == AS_NEVER)
        tell_refusals(c);
}

static void send_message(void *ctx, const struct as_ctl_message *m)
{
    struct controller *c = ctx;

    as_failpoint_at("say", m->type);
    as_channel_send(c->channel, m);
    /* the first heartbeat is sent at once: without one the supervisor would not notice a hang that
     * begins now */
    if (m->type == AS_CTL_SERVING && c->heartbeat_interval)
        send_heartbeat(c);
    as_failpoint_at("said", m->type);
}

static int load_generation(void *ctx, uint64_t generation, struct as_spec **ret_s)
{
    return as_control_api_load(&((struct controller *)ctx)->control_api, generation, ret_s);
}

static int64_t find_scale(void *ctx, uint64_t generation, struct as_str deployment)
{
    return as_control_api_find_scale(&((struct controller *)ctx)->control_api, generation,
                                     deployment);
}

static void on_settled(void *ctx, const struct as_reconciler_outcome *n)
{
    as_control_api_on_healthy(&((struct controller *)ctx)->control_api, n);
}

static void on_rolled_back(void *ctx, const struct as_reconciler_outcome *n)
{
    as_control_api_on_rolled_back(&((struct controller *)ctx)->control_api, n);
}

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    struct controller *c = ctx;

    as_failpoint_at("hear", m->type);
    if (m->type == AS_CTL_DRAIN)
        as_loop_stop(c->loop);
    else
        as_reconciler_handle(c->reconciler, m);
    as_confirm_handle(&c->control_api.confirm, m);
    as_failpoint_at("heard", m->type);
}

/* The supervisor has ended or hangs. Nothing is lost with this process: the supervisor starts
 * another controller. */
static void on_end(void *ctx)
{
    struct controller *c = ctx;

    c->channel = NULL;
    c->code = AS_EXIT_CODE_FAILED;
    as_loop_stop(c->loop);
}

/* With pread: the offset of the descriptor is shared with earlier controllers, which have read it.
 */
static int read_app(struct controller *c, int fd, struct as_buf *err)
{
    struct as_buf text = {0};
    char part[16384];
    ssize_t n;
    int rc = 0;

    while ((n = pread(fd, part, sizeof(part), (off_t)text.n)) > 0)
        as_buf_add(&text, part, (size_t)n);
    if (n < 0) {
        as_buf_str(err, strerror(errno));
        rc = AS_EIO;
    } else if (text.n) {
        rc = as_declared_parse(&c->app, as_buf_slice(&text), NULL, NULL, err);
    }
    as_buf_fini(&text);
    return rc;
}

/* The default is twice the CPUs that this process may use: starting an interpreter is CPU work,
 * and more starts at once would only delay all of them. */
static uint32_t max_starting(const struct as_option_set *o)
{
    uint32_t given = (uint32_t)as_option_u64(o, AS_OPT_MAX_STARTING);

    return given ? given : 2 * as_cpu_limit("");
}

/* How many threads numerical libraries are to start in a worker. They start one for each CPU of the
 * affinity mask, and do not see a quota of the control group; when it is used up, all of them wait.
 * 0: there is no such quota, or the server's environment says how many. */
static uint32_t numerical_threads(void)
{
    uint32_t n = as_cpu_limit("");

    return n < as_cpu_limit_affinity(0) && !getenv("OMP_NUM_THREADS") ? n : 0;
}

/* The default of a key in whole seconds. */
static as_ns spec_default(enum as_spec_key key)
{
    return strtoull(as_spec_rows[key].def, NULL, 10) * AS_SEC;
}

/* The command line's policy; the keys of a deployment override it (conf/spec/spec_plan.h). */
static struct as_plan_policy policy(const struct as_option_set *o)
{
    as_ns start_timeout = as_option_ns(o, AS_OPT_START_TIMEOUT);

    return (struct as_plan_policy){
        .restart = {.base = as_option_ns(o, AS_OPT_RESTART_BACKOFF),
                    .max = as_option_ns(o, AS_OPT_RESTART_BACKOFF_MAX),
                    .healthy = as_option_ns(o, AS_OPT_RESTART_HEALTHY_AFTER),
                    .give_up = (uint32_t)as_option_u64(o, AS_OPT_MAX_START_FAILURES)},
        .start_timeout = start_timeout,
        .configure_timeout = start_timeout,
        .drain_timeout = spec_default(AS_SPEC_DEPLOYMENT_SHUTDOWN_TIMEOUT),
        .drain_interval = AS_SEC,
        .stop_timeout = as_option_ns(o, AS_OPT_STOP_TIMEOUT),
        .min_ready = as_option_ns(o, AS_OPT_UPDATE_MIN_READY),
        .roll_percent = 100,
        .roll_failures = (uint32_t)as_option_u64(o, AS_OPT_UPDATE_FAILURES),
        .roll_back = as_option_bool(o, AS_OPT_UPDATE_ROLLBACK)};
}

static void on_change(void *ctx)
{
    struct controller *c = ctx;

    as_control_api_sweep_code(&c->control_api);
    as_control_events_changed(c->control_api.control.events);
}

/* Lists the GPUs and CPUs that replicas can be given. */
static void find_devices(struct controller *c)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char path[64];
    cpu_set_t cpus;

    for (uint32_t i = 0; !visible && i < 64; i++) {
        snprintf(path, sizeof(path), "/dev/nvidia%u", i);
        if (access(path, F_OK) == 0)
            as_buf_printf(&c->gpus, "%s%u", c->gpus.n ? "," : "", i);
    }
    as_buf_str(&c->gpus, visible ? visible : "");
    if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
        CPU_ZERO(&cpus);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &cpus))
            as_buf_printf(&c->cpus, "%s%u", c->cpus.n ? "," : "", i);
    }
}

static struct as_reconciler_conf reconciler_conf(struct controller *c,
                                                 const struct as_option_set *o)
{
    struct as_reconciler_conf conf = {
        .worker_spec = {.python = as_option_str(o, AS_OPT_PYTHON),
                        .spares = (uint32_t)as_option_u64(o, AS_OPT_WARM_SPARES),
                        .link = c->link,
                        .code = c->code_dir,
                        .cwd = c->cwd,
                        .debug_errors = as_option_bool(o, AS_OPT_DEBUG_ERRORS),
                        .stream_inputs = (uint32_t)as_option_u64(o, AS_OPT_STREAM_INPUTS),
                        .stream_input_bytes = as_option_u64(o, AS_OPT_STREAM_INPUT_BYTES),
                        .batch = as_option_u64(o, AS_OPT_WORKER_SCHEDULING) == 0,
                        .numerical_threads = numerical_threads()},
        .folder = c->folder,
        .gpus = as_buf_cstr(&c->gpus),
        .cpus = as_buf_cstr(&c->cpus),
        .memory = as_memory_limit(""),
        .load_interval = as_option_ns(o, AS_OPT_LOAD_INTERVAL),
        .scaling_timeout = as_option_ns(o, AS_OPT_SCALING_TIMEOUT),
        .scaling_interval = as_option_ns(o, AS_OPT_SCALING_INTERVAL),
        .max_starting = max_starting(o),
        .policy = policy(o),
        .tolerate_failures = as_option_str(o, AS_OPT_STATE_DIR)[0] != 0,
        .on_change = on_change,
        .ctx = c};

    as_random_bytes(&conf.seed, sizeof(conf.seed));
    return conf;
}

/* The supervisor has checked the file, but it may have changed since, before this process was
 * started again. */
static void read_token(struct controller *c, const struct as_option_set *o)
{
    const char *file = as_option_str(o, AS_OPT_CONTROL_TOKEN_FILE);
    struct as_buf err = {0};
    uint16_t port;

    if (file[0] && as_token_read(file, c->token, &err) < 0)
        as_log_event(&c->log, AS_LOG_ERROR, "no_control_token",
                     "reason=\"%.*s\" action=\"requests over TCP are refused\"",
                     AS_STR_FMT(as_buf_slice(&err)));
    as_buf_fini(&err);
    if (as_listen_parse_address(as_option_str(o, AS_OPT_CONTROL), c->host, &port) < 0)
        c->host[0] = 0;
}

/* A failure ends the process: without the control API nobody could change what is served, and a new
 * controller may succeed. */
static void open_control_api(struct controller *c, const struct as_option_set *o,
                             const struct as_controller_fds *fds)
{
    struct as_control_events_conf events = {.heartbeat = as_option_ns(o, AS_OPT_EVENT_HEARTBEAT),
                                            .max_unsent = as_option_u64(o, AS_OPT_MAX_EVENT_BYTES)};
    struct as_edge_conf conf = as_conf_control(o);

    as_control_events_new(&c->control_api.control.events, c->loop, &c->control_api.control, &events,
                          &c->log);
    conf.api = &c->control_api.control;
    read_token(c, o);
    conf.token = c->token[0] ? c->token : NULL;
    conf.host = c->host;
    conf.on_refused = on_refused;
    conf.refused_ctx = c;
    c->budgets.requests.limit =
        conf.max_http_body * conf.max_requests + UPLOADS_AT_ONCE * conf.max_pickle;
    c->budgets.answers.limit = ANSWERS_MOST;
    c->budgets.requests.share = c->budgets.answers.share = 100;
    if (as_edge_new(&c->edge, c->loop, NULL, &conf, &c->budgets, &c->log) < 0)
        as_fatal_system("the control API", errno);
    for (uint32_t i = 0; i < fds->n_api; i++) {
        if (as_edge_listen(c->edge, fds->api[i], false) < 0)
            as_fatal_system("a listener for the control API", errno);
        close(fds->api[i]);
    }
}

/* The paths that workers are given: the link socket, the runtime folder, the copies of code. */
static void find_paths(struct controller *c, const struct as_option_set *o)
{
    AS_ASSERT(as_runtime_path(c->link, as_option_str(o, AS_OPT_RUNTIME_DIR),
                              (uint16_t)as_option_u64(o, AS_OPT_PORT), AS_RUNTIME_LINK) == 0);
    memcpy(c->folder, c->link, sizeof(c->folder));
    c->folder[strlen(c->folder) - strlen("/" AS_RUNTIME_LINK)] = 0;
    if (!getcwd(c->cwd, sizeof(c->cwd)))
        c->cwd[0] = 0;
    c->code_dir = as_str_format("%s/" AS_CODE_STORE_FOLDER, as_option_str(o, AS_OPT_STATE_DIR)[0]
                                                                ? as_option_str(o, AS_OPT_STATE_DIR)
                                                                : c->folder);
    find_devices(c);
}

static void serve(struct controller *c, const struct as_option_set *o,
                  const struct as_controller_fds *fds)
{
    static const struct as_reconciler_ops ops = {send_message, load_generation, find_scale,
                                                 on_settled, on_rolled_back};
    struct as_reconciler_conf conf;
    struct as_reload *reload;

    find_paths(c, o);
    if (as_option_ns(o, AS_OPT_HEARTBEAT_TIMEOUT))
        c->heartbeat_interval = as_heartbeat_interval(as_option_ns(o, AS_OPT_HEARTBEAT_TIMEOUT));
    as_timer_init(&c->heartbeat, c->loop, on_heartbeat);
    as_timer_init(&c->refusals, c->loop, on_refusals);
    conf = reconciler_conf(c, o);
    as_reconciler_new(&c->reconciler, c->loop, &conf, &ops, c, &c->log);
    if (as_control_api_open(&c->control_api, o, &c->app, c->reconciler, c->loop, &c->log) < 0)
        _exit(AS_EXIT_CODE_FAILED); /* it was logged; the next controller may succeed */
    open_control_api(c, o, fds);
    reload = as_reload_new(c->loop, o, &c->control_api, &c->app, c->console.fd, &c->log);
    as_loop_run(c->loop);
    as_reload_close(reload);
    as_timer_close(&c->heartbeat, NULL);
    as_timer_close(&c->refusals, NULL);
    as_edge_stop(c->edge);
    as_edge_close(c->edge);
    as_control_events_close(c->control_api.control.events);
    as_control_api_close(&c->control_api);
    as_reconciler_close(c->reconciler);
}

int as_controller_main(const struct as_option_set *opts, const struct as_controller_fds *fds)
{
    static const struct as_channel_ops ops = {on_message, on_end};
    struct controller c = {.code = AS_EXIT_CODE_OK};
    struct as_buf err = {0};

    as_conf_limit_core_dumps(opts);
    c.console = (struct as_console_shared){fds->log, "controller", &c.journal, 0};
    c.log =
        as_console_shared_log(&c.console, (enum as_log_level)as_option_u64(opts, AS_OPT_LOG_LEVEL));
    if (as_journal_open(&c.journal, as_option_str(opts, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(opts, AS_OPT_PORT), c.console.name,
                        as_option_u64(opts, AS_OPT_LOG_KEEP), 0) < 0)
        as_log_event(&c.log, AS_LOG_WARN, "no_journal", "reason=\"%s\"", strerror(errno));
    signal(SIGINT, SIG_IGN); /* the supervisor handles Ctrl-C and sends DRAIN */
    if (read_app(&c, fds->app, &err) < 0 || as_loop_new(&c.loop, 0) < 0 ||
        as_channel_attach(&c.channel, c.loop, fds->control, &ops, &c) < 0) {
        as_log_event(&c.log, AS_LOG_ERROR, "controller_failed", "reason=\"cannot set up: %.*s\"",
                     AS_STR_FMT(as_buf_slice(&err)));
        _exit(AS_EXIT_CODE_SYSTEM); /* without cleaning up: only some parts exist */
    }
    close(fds->app);
    as_buf_fini(&err);
    serve(&c, opts, fds);
    as_channel_close(c.channel);
    as_loop_free(c.loop);
    as_edge_free(c.edge);
    as_control_events_free(c.control_api.control.events);
    as_reconciler_free(c.reconciler);
    as_declared_fini(&c.app);
    free(c.code_dir);
    as_buf_fini(&c.gpus);
    as_buf_fini(&c.cpus);
    as_journal_close(&c.journal);
    return c.code;
}
