/* Describes an application for a command that waits: until the description is there, or a signal.
 */
#include "conf/option/exit_code.h"
#include "conf/option/option.h"
#include "ctl/worker/describe.h"
#include "io/loop/sock.h"
#include "io/process/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_TIMEOUT_MS 10000 /* for an interpreter that imports nothing */

struct waiting {
    const struct as_describe_source *source;
    struct as_loop *loop;
    struct as_describe_job *job;
    struct as_sock signals;
    struct as_declared *app;
    struct as_buf *err;
    int code; /* the result: an exit code */
};

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
static int report_exit(const struct as_describe_source *source, const struct as_describe_end *end,
                       struct as_buf *err)
{
    const char *python = source->python;
    char how[48];
    int status = end->status, code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    if (end->timed_out) {
        as_buf_printf(err, "'%s' had not described its code within %g s (--%s)%s", source->target,
                      (double)source->timeout / (double)AS_SEC, as_option_key(AS_OPT_START_TIMEOUT),
                      WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                          ? ""
                          : "; the stacks of its threads are above, if it could print them");
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

/* --- waiting --- */

static void on_described(void *ctx, const struct as_describe_end *end)
{
    struct waiting *w = ctx;

    w->job = NULL;
    as_loop_stop(w->loop);
    if (end->app) {
        *w->app = *end->app;
        w->code = AS_EXIT_CODE_OK;
    } else if (end->is_whole) {
        as_buf_printf(w->err, "%.*s (interpreter: %s).\nChoose another one with --python PATH.",
                      AS_STR_FMT(end->why), w->source->python);
        w->code = AS_EXIT_CODE_INTERPRETER;
    } else {
        w->code = report_exit(w->source, end, w->err);
    }
}

/* Ctrl-C while a module loads for minutes: signals are blocked, and no other loop reads them. */
static void on_signal(struct as_sock *s, int events AS_UNUSED)
{
    struct waiting *w = AS_CONTAINER(s, struct waiting, signals);
    struct signalfd_siginfo si;

    if (!w->job || read(s->fd, &si, sizeof(si)) != sizeof(si) || si.ssi_signo == SIGCHLD)
        return;
    as_describe_stop(w->job);
    w->job = NULL;
    w->code = AS_EXIT_CODE_SIGNAL + (int)si.ssi_signo;
    as_loop_stop(w->loop);
}

/* An exit code for an interpreter that could not be started. */
static int start_failed(int rc, struct as_buf *err)
{
    if (rc == AS_EINVALID)
        return AS_EXIT_CODE_CONFIG;
    if (rc != AS_ENOTFOUND)
        return AS_EXIT_CODE_FAILED;
    as_buf_str(err, "\nChoose one with --python PATH.");
    return AS_EXIT_CODE_INTERPRETER;
}

/* Whether the current directory has been deleted. Python does not start without one. */
static bool is_cwd_gone(void)
{
    char cwd[PATH_MAX];

    return !getcwd(cwd, sizeof(cwd)) && errno == ENOENT;
}

int as_describe_run(struct as_declared *ret_app, const struct as_describe_source *source,
                    int signal_fd, struct as_buf *err)
{
    struct waiting w = {.source = source, .app = ret_app, .err = err};
    struct as_describe_source shared = *source;
    int fd, rc;

    if (!source->dir && is_cwd_gone()) {
        as_buf_str(err, "the current directory does not exist any more: it was deleted or "
                        "replaced. Change to it again (cd \"$PWD\"), or to another one");
        return AS_EXIT_CODE_CONFIG;
    }
    shared.shares_stderr = true;
    fd = fcntl(signal_fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || as_loop_new(&w.loop, 0) < 0) {
        as_buf_printf(err, "cannot wait for the interpreter: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return AS_EXIT_CODE_FAILED;
    }
    rc = as_sock_open(&w.signals, w.loop, fd, on_signal);
    if (rc == 0) {
        rc = as_describe_start(&w.job, w.loop, &shared, on_described, &w, err);
        if (rc == 0)
            as_loop_run(w.loop);
        as_sock_close(&w.signals, NULL);
    } else {
        as_buf_str(err, "no file descriptor left to watch the signals");
    }
    as_loop_free(w.loop);
    return rc == 0 ? w.code : start_failed(rc, err);
}
