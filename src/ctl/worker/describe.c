#include "ctl/worker/describe.h"

#include "conf/exit_code.h"
#include "conf/option.h"
#include "io/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* from SIGABRT to SIGKILL: the child prints its stacks in between */
#define STACKS_WAIT (2 * AS_SEC)

#define PROBE_TIMEOUT_MS 10000 /* for an interpreter that imports nothing */

static void print_line(void *ctx, struct as_str line)
{
    (void)ctx;
    fprintf(stderr, "%.*s\n", AS_STR_FMT(line));
}

/* How far a child that takes too long was signalled. */
enum stop_stage { NOT_SIGNALLED, ABORTED, KILLED };

/* SIGABRT first: the worker program then prints what its threads are doing. */
static void signal_child(struct as_proc *p, enum stop_stage *state, as_ns *deadline)
{
    *state = *state == NOT_SIGNALLED ? ABORTED : KILLED;
    as_proc_signal(p, *state == ABORTED ? SIGABRT : SIGKILL);
    *deadline = *state == ABORTED ? *deadline + STACKS_WAIT : AS_NEVER;
}

static as_ns clock_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}

/* For poll. Rounded up: else the loop would spin through the last fraction of a millisecond. */
static int ms_until(as_ns deadline)
{
    as_ns now = clock_now();

    if (deadline == AS_NEVER)
        return -1;
    return deadline <= now ? 0 : (int)AS_MIN((deadline - now + AS_MS - 1) / AS_MS, (as_ns)INT_MAX);
}

/* Reads until the child has ended (0), or a signal came, which is returned. The pidfd tells the
 * end, not the pipe: a forked process may hold the pipe open. */
static int wait_for_child(struct as_proc *p, int out, int signal_fd, as_ns timeout,
                          struct as_buf *text, enum stop_stage *state)
{
    as_ns deadline = timeout ? clock_now() + timeout : AS_NEVER;
    struct pollfd pfd[] = {{.fd = out, .events = POLLIN},
                           {.fd = p->pidfd, .events = POLLIN},
                           {.fd = signal_fd, .events = POLLIN}};

    for (;;) {
        struct signalfd_siginfo si;
        ssize_t n;
        int n_ready = poll(pfd, AS_COUNT(pfd), ms_until(deadline));

        if (n_ready == 0 && clock_now() >= deadline)
            signal_child(p, state, &deadline);
        if (n_ready <= 0)
            continue;
        if (pfd[0].revents) {
            n = read(out, as_buf_reserve(text, 4096), 4096);
            if (n > 0)
                text->n += (size_t)n;
            else if (n == 0)
                pfd[0].fd = -1;
            /* a module that prints without end; its death is reported */
            if (text->n > AS_DECLARED_BYTES_MAX) {
                as_proc_signal(p, SIGKILL);
                pfd[0].fd = -1; /* processes that left its group may go on printing */
            }
        } else if (pfd[1].revents) {
            return 0;
        }
        /* Ctrl-C while a module loads for minutes: signals are blocked, and there is no loop yet
         * that reads them */
        if (pfd[2].revents && read(signal_fd, &si, sizeof(si)) == sizeof(si) &&
            si.ssi_signo != SIGCHLD) {
            as_proc_signal(p, SIGKILL);
            return (int)si.ssi_signo;
        }
    }
}

bool as_describe_find_shadowing(const char *dir, struct as_buf *out)
{
    static const char *const names[] = {"anyserve",  "collections", "contextlib", "functools",
                                        "importlib", "keyword",     "operator",   "reprlib",
                                        "types",     "warnings"};
    static const char *const ends[] = {".py", "/__init__.py"};
    const char *folder = dir && dir[0] ? dir : ".";
    size_t skip = dir && dir[0] ? 0 : 2; /* "./" */

    for (size_t i = 0; i < AS_COUNT(names) * AS_COUNT(ends); i++) {
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s%s", folder, names[i / AS_COUNT(ends)],
                 ends[i % AS_COUNT(ends)]);
        if (access(path, F_OK) < 0)
            continue;
        as_buf_printf(out,
                      "%s is loaded in the place of a module of that name, which a worker needs: "
                      "rename it.",
                      path + skip);
        return true;
    }
    return false;
}

enum package_state { INSTALLED, NOT_INSTALLED, NO_PYTHON };

/* Asks the interpreter whether the package can be imported. */
static enum package_state find_package(const struct as_describe_source *source)
{
    static const char question[] = "import importlib.util, sys; sys.exit(3 + "
                                   "(importlib.util.find_spec('anyserve') is None))";
    const char *argv[] = {source->python, "-c", question, NULL};
    struct as_proc_spec spec = {.path = source->python,
                                .argv = argv,
                                .env = source->env,
                                .dir = source->dir,
                                .in = -1,
                                .group = true,
                                .death_signal = SIGKILL};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), e, status = -1;
    struct pollfd pfd = {.events = POLLIN};
    struct as_proc p;

    spec.out = spec.err = null;
    if (null >= 0 && as_proc_spawn(&p, &spec, &e) == 0) {
        pfd.fd = p.pidfd;
        if (poll(&pfd, 1, PROBE_TIMEOUT_MS) <= 0)
            as_proc_signal(&p, SIGKILL);
        status = as_proc_wait(&p);
    }
    if (null >= 0)
        close(null);
    if (status < 0 || !WIFEXITED(status))
        return NO_PYTHON;
    return WEXITSTATUS(status) == 3   ? INSTALLED
           : WEXITSTATUS(status) == 4 ? NOT_INSTALLED
                                      : NO_PYTHON;
}

/* After an exit code of its own the worker program has written the reason. For any other end writes
 * to `err` what happened, and what the likely cause is. */
static int report_exit(const struct as_describe_source *source, int status, enum stop_stage state,
                       struct as_buf *err)
{
    const char *python = source->python;
    char how[48];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    if (state != NOT_SIGNALLED) {
        as_buf_printf(err, "'%s' had not described its code within %g s (--%s)%s", source->target,
                      (double)source->timeout / (double)AS_SEC, as_option_key(AS_OPT_START_TIMEOUT),
                      state == ABORTED
                          ? "; the stacks of its threads are above, if it could print them"
                          : "");
        return AS_EXIT_CODE_RAISED;
    }
    if (as_exit_code_fatal(code))
        return code;
    if (as_describe_find_shadowing(source->dir, err))
        return AS_EXIT_CODE_INTERPRETER;
    as_buf_printf(err, "%s could not run the worker program (%s).\n", python,
                  as_proc_describe(status, how));
    switch (find_package(source)) {
    case INSTALLED:
        as_buf_str(err, "The package is installed there; its output, if any, is above.");
        break;
    case NOT_INSTALLED:
        as_buf_printf(err,
                      "The package is not installed there:  %s -m pip install anyserve\n"
                      "Or choose another interpreter with --python PATH.",
                      python);
        break;
    case NO_PYTHON:
        as_buf_str(err, "It is not a Python interpreter. Choose one with --python PATH.");
        break;
    }
    return code == AS_EXIT_CODE_USAGE ? AS_EXIT_CODE_CONFIG : AS_EXIT_CODE_INTERPRETER;
}

int as_describe_run(struct as_declared *ret_app, const struct as_describe_source *source,
                    int signal_fd, struct as_buf *err)
{
    const char *python = source->python;
    struct as_proc_spec spec = {.path = python,
                                .env = source->env,
                                .in = -1,
                                .err = -1,
                                .group = true,
                                .death_signal = SIGKILL};
    struct as_describe_command command;
    struct as_buf text = {0};
    struct as_proc p;
    enum stop_stage state = NOT_SIGNALLED;
    char cwd[PATH_MAX];
    int out[2], e, rc, sig, status;

    /* Python does not start without a working directory */
    if (!source->dir && !getcwd(cwd, sizeof(cwd)) && errno == ENOENT) {
        as_buf_str(err, "the current directory does not exist any more: it was deleted or "
                        "replaced. Change to it again (cd \"$PWD\"), or to another one");
        return AS_EXIT_CODE_CONFIG;
    }
    if (pipe2(out, O_CLOEXEC) < 0) {
        as_buf_printf(err, "cannot make a pipe: %s", strerror(errno));
        return AS_EXIT_CODE_FAILED;
    }
    spec.out = out[1];
    as_describe_command_init(&command, source);
    spec.argv = command.argv;
    spec.dir = command.dir;
    rc = as_proc_spawn(&p, &spec, &e);
    as_describe_command_fini(&command);
    /* our copy would keep the pipe open after the child's end */
    close(out[1]);
    if (rc < 0) {
        close(out[0]);
        if (source->dir && access(source->dir, X_OK) < 0) {
            as_buf_printf(err, "working_dir %s: %s", source->dir, strerror(errno));
            return AS_EXIT_CODE_CONFIG;
        }
        as_buf_printf(err, "cannot run the interpreter %s: %s\nChoose one with --python PATH.",
                      python, strerror(e));
        return AS_EXIT_CODE_INTERPRETER;
    }
    sig = wait_for_child(&p, out[0], signal_fd, source->timeout, &text, &state);
    status = as_proc_wait(&p);
    close(out[0]);
    if (sig)
        rc = AS_EXIT_CODE_SIGNAL + sig;
    else if (text.n > AS_DECLARED_BYTES_MAX || state != NOT_SIGNALLED || !WIFEXITED(status) ||
             WEXITSTATUS(status) != 0)
        rc = report_exit(source, status, state, err);
    else if (as_declared_parse(ret_app, as_buf_slice(&text), print_line, NULL, err) < 0) {
        as_buf_printf(err, " (interpreter: %s).\nChoose another one with --python PATH.", python);
        rc = AS_EXIT_CODE_INTERPRETER;
    }
    as_buf_fini(&text);
    return rc;
}
