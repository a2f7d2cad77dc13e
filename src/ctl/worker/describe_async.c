/* Describes an application beside a loop: the controller goes on meanwhile. */
#include "conf/exit_code.h"
#include "ctl/supervise/process.h"
#include "ctl/worker/describe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRINTED_MAX 32768u /* bytes of the code's output that are kept, the last ones */

struct as_describe_job {
    struct as_process *process;
    int out;            /* memfd: the description */
    char *python, *dir; /* dir may be NULL */
    struct as_buf printed;
    struct as_timer timer;
    as_describe_done_fn *done; /* NULL: as_describe_stop was called */
    void *ctx;
};

static void on_interpreter_line(void *ctx, struct as_str line)
{
    struct as_describe_job *d = ctx;

    as_buf_add(&d->printed, line.p, line.n);
    as_buf_str(&d->printed, "\n");
    if (d->printed.n > PRINTED_MAX)
        as_buf_drop(&d->printed, d->printed.n - PRINTED_MAX);
}

static void free_job(struct as_timer *t)
{
    struct as_describe_job *d = AS_CONTAINER(t, struct as_describe_job, timer);

    close(d->out);
    as_buf_fini(&d->printed);
    free(d->python);
    free(d->dir);
    free(d);
}

/* 0, or AS_E… with the reason in `why`. */
static int read_description(const struct as_describe_job *d, struct as_declared *ret_app,
                            struct as_buf *why)
{
    struct as_buf text = {0};
    char part[16384];
    ssize_t n = 0;
    int rc = AS_EINVALID;

    while (text.n <= AS_DECLARED_BYTES_MAX &&
           (n = pread(d->out, part, sizeof(part), (off_t)text.n)) > 0)
        as_buf_add(&text, part, (size_t)n);
    if (n < 0)
        as_buf_printf(why, "its description cannot be read: %s", strerror(errno));
    else if (text.n > AS_DECLARED_BYTES_MAX)
        as_buf_printf(why, "its description has more than %u bytes", AS_DECLARED_BYTES_MAX);
    else
        rc = as_declared_parse(ret_app, as_buf_slice(&text), NULL, NULL, why);
    as_buf_fini(&text);
    return rc;
}

static void on_interpreter_end(void *ctx, const struct as_process_end *e)
{
    struct as_describe_job *d = ctx;
    struct as_declared app = {0};
    struct as_str how, last;
    struct as_buf why = {0};
    int rc = AS_EINVALID;

    d->process = NULL;
    as_output_split_report(e->reason, &how, &last);
    if (d->done && WIFEXITED(e->status) && WEXITSTATUS(e->status) == 0)
        rc = read_description(d, &app, &why);
    else if (d->done)
        as_buf_printf(&why, "%s -m anyserve.worker: %.*s", d->python, AS_STR_FMT(how));
    if (d->done && rc < 0) {
        as_buf_str(&why, "\n");
        as_buf_add(&why, d->printed.p, d->printed.n);
        if (e->status && WIFEXITED(e->status) && !as_exit_code_fatal(WEXITSTATUS(e->status)))
            as_describe_find_shadowing(d->dir, &why);
    }
    if (d->done)
        d->done(d->ctx, rc == 0 ? &app : NULL, as_buf_slice(&why));
    as_buf_fini(&why);
    as_timer_close(&d->timer, free_job);
}

static void on_timeout(struct as_timer *t)
{
    struct as_describe_job *d = AS_CONTAINER(t, struct as_describe_job, timer);

    if (d->process)
        as_process_kill(d->process, AS_STR("it did not load in time (--start-timeout)"));
}

static int spawn_interpreter(struct as_describe_job *d, const struct as_describe_source *source,
                             struct as_proc *ret_p, int *ret_err, struct as_buf *err)
{
    struct as_describe_command command;
    struct as_proc_spec spec = {.path = source->python,
                                .env = source->env,
                                .in = -1,
                                .out = d->out,
                                .group = true,
                                .death_signal = SIGKILL};
    int pipe[2], e, rc;

    if (pipe2(pipe, O_CLOEXEC) < 0) {
        as_buf_printf(err, "cannot make a pipe: %s", strerror(errno));
        return AS_EIO;
    }
    spec.err = pipe[1];
    as_describe_command_init(&command, source);
    spec.argv = command.argv;
    spec.dir = command.dir;
    rc = as_proc_spawn(ret_p, &spec, &e);
    as_describe_command_fini(&command);
    close(pipe[1]);
    *ret_err = pipe[0];
    if (rc == 0)
        return 0;
    close(pipe[0]);
    if (source->dir && access(source->dir, X_OK) < 0)
        as_buf_printf(err, "working_dir %s: %s", source->dir, strerror(errno));
    else
        as_buf_printf(err, "cannot run the interpreter %s: %s", source->python, strerror(e));
    return AS_EIO;
}

int as_describe_start(struct as_describe_job **ret_d, struct as_loop *loop,
                      const struct as_describe_source *source, as_ns timeout, uint64_t *oom_seen,
                      as_describe_done_fn *done, void *ctx, struct as_buf *err)
{
    static const struct as_process_ops ops = {on_interpreter_line, on_interpreter_end};
    struct as_describe_job *d = as_xalloc(sizeof(*d));
    struct as_proc p;
    int pipe, rc = AS_EIO;

    as_timer_init(&d->timer, loop, on_timeout);
    as_buf_init(&d->printed);
    d->python = as_str_dup(as_str_of(source->python));
    d->dir = source->dir ? as_str_dup(as_str_of(source->dir)) : NULL;
    d->done = done;
    d->ctx = ctx;
    d->out = memfd_create("anyserve-describe", MFD_CLOEXEC);
    if (d->out < 0)
        as_buf_printf(err, "cannot make a memfd: %s", strerror(errno));
    else
        rc = spawn_interpreter(d, source, &p, &pipe, err);
    if (rc == 0) {
        rc = as_process_watch(&d->process, loop, &p, pipe, oom_seen, &ops, d);
        if (rc < 0)
            as_buf_str(err, "no file descriptor left to watch the interpreter");
    }
    if (rc < 0) {
        as_timer_close(&d->timer, free_job);
        return AS_EIO;
    }
    as_timer_set(&d->timer, as_loop_now(loop) + timeout);
    *ret_d = d;
    return 0;
}

void as_describe_stop(struct as_describe_job *d)
{
    if (!d)
        return;
    d->done = NULL;
    as_process_kill(d->process, AS_STR("its description is not needed any more"));
}
