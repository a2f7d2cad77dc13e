#include "ctl/describe.h"

#include "core/registry.h"
#include "ctl/exit_code.h"
#include "io/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Also for one that was only begun. */
void as_app_fini(struct as_app *app)
{
    for (uint32_t i = 0; i < app->n; i++) {
        for (uint32_t k = 0; k < app->deployments[i].n_models; k++)
            free(app->deployments[i].models[k]);
        free(app->deployments[i].models);
        free(app->deployments[i].name);
        free(app->deployments[i].options);
    }
    free(app->deployments);
    *app = (struct as_app){0};
}

/* The text comes from a program of ours, but run by an interpreter that the user chose: a module of
 * the same name, an older version. It is told as what was read. */
static int refuse(struct as_buf *err, const char *what, struct as_str name)
{
    as_buf_printf(err, "the worker described %s '%.*s'", what, AS_STR_FMT(name));
    return AS_EINVALID;
}

/* Order is kept: the banner's example calls the first. */
static int add_model(struct as_app_deployment *d, struct as_str model, struct as_buf *err)
{
    if (model.n == 0 || !memchr(model.p, ':', model.n))
        return refuse(err, "a model without a version:", model);
    if (d->n_models == AS_APP_MODELS_MAX)
        return refuse(err, "too many models; the first of them over the limit is", model);
    d->models = as_xrealloc(d->models, (d->n_models + 1) * sizeof(*d->models));
    d->models[d->n_models++] = as_str_dup(model);
    return 0;
}

/* One line that has a tab. */
static int add_deployment(struct as_app *app, struct as_str line, struct as_buf *err)
{
    const char *tab = memchr(line.p, '\t', line.n), *end = line.p + line.n;
    struct as_str name = {line.p, (size_t)(tab - line.p)};
    struct as_app_deployment *d;
    int rc = 0;

    if (name.n == 0 || name.n > AS_NAME_MAX)
        return refuse(err, "a deployment with a bad name:", name);
    if (app->n == AS_APP_DEPLOYMENTS_MAX)
        return refuse(err, "too many deployments; the first of them over the limit is", name);
    app->deployments = as_xrealloc(app->deployments, (app->n + 1) * sizeof(*d));
    d = &app->deployments[app->n++];
    *d = (struct as_app_deployment){.name = as_str_dup(name)};
    for (const char *p = tab + 1; rc == 0 && p <= end;) {
        const char *next = p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;
        struct as_str model = {p, (size_t)((next ? next : end) - p)};

        if (p == tab + 1 && model.n && model.p[0] == '{')
            d->options = as_str_dup(model); /* read, and checked, by ctl/spec */
        else
            rc = add_model(d, model, err);
        p = (next ? next : end) + 1;
    }
    return rc == 0 && d->n_models == 0 ? refuse(err, "a deployment without a model:", name) : rc;
}

/* Lines without a tab are not ours: what the user's module printed to a stdout of its own making.
 */
int as_app_parse(struct as_app *ret_app, struct as_str text,
                 void (*other)(void *ctx, struct as_str line), void *ctx, struct as_buf *err)
{
    struct as_app app = {0};
    const char *p = text.p, *end = text.p + text.n;
    int rc = 0;

    while (rc == 0 && p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        struct as_str line = {p, (size_t)((nl ? nl : end) - p)};

        if (memchr(line.p, '\t', line.n))
            rc = add_deployment(&app, line, err);
        else if (other && line.n)
            other(ctx, line);
        p = (nl ? nl : end) + 1;
    }
    if (rc == 0 && app.n == 0) {
        as_buf_str(err, "the worker described no model");
        rc = AS_EINVALID;
    }
    if (rc == 0)
        *ret_app = app;
    else
        as_app_fini(&app);
    return rc;
}

void as_app_write(const struct as_app *app, struct as_buf *b)
{
    for (uint32_t i = 0; i < app->n; i++) {
        const struct as_app_deployment *d = &app->deployments[i];

        as_buf_str(b, d->name);
        if (d->options)
            as_buf_printf(b, "\t%s", d->options);
        for (uint32_t k = 0; k < d->n_models; k++)
            as_buf_printf(b, "\t%s", d->models[k]);
        as_buf_str(b, "\n");
    }
}

static void to_stderr(void *ctx, struct as_str line)
{
    (void)ctx;
    fprintf(stderr, "%.*s\n", AS_STR_FMT(line));
}

/* Reads until the child has ended or a signal came (returned). The end is the process's, not the
 * pipe's: a forked helper may hold that open. */
static int watch(struct as_proc *p, int out, int signal_fd, struct as_buf *text)
{
    struct pollfd pfd[] = {{.fd = out, .events = POLLIN},
                           {.fd = p->pidfd, .events = POLLIN},
                           {.fd = signal_fd, .events = POLLIN}};

    for (;;) {
        struct signalfd_siginfo si;
        ssize_t n;

        if (poll(pfd, AS_COUNT(pfd), -1) < 0)
            continue;
        if (pfd[0].revents) {
            n = read(out, as_buf_reserve(text, 4096), 4096);
            if (n > 0)
                text->n += (size_t)n;
            else if (n == 0)
                pfd[0].fd = -1;
            /* a module that prints without end; the verdict follows from its death */
            if (text->n > AS_APP_BYTES_MAX)
                as_proc_signal(p, SIGKILL);
        } else if (pfd[1].revents) {
            return 0;
        }
        /* Ctrl-C while a module loads for minutes: signals are blocked and read here, before there
         * is a loop */
        if (pfd[2].revents && read(signal_fd, &si, sizeof(si)) == sizeof(si) &&
            si.ssi_signo != SIGCHLD) {
            as_proc_signal(p, SIGKILL);
            return (int)si.ssi_signo;
        }
    }
}

/* The child's end as our exit code. */
/* The worker program's own codes say what is wrong and it has written why; everything else means
 * that it did not get to run, for which the interpreter is the first suspect. */
static int verdict(const char *python, int status, struct as_buf *err)
{
    char how[48];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    if (as_code_fatal(code))
        return code;
    as_buf_printf(err,
                  "%s could not run the worker program (%s).\n"
                  "Is the package installed there?  %s -m pip install anyserve\n"
                  "Another interpreter is chosen with --python PATH.",
                  python, as_proc_describe(status, how), python);
    return code == AS_CODE_USAGE ? AS_CODE_CONFIG : AS_CODE_INTERPRETER;
}

int as_app_describe(struct as_app *ret_app, const struct as_app_where *where, int signal_fd,
                    struct as_buf *err)
{
    const char *python = where->python;
    const char *argv[] = {python, "-m", "anyserve.worker", where->target, "--describe=lines", NULL};
    struct as_proc_spec spec = {.path = python,
                                .argv = argv,
                                .env = where->env,
                                .dir = where->dir,
                                .in = -1,
                                .err = -1,
                                .group = true,
                                .death_signal = SIGKILL};
    struct as_buf text;
    struct as_proc p;
    int out[2], e, rc, sig, status;

    if (pipe2(out, O_CLOEXEC) < 0) {
        as_buf_printf(err, "cannot make a pipe: %s", strerror(errno));
        return AS_CODE_FAILED;
    }
    spec.out = out[1];
    rc = as_proc_spawn(&p, &spec, &e);
    /* or the end of the child would never show as the end of the pipe */
    close(out[1]);
    if (rc < 0) {
        close(out[0]);
        if (where->dir && access(where->dir, X_OK) < 0) {
            as_buf_printf(err, "working_dir %s: %s", where->dir, strerror(errno));
            return AS_CODE_CONFIG;
        }
        as_buf_printf(err, "cannot run the interpreter %s: %s\nChoose one with --python PATH.",
                      python, strerror(e));
        return AS_CODE_INTERPRETER;
    }
    as_buf_init(&text);
    sig = watch(&p, out[0], signal_fd, &text);
    status = as_proc_wait(&p);
    close(out[0]);
    if (sig)
        rc = AS_CODE_SIGNAL + sig;
    else if (text.n > AS_APP_BYTES_MAX || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        rc = verdict(python, status, err);
    else if (as_app_parse(ret_app, as_buf_slice(&text), to_stderr, NULL, err) < 0) {
        as_buf_printf(err, " (interpreter: %s).\nAnother one is chosen with --python PATH.",
                      python);
        rc = AS_CODE_INTERPRETER;
    }
    as_buf_fini(&text);
    return rc;
}
