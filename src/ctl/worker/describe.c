#include "ctl/worker/describe.h"

#include "conf/option/exit_code.h"
#include "ctl/supervise/memory_limit.h"
#include "ctl/supervise/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRINTED_MAX 32768u /* bytes of the code's output that are kept, the last ones */

struct as_describe_job {
    struct as_process *process;
    struct as_sock out;    /* a pipe: the description */
    struct as_buf text;    /* what came of it */
    struct as_buf printed; /* what the code printed; empty if it shares our stderr */
    char *python, *dir;    /* dir may be NULL */
    bool shares_stderr, timed_out;
    uint64_t oom_seen;
    struct as_timer timer;
    as_describe_done_fn *done; /* NULL: as_describe_stop was called */
    void *ctx;
};

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

/* --- while it runs --- */

static void on_interpreter_line(void *ctx, struct as_str line)
{
    struct as_describe_job *d = ctx;

    as_buf_add(&d->printed, line.p, line.n);
    as_buf_str(&d->printed, "\n");
    if (d->printed.n > PRINTED_MAX)
        as_buf_drop(&d->printed, d->printed.n - PRINTED_MAX);
}

/* A module that prints without end is killed. Processes that left its group may go on printing. */
static void read_text(struct as_describe_job *d)
{
    ssize_t n;

    while (d->text.n <= AS_DECLARED_BYTES_MAX) {
        n = read(d->out.fd, as_buf_reserve(&d->text, 16384), 16384);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            break;
        d->text.n += (size_t)n;
    }
    as_sock_watch(&d->out, 0);
    if (d->text.n > AS_DECLARED_BYTES_MAX && d->process)
        as_process_kill(d->process, AS_STR("its description is too long"));
}

static void on_text(struct as_sock *s, int events AS_UNUSED)
{
    read_text(AS_CONTAINER(s, struct as_describe_job, out));
}

static void on_timeout(struct as_timer *t)
{
    static const char why[] = "it did not load in time (--start-timeout)";
    struct as_describe_job *d = AS_CONTAINER(t, struct as_describe_job, timer);

    if (!d->process)
        return;
    d->timed_out = true;
    if (d->shares_stderr) /* the worker program prints what its threads are doing */
        as_process_abort(d->process, AS_STR(why));
    else
        as_process_kill(d->process, AS_STR(why));
}

/* --- its end --- */

static void free_job(struct as_timer *t)
{
    struct as_describe_job *d = AS_CONTAINER(t, struct as_describe_job, timer);

    as_buf_fini(&d->text);
    as_buf_fini(&d->printed);
    free(d->python);
    free(d->dir);
    free(d);
}

static void on_out_closed(struct as_sock *s)
{
    as_timer_close(&AS_CONTAINER(s, struct as_describe_job, out)->timer, free_job);
}

static void print_line(void *ctx AS_UNUSED, struct as_str line)
{
    fprintf(stderr, "%.*s\n", AS_STR_FMT(line));
}

static void on_interpreter_end(void *ctx, const struct as_process_end *e)
{
    struct as_describe_job *d = ctx;
    struct as_describe_end end = {.status = e->status, .timed_out = d->timed_out};
    struct as_declared app = {0};
    struct as_str how, last;
    struct as_buf why = {0};

    d->process = NULL;
    read_text(d);
    end.is_whole = !d->timed_out && d->text.n <= AS_DECLARED_BYTES_MAX && e->status == 0;
    as_output_split_report(e->reason, &how, &last);
    if (d->text.n > AS_DECLARED_BYTES_MAX)
        as_buf_printf(&why, "its description has more than %u bytes", AS_DECLARED_BYTES_MAX);
    else if (!end.is_whole)
        as_buf_printf(&why, "%s -m anyserve.worker: %.*s", d->python, AS_STR_FMT(how));
    else if (d->done && as_declared_parse(&app, as_buf_slice(&d->text),
                                          d->shares_stderr ? print_line : NULL, NULL, &why) == 0)
        end.app = &app;
    if (!end.app && !d->shares_stderr) {
        as_buf_str(&why, "\n");
        as_buf_add(&why, d->printed.p, d->printed.n);
        if (e->status && WIFEXITED(e->status) && !as_exit_code_fatal(WEXITSTATUS(e->status)))
            as_describe_find_shadowing(d->dir, &why);
    }
    end.why = as_buf_slice(&why);
    if (d->done)
        d->done(d->ctx, &end);
    as_buf_fini(&why);
    as_sock_close(&d->out, on_out_closed);
}

/* --- its start --- */

/* Pipes for what it prints: *ret_err -1: it shares our stderr. */
static int spawn_interpreter(const struct as_describe_source *source, struct as_proc *ret_p,
                             int *ret_out, int *ret_err, struct as_buf *err)
{
    struct as_describe_command command;
    struct as_proc_spec spec = {.path = source->python,
                                .env = source->env,
                                .in = -1,
                                .group = true,
                                .death_signal = SIGKILL};
    int out[2] = {-1, -1}, lines[2] = {-1, -1}, e, rc;

    if (pipe2(out, O_CLOEXEC) < 0 || (!source->shares_stderr && pipe2(lines, O_CLOEXEC) < 0)) {
        as_buf_printf(err, "cannot make a pipe: %s", strerror(errno));
        if (out[0] >= 0) {
            close(out[0]);
            close(out[1]);
        }
        return AS_EIO;
    }
    spec.out = out[1];
    spec.err = lines[1];
    as_describe_command_init(&command, source);
    spec.argv = command.argv;
    spec.dir = command.dir;
    rc = as_proc_spawn(ret_p, &spec, &e);
    as_describe_command_fini(&command);
    /* our copies would keep the pipes open after its end */
    close(out[1]);
    if (lines[1] >= 0)
        close(lines[1]);
    *ret_out = out[0];
    *ret_err = lines[0];
    if (rc == 0)
        return 0;
    close(out[0]);
    if (lines[0] >= 0)
        close(lines[0]);
    if (source->dir && access(source->dir, X_OK) < 0) {
        as_buf_printf(err, "working_dir %s: %s", source->dir, strerror(errno));
        return AS_EINVALID;
    }
    as_buf_printf(err, "cannot run the interpreter %s: %s", source->python, strerror(e));
    return AS_ENOTFOUND;
}

int as_describe_start(struct as_describe_job **ret_d, struct as_loop *loop,
                      const struct as_describe_source *source, as_describe_done_fn *done, void *ctx,
                      struct as_buf *err)
{
    static const struct as_process_ops ops = {on_interpreter_line, on_interpreter_end};
    struct as_describe_job *d;
    struct as_proc p;
    int out, lines, rc;

    rc = spawn_interpreter(source, &p, &out, &lines, err);
    if (rc < 0)
        return rc;
    d = as_xalloc(sizeof(*d));
    *d = (struct as_describe_job){.shares_stderr = source->shares_stderr,
                                  .oom_seen = as_memory_limit_oom_kills(""),
                                  .done = done,
                                  .ctx = ctx};
    d->python = as_str_dup(as_str_of(source->python));
    d->dir = source->dir ? as_str_dup(as_str_of(source->dir)) : NULL;
    as_timer_init(&d->timer, loop, on_timeout);
    rc = as_sock_open(&d->out, loop, out, on_text);
    if (rc < 0) {
        as_proc_signal(&p, SIGKILL);
        as_proc_wait(&p);
        if (lines >= 0)
            close(lines);
        as_timer_close(&d->timer, free_job);
    } else {
        rc = as_process_watch(&d->process, loop, &p, lines, &d->oom_seen, &ops, d);
        if (rc < 0)
            as_sock_close(&d->out, on_out_closed);
    }
    if (rc < 0) {
        as_buf_str(err, "no file descriptor left to watch the interpreter");
        return rc;
    }
    as_timer_set(&d->timer, source->timeout ? as_loop_now(loop) + source->timeout : AS_NEVER);
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
