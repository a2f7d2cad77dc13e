#include "app/server/run.h"

#include "app/client/print.h"
#include "app/controller/initial_state.h"
#include "app/options/argument.h"
#include "app/options/conf.h"
#include "app/server/early_dispatcher.h"
#include "app/server/plugin_check.h"
#include "app/server/ports.h"
#include "app/server/resume.h"
#include "conf/option/exit_code.h"
#include "conf/spec/spec.h"
#include "ctl/state/key_file.h"
#include "ctl/state/runtime_dir.h"
#include "ctl/state/token.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/worker/banner.h"
#include "ctl/worker/interpreter.h"
#include "io/process/cgroup.h"
#include "io/socket/listen.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define TARGET_MAX  4095u            /* bytes; the limit of an import_path */
#define ARGS_MAX    16384u           /* bytes; the limit of the key args */
#define FILES_LEAST 128u             /* open files: listeners, pipes and sockets of some workers */
#define DEBUG_START (86400 * AS_SEC) /* --start-timeout with --debug: its greatest value */

/* All that is set up before the supervisor's loop runs. If anything fails, the error is printed and
 * nothing is left behind. */
struct run {
    struct as_option_set *opts;
    const struct as_run_kind *kind; /* NULL: `run` */
    const char *target;             /* the argument of `run`, or NULL */
    struct as_buf summary;          /* of another kind: banner lines about what is served */
    struct as_interpreter python;
    struct as_runtime_dir dir;
    struct as_handover listeners;
    struct as_ports ports;
    struct as_notify notify;
    struct as_declared app;
    uint32_t *replicas; /* of each of its deployments */
    char *route;        /* of the application; NULL: none */
    struct as_early_dispatcher early;
    int signal_fd, end_fd; /* signalfds: all signals of a supervisor; those that end a server */
    int hold;              /* ret_hold of the kind; -1: none */
    char link[AS_RUNTIME_PATH_MAX], registry[AS_RUNTIME_PATH_MAX];
    char host[256], status_host[256]; /* --host and --status-host without brackets */
    char *workers;                    /* the folder of the workers' sockets */
};

static int listen_socket(struct run *r, const char *name, enum as_handover_kind kind,
                         struct as_buf *err)
{
    char path[AS_RUNTIME_PATH_MAX];
    uint16_t port = (uint16_t)as_option_u64(r->opts, AS_OPT_PORT);
    int fd, e;

    AS_ASSERT(as_runtime_path(path, r->dir.base, port, name) == 0);
    if (as_listen_unix(path, &fd, &e) < 0) {
        as_buf_printf(err, "cannot listen on %s: %s", path, strerror(e));
        return AS_EIO;
    }
    as_handover_add(&r->listeners, kind, fd);
    return 0;
}

/* After the ports: the folder has the name of the port that was bound. */
static int open_runtime(struct run *r, struct as_buf *err)
{
    char *base = as_runtime_base(as_option_str(r->opts, AS_OPT_RUNTIME_DIR));
    uint16_t port = (uint16_t)as_option_u64(r->opts, AS_OPT_PORT);
    int rc = as_runtime_dir_open(&r->dir, base, port, err);

    free(base);
    if (rc == AS_EEXISTS) {
        as_buf_str(err, "\n  Choose another --port or --runtime-dir.");
        return AS_EXIT_CODE_BUSY;
    }
    if (rc < 0)
        return AS_EXIT_CODE_CONFIG;
    as_option_set_str(r->opts, AS_OPT_RUNTIME_DIR, r->dir.base);
    if (as_runtime_dir_workers(&r->dir, as_option_str(r->opts, AS_OPT_WORKER_SOCKET_DIR),
                               &r->workers, err) < 0)
        return AS_EXIT_CODE_CONFIG;
    as_option_set_str(r->opts, AS_OPT_WORKER_SOCKET_DIR, r->workers);
    if (as_runtime_dir_write_token(&r->dir, err) < 0 ||
        listen_socket(r, AS_RUNTIME_LINK, AS_HANDOVER_LINK, err) < 0 ||
        listen_socket(r, AS_RUNTIME_STATUS, AS_HANDOVER_STATUS, err) < 0 ||
        listen_socket(r, AS_RUNTIME_MANAGE, AS_HANDOVER_MANAGEMENT, err) < 0 ||
        listen_socket(r, AS_RUNTIME_CONTROL, AS_HANDOVER_API, err) < 0)
        return AS_EXIT_CODE_FAILED;
    AS_ASSERT(as_runtime_path(r->link, r->dir.base, port, AS_RUNTIME_LINK) == 0);
    AS_ASSERT(as_runtime_path(r->registry, r->dir.base, port, AS_RUNTIME_MANAGE) == 0);
    return AS_EXIT_CODE_OK;
}

static const char *text_or_null(struct as_buf *b)
{
    return b->n ? as_buf_cstr(b) : NULL;
}

static void show_banner(struct run *r)
{
    const struct as_option_set *o = r->opts;
    struct as_banner v = {.version = AS_VERSION,
                          .target = r->target,
                          .summary = r->kind ? as_buf_cstr(&r->summary) : NULL,
                          .app = &r->app,
                          .replicas = r->replicas,
                          .route = r->route,
                          .host = as_option_str(o, AS_OPT_HOST),
                          .port = (uint16_t)as_option_u64(o, AS_OPT_PORT),
                          .grpc_port = (uint16_t)as_option_u64(o, AS_OPT_GRPC_PORT),
                          .status_host = as_option_str(o, AS_OPT_STATUS_HOST),
                          .status_port = (uint16_t)as_option_u64(o, AS_OPT_STATUS_PORT),
                          .tls = r->ports.tls.server.n != 0,
                          .status_tls = as_option_bool(o, AS_OPT_STATUS_TLS),
                          .more = text_or_null(&r->ports.more),
                          .python = r->python.path,
                          .python_why = r->python.why,
                          .link = r->link,
                          .registry = r->registry,
                          .management = text_or_null(&r->ports.management),
                          .control = text_or_null(&r->ports.control)};
    struct as_buf b = {0};

    as_banner_write(&b, &v);
    fprintf(stderr, "%.*s", AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

/* Writes what the code declares into a memfd, for this controller and later ones. Returns it, or
 * -1. */
static int write_app(const struct run *r, struct as_buf *err)
{
    struct as_buf text = {0};
    int fd = memfd_create("anyserve-app", MFD_CLOEXEC);
    bool ok;

    /* the rest is for --reload only; an earlier program could not read it after an upgrade back */
    if (as_option_bool(r->opts, AS_OPT_RELOAD))
        as_declared_write(&r->app, &text);
    else
        as_declared_write_deployments(&r->app, &text);
    ok = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n;
    as_buf_fini(&text);
    if (ok)
        return fd;
    as_buf_printf(err, "cannot store the description of the application: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int supervise(struct run *r, struct as_buf *err)
{
    struct as_supervisor_conf conf = {.opts = r->opts,
                                      .app = write_app(r, err),
                                      .target = r->target,
                                      .listeners = r->listeners,
                                      .notify = &r->notify,
                                      .signal_fd = r->signal_fd,
                                      .program = as_resume_find_program(),
                                      .save_state = as_resume_write_state,
                                      .upgraded = as_resume_write_outcome};
    struct as_resume resume = {r->kind ? "start" : "run", r->opts, &r->dir, &r->notify, r->hold};
    struct as_buf address = {0};
    int code;

    conf.ctx = &resume;
    if (conf.app < 0 || !conf.program) {
        free(conf.program);
        return AS_EXIT_CODE_SYSTEM;
    }
    if (r->python.path)
        as_option_set_str(r->opts, AS_OPT_PYTHON, r->python.path); /* the one that was chosen */
    as_buf_address(&address, as_option_str(r->opts, AS_OPT_HOST),
                   (uint16_t)as_option_u64(r->opts, AS_OPT_PORT), false);
    conf.address = as_buf_cstr(&address); /* valid until the supervisor returns */
    r->listeners.n = 0;                   /* the supervisor owns them now */
    code = as_supervisor_run(&conf);
    as_buf_fini(&address);
    free(conf.program);
    close(conf.app);
    return code;
}

/* Checks the deployments of the code as a whole; each one was checked when the code was described.
 */
static int check_options(struct run *r, struct as_buf *err)
{
    static const struct as_spec_limits limits = {.bytes = SIZE_MAX,
                                                 .depth = 1000,
                                                 .applications = UINT32_MAX,
                                                 .deployments = UINT32_MAX,
                                                 .errors = 10};
    struct as_spec *spec;

    if (as_initial_state_spec(&spec, r->opts, &limits, &r->app, err))
        return AS_EXIT_CODE_CONFIG;
    r->replicas = as_xalloc(r->app.n * sizeof(*r->replicas));
    for (uint32_t i = 0; i < r->app.n; i++)
        r->replicas[i] = as_initial_state_replicas(spec, r->app.deployments[i].name);
    if (as_initial_state_route(spec))
        r->route = as_str_dup(as_str_of(as_initial_state_route(spec)));
    as_spec_free(spec);
    return AS_EXIT_CODE_OK;
}

/* False: the options cannot be combined. */
static bool prepare_reload(const struct run *r, struct as_buf *err)
{
    if (!r->target)
        as_buf_str(err, "--reload needs a FILE or MODULE to serve");
    else if (as_option_u64(r->opts, AS_OPT_WARM_SPARES))
        as_buf_str(
            err, "--reload and --warm-spares cannot be combined: a spare has loaded the old code");
    /* Python would use the compiled code of an earlier file with the same size and modification
     * second */
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    return !err->n;
}

/* Checks the limit of open files for the supervisor and the workers; the dispatcher checks what its
 * clients need. */
static int check_files(struct as_buf *err)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_LEAST)
        return AS_EXIT_CODE_OK;
    files.rlim_cur = AS_MIN(files.rlim_max, (rlim_t)FILES_LEAST);
    if (setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= FILES_LEAST)
        return AS_EXIT_CODE_OK;
    as_buf_printf(err, "the limit of open files is %llu (ulimit -n); a server needs at least %u",
                  (unsigned long long)files.rlim_max, FILES_LEAST);
    return AS_EXIT_CODE_SYSTEM;
}

/* The address '[::1]' of an option becomes '::1', as the socket functions need it. `room` holds it
 * as long as the option. */
static void strip_brackets(struct as_option_set *opts, enum as_option_id id, char *room, size_t cap)
{
    const char *host = as_option_str(opts, id);
    size_t n = strlen(host);

    if (n < 3 || host[0] != '[' || host[n - 1] != ']' || n - 2 >= cap)
        return;
    memcpy(room, host + 1, n - 2);
    room[n - 2] = 0;
    as_option_set_str(opts, id, room);
}

/* For --debug: turns off the timeouts of requests. The timeouts of a shutdown become 0, unless
 * given, since a worker in a debugger would not end by itself. */
static void turn_off_timeouts(struct as_option_set *o)
{
    static const enum as_option_id off[] = {AS_OPT_EXECUTION_TIMEOUT, AS_OPT_REQUEST_TIMEOUT,
                                            AS_OPT_HEALTH_CHECK_PERIOD};
    static const enum as_option_id soon[] = {AS_OPT_DRAIN_TIMEOUT, AS_OPT_STOP_TIMEOUT};

    for (size_t i = 0; i < AS_COUNT(off); i++)
        as_option_set_i64(o, off[i], 0);
    for (size_t i = 0; i < AS_COUNT(soon); i++) {
        if (!o->v[soon[i]].given)
            as_option_set_i64(o, soon[i], 0);
    }
    as_option_set_i64(o, AS_OPT_START_TIMEOUT, (int64_t)DEBUG_START);
}

/* False: the options cannot be combined. */
static bool prepare_debug(const struct run *r, struct as_buf *err)
{
    uint64_t workers = as_option_u64(r->opts, AS_OPT_WORKERS);

    if (!r->target)
        as_buf_str(err, "--debug needs a FILE or MODULE to serve");
    else if (workers > 1)
        as_buf_printf(err,
                      "--debug has one replica, which uses your terminal: leave out --workers %lu",
                      (unsigned long)workers);
    else if (as_option_bool(r->opts, AS_OPT_RELOAD))
        as_buf_str(err,
                   "--debug and --reload cannot be combined: two replicas would use the terminal");
    else if (as_option_u64(r->opts, AS_OPT_WARM_SPARES))
        as_buf_str(err,
                   "--debug and --warm-spares cannot be combined: several processes would use the "
                   "terminal");
    if (err->n)
        return false;
    as_option_set_i64(r->opts, AS_OPT_WORKERS, 1);
    turn_off_timeouts(r->opts);
    setenv("ANYSERVE_DEBUG", "1", 1); /* for the worker program, also while it describes the code */
    return true;
}

static bool check_one_deployment(const struct run *r, struct as_buf *err)
{
    if (r->app.n == 1)
        return true;
    as_buf_printf(err, "--debug has one replica, but %s declares %u deployments: ", r->target,
                  r->app.n);
    for (uint32_t i = 0; i < r->app.n; i++)
        as_buf_printf(err, "%s%s", i ? ", " : "", r->app.deployments[i].name);
    return false;
}

/* Asks the code what it declares. */
static int describe(struct run *r, struct as_buf *err)
{
    bool debug = as_option_bool(r->opts, AS_OPT_DEBUG);
    struct as_buf arguments = {0};
    const char *env[3] = {0};
    uint32_t n = 0;
    int rc = as_argument_put_variable(r->opts, &arguments, err);

    if (debug)
        env[n++] = "PYTHONBREAKPOINT=0"; /* it has no terminal */
    if (arguments.n)
        env[n++] = as_buf_cstr(&arguments);
    if (rc == AS_EXIT_CODE_OK)
        rc = as_describe_run(
            &r->app,
            &(struct as_describe_source){.python = r->python.path,
                                         .target = r->target,
                                         .env = n ? env : NULL,
                                         .timeout = as_option_ns(r->opts, AS_OPT_START_TIMEOUT)},
            r->end_fd, err);
    if (rc == AS_EXIT_CODE_OK && debug && !check_one_deployment(r, err))
        rc = AS_EXIT_CODE_USAGE;
    as_buf_fini(&arguments);
    return rc;
}

/* Before anything listens; the dispatcher reads the file itself. */
static int check_keys(const struct as_option_set *opts, struct as_buf *err)
{
    const char *path = as_option_str(opts, AS_OPT_API_KEYS);
    struct as_key_table *t = NULL;
    int rc;

    if (!path[0]) {
        if (!as_option_bool(opts, AS_OPT_STATUS_KEYS))
            return AS_EXIT_CODE_OK;
        as_buf_printf(err, "--%s needs a file of keys: --%s FILE",
                      as_option_key(AS_OPT_STATUS_KEYS), as_option_key(AS_OPT_API_KEYS));
        return AS_EXIT_CODE_USAGE;
    }
    rc = as_key_file_load(path, (uint32_t)as_option_u64(opts, AS_OPT_MAX_API_KEYS), NULL, &t, err);
    as_key_table_unref(t);
    return rc ? AS_EXIT_CODE_CONFIG : AS_EXIT_CODE_OK;
}

static int set_up_and_supervise(struct run *r, struct as_buf *err)
{
    int rc, e;

    as_conf_limit_core_dumps(r->opts);
    unsetenv("ANYSERVE_DEBUG"); /* only prepare_debug may set it */

    if (r->target && strlen(r->target) > TARGET_MAX) {
        as_buf_printf(err, "the name of the file or module is longer than %u bytes", TARGET_MAX);
        return AS_EXIT_CODE_USAGE;
    }
    if ((as_option_bool(r->opts, AS_OPT_RELOAD) && !prepare_reload(r, err)) ||
        (as_option_bool(r->opts, AS_OPT_DEBUG) && !prepare_debug(r, err)))
        return AS_EXIT_CODE_USAGE;
    if (as_option_bool(r->opts, AS_OPT_AS_RAY))
        setenv("AS_RAY", "1", 1); /* for the worker program, also while it describes the code */
    strip_brackets(r->opts, AS_OPT_HOST, r->host, sizeof(r->host));
    strip_brackets(r->opts, AS_OPT_STATUS_HOST, r->status_host, sizeof(r->status_host));
    rc = check_files(err);
    if (rc == AS_EXIT_CODE_OK)
        rc = as_plugin_check(r->opts, err);
    if (rc == AS_EXIT_CODE_OK)
        rc = check_keys(r->opts, err);
    if (rc != AS_EXIT_CODE_OK)
        return rc;
    if (as_notify_init(&r->notify) < 0)
        fprintf(
            stderr,
            "anyserve: $NOTIFY_SOCKET is not the address of a socket; the service manager is not "
            "notified\n");
    if (as_notify_init_watchdog(&r->notify) < 0)
        fprintf(stderr,
                "anyserve: $WATCHDOG_USEC is not a time in microseconds, or $WATCHDOG_PID is "
                "not a number; the service manager gets no watchdog notifications\n");
    /* early, so that a signal that comes while a module loads does not kill the process */
    r->signal_fd = as_supervisor_signals();
    r->end_fd = r->signal_fd < 0 ? -1 : as_supervisor_end_signals();
    if (r->end_fd < 0) {
        as_buf_printf(err, "cannot watch for signals: %s", strerror(errno));
        return AS_EXIT_CODE_SYSTEM;
    }
    /* needs a control group with no other process; a failure is logged when a limit is needed */
    as_cgroup_delegate("", "memory", &e);
    /* also without a target: one may be deployed later */
    as_interpreter_choose(&r->python, as_option_str(r->opts, AS_OPT_PYTHON));
    as_interpreter_make_absolute(&r->python); /* applications may run in another folder */
    rc = as_ports_listen(&r->ports, r->opts, &r->listeners, err);
    if (rc == AS_EXIT_CODE_OK)
        rc = open_runtime(r, err);
    if (rc == AS_EXIT_CODE_OK && r->opts->n_args) /* there is code to describe */
        as_early_dispatcher_start(&r->early, r->opts, &r->listeners);
    if (rc == AS_EXIT_CODE_OK && r->target)
        rc = describe(r, err);
    if (rc == AS_EXIT_CODE_OK && r->target)
        rc = check_options(r, err);
    if (rc == AS_EXIT_CODE_OK && r->kind)
        rc = r->kind->prepare(r->opts, r->python.path, r->end_fd, &r->hold, &r->summary, err);
    if (rc == AS_EXIT_CODE_OK) {
        show_banner(r);
        as_early_dispatcher_yield(&r->early);
        rc = supervise(r, err);
    }
    return rc;
}

int as_run_server(struct as_option_set *opts, const struct as_run_kind *kind)
{
    struct run r = {.opts = opts,
                    .kind = kind,
                    .target = !kind && opts->n_args ? opts->args[0] : NULL,
                    .dir = {.lock = -1},
                    .signal_fd = -1,
                    .end_fd = -1,
                    .hold = -1};
    struct as_buf err = {0};
    int rc;

    as_early_dispatcher_init(&r.early);
    as_fatal_set_cleanup(as_runtime_dir_on_fatal, &r.dir);
    rc = set_up_and_supervise(&r, &err);
    as_early_dispatcher_fini(&r.early);
    as_print_error(&err, rc); /* the supervisor's console does not exist any more */
    /* listeners that the supervisor did not take over */
    as_handover_close(&r.listeners);
    as_ports_remove_sockets(opts, r.ports.n_more);
    as_fatal_set_cleanup(NULL, NULL);
    as_runtime_dir_close(&r.dir);
    as_declared_fini(&r.app);
    free(r.replicas);
    free(r.route);
    as_interpreter_fini(&r.python);
    as_ports_fini(&r.ports);
    as_buf_fini(&r.summary);
    free(r.workers);
    if (r.signal_fd >= 0)
        close(r.signal_fd);
    if (r.end_fd >= 0)
        close(r.end_fd);
    if (r.hold >= 0)
        close(r.hold);
    return rc;
}

int as_run_main(struct as_option_set *opts)
{
    int code = opts->n_args ? as_argument_check_code("run", opts->args[0]) : AS_EXIT_CODE_OK;

    return code == AS_EXIT_CODE_OK ? as_run_server(opts, NULL) : code;
}
