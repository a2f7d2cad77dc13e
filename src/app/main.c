/* app/main.c — the command line: which command, its options, its help. */

#include "app/client/control_client.h"
#include "app/client/print.h"
#include "app/command.h"
#include "app/commands/control_commands.h"
#include "app/commands/deploy_commands.h"
#include "app/commands/doctor.h"
#include "app/commands/file_commands.h"
#include "app/commands/history.h"
#include "app/commands/keys.h"
#include "app/commands/logs.h"
#include "app/commands/shutdown.h"
#include "app/commands/simulate.h"
#include "app/commands/status_commands.h"
#include "app/completion.h"
#include "app/controller/controller.h"
#include "app/dispatcher/dispatcher.h"
#include "app/hint.h"
#include "app/server/resume.h"
#include "app/server/run.h"
#include "app/server/start.h"
#include "base/suggest.h"
#include "conf/option/exit_code.h"
#include "ctl/state/failpoint.h"
#include "ctl/supervise/handover.h"
#include "ctl/supervise/memory_limit.h"
#include "io/loop/loop.h"
#include "io/process/server_processes.h"
#include "tool/bench/bench.h"
#include "tool/call/infer_command.h"
#include "tool/server/which_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define CONNECTIONS_MOST  16384 /* without --max-connections */
#define RESERVED_FILES    512   /* descriptors for workers, listeners, files */
#define FALLBACK_INFLIGHT ((int64_t)1 << 30)
#define INPUTS            (1 + AS_OPTION_ITEMS_MAX) /* a model and its inputs, limited by --input */
#define BYTES_PER_REQUEST                                                                          \
    16384u /* an open request takes less than half of it, beside its message */
#define REQUESTS_LEAST 4096u
#define REQUESTS_MOST  1048576u

/* stdout is for scripts; messages for people go to stderr. */
static int cmd_version(struct as_option_set *opts AS_UNUSED)
{
    printf("anyserve %s\n", AS_VERSION);
    return AS_EXIT_CODE_OK;
}

static int cmd_help(struct as_option_set *opts);
#ifdef AS_FAILPOINTS
static int cmd_failpoints(struct as_option_set *opts);
#endif
static int cmd_options(struct as_option_set *opts);
static int cmd_dispatcher(struct as_option_set *opts);
static int cmd_controller(struct as_option_set *opts);

const struct as_command as_commands[] = {
    {"run", "[TARGET [KEY=VALUE …]]",
     "serve the models of a Python file or module (file.py, module:app) and of workers that join; "
     "KEY=VALUE: for a function that builds the application",
     AS_SCOPE_RUN, 0, AS_OPTION_ARGS_MAX, false, as_run_main},
    {"start", "[FILE]",
     "serve a deployment file, or what was served last; `anyserve deploy` changes it while it runs",
     AS_SCOPE_START, 0, 1, false, as_start_main},
    {"status", "", "show the state of a running server", AS_SCOPE_STATUS, 0, 0, false,
     as_status_main},
    {"workers", "", "list the workers of a running server", AS_SCOPE_WORKERS, 0, 0, false,
     as_workers_main},
    {"deploy", "FILE", "apply a deployment file to a running server and wait until it is healthy",
     AS_SCOPE_DEPLOY, 1, 1, false, as_deploy_main},
    {"delete", "APPLICATION", "stop serving an application", AS_SCOPE_CHANGE, 1, 1, false,
     as_delete_main},
    {"config", "", "print the deployment file of what is served now", AS_SCOPE_READ, 0, 0, false,
     as_config_main},
    {"history", "", "list the generations: what changed when, by which command, and the outcome",
     AS_SCOPE_HISTORY, 0, 0, false, as_history_main},
    {"scale", "DEPLOYMENT [N]",
     "set the number of replicas of [APPLICATION/]DEPLOYMENT, until its file sets another one",
     AS_SCOPE_SCALE, 1, 2, false, as_scale_main},
    {"restart", "DEPLOYMENT", "replace every replica, one step at a time, as an update does",
     AS_SCOPE_CHANGE, 1, 1, false, as_restart_main},
    {"rollback", "DEPLOYMENT", "go back to the version that was healthy before", AS_SCOPE_CHANGE, 1,
     1, false, as_rollback_main},
    {"upgrade", "",
     "replace the running program with the one that is now at its path, without refusing a request",
     AS_SCOPE_UPGRADE, 0, 0, false, as_upgrade_main},
    {"reload", "",
     "make a running server read its certificates and API keys again, and say if they can be used",
     AS_SCOPE_UPGRADE, 0, 0, false, as_reload_main},
    {"logs", "[REPLICA]", "print the newest output of the processes of a server", AS_SCOPE_LOGS, 0,
     1, false, as_logs_main},
    {"shutdown", "", "end a running server after it has answered the requests that it holds",
     AS_SCOPE_SHUTDOWN, 0, 0, false, as_shutdown_main},
    {"doctor", "", "check this machine and the server that runs on it, and advise what to do",
     AS_SCOPE_DOCTOR, 0, 0, false, as_doctor_main},
    {"keys", "add|list|revoke [NAME]",
     "add an API key to a file and print it once, list the keys of the file, or revoke one",
     AS_SCOPE_KEYS, 1, 2, false, as_keys_main},
    {"check", "FILE", "read a deployment file and report its errors", AS_SCOPE_CHECK, 1, 1, false,
     as_check_main},
    {"build", "TARGET", "write the deployment file of a Python file or module", AS_SCOPE_BUILD, 1,
     1, false, as_build_main},
    {"schema", "", "print the JSON Schema of deployment files", 0, 0, 0, false, as_schema_main},
    {"infer", "MODEL [NAME=VALUE ...]", "call a model once and print the answer", AS_SCOPE_INFER, 1,
     INPUTS, false, as_infer_command_main},
    {"bench", "MODEL [NAME=VALUE ...]", "put load on a model and measure latency and throughput",
     AS_SCOPE_BENCH, 1, INPUTS, false, as_bench_main},
    {"simulate", "FILE",
     "try a deployment of a file under virtual time: latencies, errors, replicas",
     AS_SCOPE_SIMULATE, 1, 1, false, as_simulate_main},
    {"completion", "SHELL", "print the completion script for bash, zsh or fish", 0, 1, 1, false,
     as_completion_main},
    {"complete", "WHAT", "print names for the completion script", AS_SCOPE_READ, 1, 1, true,
     as_complete_main},
    {"version", "", "print the version", 0, 0, 0, false, cmd_version},
    {"help", "[COMMAND]", "explain a command", 0, 0, 1, false, cmd_help},
    {"options", "", "print the documentation page of all options", 0, 0, 0, true, cmd_options},
    {"deployment-page", "", "print the documentation page of deployment files", 0, 0, 0, true,
     as_page_main},
#ifdef AS_FAILPOINTS
    {"failpoints", "", "list the points at which this build can kill the controller", 0, 0, 0, true,
     cmd_failpoints},
#endif
    {"resume", "FD [check]", "take over from an earlier supervisor (by `upgrade`)", 0, 1, 2, true,
     as_resume_main},
    {"dispatcher", "", "serve with inherited descriptors (started by `run` and `start`)",
     AS_SCOPE_DISPATCHER, 0, 0, true, cmd_dispatcher},
    {"controller", "[TARGET]", "decide about replicas (started by `run` and `start`)",
     AS_SCOPE_CONTROLLER, 0, 1, true, cmd_controller},
};

const uint32_t as_commands_n = AS_COUNT(as_commands);

/* The option of which further arguments, after the required ones, are values; NULL: none. */
static const char *repeated_option(const struct as_command *c)
{
    switch (c->scope) {
    case AS_SCOPE_LOGS:
        return "replica";
    case AS_SCOPE_INFER:
    case AS_SCOPE_BENCH:
        return "input";
    default:
        return NULL;
    }
}

static const struct as_command *find_command(const char *name)
{
    for (size_t i = 0; i < AS_COUNT(as_commands); i++) {
        if (strcmp(as_commands[i].name, name) == 0)
            return &as_commands[i];
    }
    return NULL;
}

static int print_unknown_command(const char *name)
{
    struct as_suggest near = {.key = as_str_of(name)};
    struct as_buf hint = {0};
    struct as_str best;

    for (size_t i = 0; i < AS_COUNT(as_commands); i++) {
        if (!as_commands[i].hidden)
            as_suggest_offer(&near, as_str_of(as_commands[i].name));
    }
    best = as_suggest_best(&near);
    if (as_hint_write(name, &hint))
        fprintf(stderr, "anyserve: no command '%s'; use instead:%.*s\n", name,
                AS_STR_FMT(as_buf_slice(&hint)));
    else
        fprintf(stderr, "anyserve: no command '%s'%s%.*s%s\n", name,
                best.n ? "; did you mean '" : "", AS_STR_FMT(best), best.n ? "'?" : "");
    fprintf(stderr, "Try: anyserve help\n");
    as_buf_fini(&hint);
    return AS_EXIT_CODE_USAGE;
}

static void help_all(struct as_buf *b)
{
    as_buf_printf(b,
                  "AnyServe %s: serves models over gRPC and HTTP (KServe v2)\n\n"
                  "usage: anyserve COMMAND [options]\n\n",
                  AS_VERSION);
    for (size_t i = 0; i < AS_COUNT(as_commands); i++) {
        if (!as_commands[i].hidden)
            as_buf_printf(b, "  %-10s %-14s %s\n", as_commands[i].name, as_commands[i].args,
                          as_commands[i].doc);
    }
    as_buf_str(b, "\nanyserve COMMAND --help shows the options of a command.\n\nexit codes:\n");
#define X(name, code, fatal, text) as_buf_printf(b, "  %-5d %s\n", code, text);
    AS_EXIT_CODE_TABLE(X)
#undef X
    as_buf_printf(b, "  %d+n a call ended with gRPC status n (infer, bench)\n",
                  AS_EXIT_CODE_STATUS);
    as_buf_str(b, "  128+n ended by signal n\n");
}

static void help_one(struct as_buf *b, const struct as_command *c, bool all)
{
    as_buf_printf(b, "usage: anyserve %s%s%s%s\n\n%s\n", c->name, c->scope ? " [options]" : "",
                  c->args[0] ? " " : "", c->args, c->doc);
    if (!c->scope)
        return;
    as_buf_str(b, "\n");
    /* these commands have few options */
    all = all || (c->scope & (AS_SCOPE_FIND | AS_SCOPE_CHECK | AS_SCOPE_BUILD | AS_SCOPE_KEYS));
    as_option_help(b, c->scope, all);
    if (!all)
        as_buf_str(b, "\n--help-all shows every option; `anyserve help` shows the exit codes.\n");
}

static int usage(const char *sentence)
{
    fprintf(stderr, "anyserve: %s\nTry: anyserve help\n", sentence);
    return AS_EXIT_CODE_USAGE;
}

static int cmd_help(struct as_option_set *opts)
{
    const struct as_command *c = opts->n_args ? find_command(opts->args[0]) : NULL;
    struct as_buf b = {0};

    if (opts->n_args && !c)
        return print_unknown_command(opts->args[0]);
    if (c)
        help_one(&b, c, opts->help_all);
    else
        help_all(&b);
    return as_print_result(&b);
}

static int cmd_options(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf b = {0};

    as_option_markdown(&b);
    return as_print_result(&b);
}

#ifdef AS_FAILPOINTS
static int cmd_failpoints(struct as_option_set *opts AS_UNUSED)
{
    struct as_buf b = {0};

    as_failpoint_list(&b);
    return as_print_result(&b);
}
#endif

/* Computes the limits that are 0 in the options from the machine's descriptors and memory. */
static void resolve_limits(struct as_option_set *o)
{
    struct rlimit files = {.rlim_cur = 1024, .rlim_max = 1024};
    uint64_t memory = as_memory_limit("");
    int64_t room;

    /* raise the soft limit, which is low for programs that use select(), to the hard limit, which
     * is what the administrator allows */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) < 0)
            getrlimit(RLIMIT_NOFILE, &files);
    }
    if (as_option_u64(o, AS_OPT_MAX_CONNECTIONS) == 0) {
        room = files.rlim_cur > (rlim_t)INT32_MAX ? INT32_MAX : (int64_t)files.rlim_cur;
        /* of a small limit clients get at least half */
        room = AS_MAX(room - RESERVED_FILES, room / 2);
        as_option_set_i64(o, AS_OPT_MAX_CONNECTIONS, AS_MIN(room, CONNECTIONS_MOST));
    }
    if (as_option_u64(o, AS_OPT_MAX_INFLIGHT_BYTES) == 0)
        as_option_set_i64(o, AS_OPT_MAX_INFLIGHT_BYTES,
                          memory ? (int64_t)AS_MIN(memory / 4, (uint64_t)1 << 50)
                                 : FALLBACK_INFLIGHT);
    if (as_option_u64(o, AS_OPT_MAX_ANSWER_BYTES) == 0)
        as_option_set_i64(o, AS_OPT_MAX_ANSWER_BYTES,
                          (int64_t)as_option_u64(o, AS_OPT_MAX_INFLIGHT_BYTES));
    if (as_option_u64(o, AS_OPT_MAX_REQUESTS) == 0)
        as_option_set_i64(
            o, AS_OPT_MAX_REQUESTS,
            (int64_t)AS_MIN(AS_MAX(as_option_u64(o, AS_OPT_MAX_INFLIGHT_BYTES) / BYTES_PER_REQUEST,
                                   (uint64_t)REQUESTS_LEAST),
                            (uint64_t)REQUESTS_MOST));
}

/* Where the inherited descriptors of one kind go. */
struct slot {
    int *fd;
    uint32_t *n, max; /* n NULL: there is one */
    enum as_handover_kind kind;
};

/* Sorts the descriptors of --fds by kind and makes them close-on-exec again. False: one is not open
 * or of another kind. */
static bool sort_fds(const struct as_option_set *opts, const struct slot *slots, size_t n_slots)
{
    struct as_handover h;

    if (as_handover_parse(&h, as_option_str(opts, AS_OPT_FDS)) < 0)
        return false;
    for (uint32_t i = 0; i < h.n; i++) {
        const struct slot *s = slots;

        while (s < slots + n_slots && (s->kind != h.kind[i] || (s->n && *s->n == s->max)))
            s++;
        /* fcntl fails, too, if it is not open */
        if (s == slots + n_slots || fcntl(h.fd[i], F_SETFD, FD_CLOEXEC) < 0)
            return false;
        s->fd[s->n ? (*s->n)++ : 0] = h.fd[i];
    }
    return true;
}

static void become_service(const char *name)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN); /* the log may go to a terminal whose background job we are */
    prctl(PR_SET_NAME, name);
}

static int cmd_dispatcher(struct as_option_set *opts)
{
    struct as_dispatcher_fds fds = {.link = -1, .control = -1, .log = STDERR_FILENO};
    const struct slot slots[] = {
        {fds.grpc, &fds.n_grpc, AS_DISPATCHER_LISTENERS, AS_HANDOVER_GRPC},
        {fds.grpc_tls, &fds.n_grpc_tls, AS_DISPATCHER_LISTENERS, AS_HANDOVER_GRPC_TLS},
        {fds.status, &fds.n_status, AS_DISPATCHER_LISTENERS, AS_HANDOVER_STATUS},
        {fds.status_tls, &fds.n_status_tls, AS_DISPATCHER_LISTENERS, AS_HANDOVER_STATUS_TLS},
        {fds.management, &fds.n_management, AS_DISPATCHER_LISTENERS, AS_HANDOVER_MANAGEMENT},
        {&fds.link, NULL, 0, AS_HANDOVER_LINK},
        {&fds.control, NULL, 0, AS_HANDOVER_CONTROL},
        {&fds.log, NULL, 0, AS_HANDOVER_LOG}};

    if (!sort_fds(opts, slots, AS_COUNT(slots)) || !(fds.n_grpc + fds.n_grpc_tls) || fds.link < 0 ||
        fds.control < 0)
        return usage("dispatcher is only started by `anyserve run` and `anyserve start`");
    become_service(AS_SERVER_PROCESSES_DISPATCHER);
    resolve_limits(opts);
    return as_dispatcher_main(opts, &fds);
}

static int cmd_controller(struct as_option_set *opts)
{
    struct as_controller_fds fds = {.app = -1, .control = -1, .log = STDERR_FILENO};
    const struct slot slots[] = {{fds.api, &fds.n_api, AS_CONTROLLER_LISTENERS, AS_HANDOVER_API},
                                 {&fds.app, NULL, 0, AS_HANDOVER_APP},
                                 {&fds.control, NULL, 0, AS_HANDOVER_CONTROL},
                                 {&fds.log, NULL, 0, AS_HANDOVER_LOG}};

    if (!sort_fds(opts, slots, AS_COUNT(slots)) || fds.app < 0 || fds.control < 0)
        return usage("controller is only started by `anyserve run` and `anyserve start`");
    become_service(AS_SERVER_PROCESSES_CONTROLLER);
    return as_controller_main(opts, &fds);
}

#define ABORT_WRITE_MS 1000 /* ms */

/* libuv aborts without a message when the system refuses it a descriptor or a watch; this handler
 * prints one. The process still dies by the signal, since the cause may be a bug. When the parent
 * sent SIGABRT (a service without heartbeats), the parent logs the reason. */
static void on_abort(int signum, siginfo_t *info, void *context AS_UNUSED)
{
    static const char text[] =
        "anyserve: aborted: a library was refused a resource by the system, or found a bug\n";

    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    /* when nobody reads stderr, the message is dropped after a second: the process must end */
    if ((info->si_code != SI_USER || info->si_pid != getppid()) && poll(&p, 1, ABORT_WRITE_MS) > 0)
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    as_fatal_run_cleanup(); /* allocates nothing: base/fatal.h */
    raise(signum);
}

static int run_command(const struct as_command *c, struct as_option_set *opts)
{
    char *kept = NULL;
    int code = AS_EXIT_CODE_OK;

    as_control_client_start_clock();
    if (c->scope & (AS_SCOPE_FIND | AS_SCOPE_IB))
        code = as_which_server_resolve(opts, c->hidden, &kept);
    if (code == AS_EXIT_CODE_OK)
        code = c->run(opts);
    free(kept);
    return code;
}

static int parse_and_run(const struct as_command *c, int argc, char *const *argv)
{
    struct as_option_set opts;
    struct as_buf text = {0};
    int rc;

    as_option_init(&opts, c->scope);
    opts.more = repeated_option(c);
    opts.more_from = c->min_args;
    rc = as_option_parse(&opts, argc, argv, &text);
    if (rc < 0) {
        fprintf(stderr, "anyserve %s: %.*s\nTry: anyserve %s --help\n", c->name,
                AS_STR_FMT(as_buf_slice(&text)), c->name);
        as_buf_fini(&text);
        return AS_EXIT_CODE_USAGE;
    }
    /* `help` handles --help-all itself */
    if (opts.help && c->run != cmd_help) {
        help_one(&text, c, opts.help_all);
        return as_print_result(&text);
    }
    as_buf_fini(&text);
    if (opts.n_args < c->min_args || opts.n_args + opts.n_more > c->max_args) {
        fprintf(stderr, "anyserve %s: %s\nusage: anyserve %s%s %s\n", c->name,
                opts.n_args < c->min_args ? "an argument is missing" : "too many arguments",
                c->name, c->scope ? " [options]" : "", c->args);
        return AS_EXIT_CODE_USAGE;
    }
    return run_command(c, &opts);
}

/* Opens /dev/null for each of the first three descriptors that is closed: a socket or file opened
 * later would get its number, and with it what is printed. Read-only, so that printing to a closed
 * stdout still fails. */
static void fill_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY); /* not close-on-exec: children need them, too */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";
    const struct as_command *c;
    int rc;

    fill_standard_fds();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    c = find_command(name);
    if (!c)
        return print_unknown_command(name);
    as_loop_set_allocator();
    sigaction(
        SIGABRT,
        &(struct sigaction){.sa_sigaction = on_abort, .sa_flags = (int)(SA_RESETHAND | SA_SIGINFO)},
        NULL);
    rc = parse_and_run(c, argc > 1 ? argc - 2 : 0, argv + 2);
    /* incomplete output is a failure, whichever write failed */
    return rc == AS_EXIT_CODE_OK && (fflush(stdout) || ferror(stdout)) ? AS_EXIT_CODE_FAILED : rc;
}
