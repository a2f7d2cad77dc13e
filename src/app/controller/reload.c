#include "app/controller/reload.h"

#include "conf/spec/spec_row.h"
#include "ctl/worker/worker_spec.h"
#include "io/loop/file_watch.h"

#include <errno.h>
#include <unistd.h>

#define QUIET (100 * AS_MS) /* editors and version control write several files at once */

struct as_reload {
    struct as_loop *loop;
    const struct as_option_set *opts;
    struct as_control_api *control_api;
    const struct as_log *log;
    struct as_file_watch *watch;
    struct as_describe_job *describer; /* NULL: the code is not asked now … */
    bool again;                        /* … and once more after that */
    bool resumed; /* a former controller may have reloaded, so `app` may be older than what is
                     served */
    struct as_timer quiet;
    char *declared; /* what the served code declares, as text */
    char *args;     /* the variable with the arguments of the command line, or NULL */
    int err_fd;
};

static char *declared_text(const struct as_declared *app)
{
    struct as_buf b = {0};
    char *text;

    as_declared_write_deployments(app, &b);
    text = as_str_dup(as_buf_slice(&b));
    as_buf_fini(&b);
    return text;
}

static void watch_files(struct as_reload *r, const struct as_declared *app)
{
    uint32_t missed = as_file_watch_set(r->watch, app->files, app->n_files);

    if (missed)
        as_log_event(r->log, AS_LOG_WARN, "not_watched",
                     "files=%u reason=\"their folders cannot be watched\"", missed);
}

/* Logs the failure, and prints the traceback below that line. */
static void report_failure(const struct as_reload *r, struct as_str why)
{
    char text[512];

    as_log_event(r->log, AS_LOG_WARN, "reload_failed",
                 "reason=%s action=\"the former code keeps serving\"",
                 as_log_quote(text, sizeof(text), why));
    if (why.n)
        dprintf(r->err_fd,
                "%.*s\nThe former code keeps serving; the next change of a file is tried again.\n",
                AS_STR_FMT(why));
}

/* Restarts every deployment, also those whose declaration has not changed. */
static int restart_all(struct as_control_api *o, struct as_buf *err)
{
    struct as_spec_walk w = {0};
    struct as_id id;
    int rc = 0;

    while (rc == 0 && as_spec_next(o->desired.spec->file, &w))
        rc = as_reconciler_restart(o->reconciler, as_spec_id(w.app, w.deployment, &id), err);
    return rc;
}

static void replace_replicas(struct as_reload *r, const struct as_declared *app)
{
    char *declared = declared_text(app);
    struct as_buf err = {0};
    int rc = 0;

    if (r->resumed || strcmp(declared, r->declared) != 0)
        rc = as_control_api_redeclare(r->control_api, r->opts, app, &err);
    if (rc == 0 && !r->resumed)
        rc = restart_all(r->control_api, &err);
    r->resumed = false;
    if (rc < 0) {
        report_failure(r, as_buf_slice(&err));
    } else {
        as_log_event(r->log, AS_LOG_INFO, "reloading", "target=\"%s\" files=%u", r->opts->args[0],
                     app->n_files);
        free(r->declared);
        r->declared = declared;
        declared = NULL;
    }
    free(declared);
    as_buf_fini(&err);
}

static void on_described(void *ctx, const struct as_describe_end *end)
{
    struct as_declared *app = end->app;
    struct as_reload *r = ctx;

    r->describer = NULL;
    if (app) {
        watch_files(
            r, app); /* code that cannot be loaded names no files: the former ones stay watched */
        if (!r->again)
            replace_replicas(r, app);
        as_declared_fini(app);
    } else if (!r->again) {
        report_failure(r, end->why);
    }
    if (r->again)
        as_timer_set(&r->quiet, as_loop_now(r->loop) + QUIET);
    r->again = false;
}

static void on_quiet(struct as_timer *t)
{
    struct as_reload *r = AS_CONTAINER(t, struct as_reload, quiet);
    const char *env[] = {r->args, NULL};
    struct as_describe_source where = {.python = as_option_str(r->opts, AS_OPT_PYTHON),
                                       .target = r->opts->args[0],
                                       .env = r->args ? env : NULL,
                                       .timeout = as_option_ns(r->opts, AS_OPT_START_TIMEOUT)};
    struct as_buf err = {0};

    if (r->describer) {
        r->again = true;
        return;
    }
    if (as_describe_start(&r->describer, r->loop, &where, on_described, r, &err) < 0)
        report_failure(r, as_buf_slice(&err));
    as_buf_fini(&err);
}

static void on_change(void *ctx)
{
    struct as_reload *r = ctx;

    as_timer_set(&r->quiet, as_loop_now(r->loop) + QUIET);
}

struct as_reload *as_reload_new(struct as_loop *loop, const struct as_option_set *opts,
                                struct as_control_api *control_api, const struct as_declared *app,
                                int err_fd, const struct as_log *log)
{
    struct as_reload *r;

    if (!as_option_bool(opts, AS_OPT_RELOAD) || !opts->n_args)
        return NULL;
    r = as_xalloc(sizeof(*r));
    *r = (struct as_reload){
        .loop = loop, .opts = opts, .control_api = control_api, .log = log, .err_fd = err_fd};
    if (as_file_watch_new(&r->watch, on_change, r) < 0 || as_file_watch_start(r->watch, loop) < 0) {
        as_log_event(log, AS_LOG_ERROR, "no_reload", "reason=\"files cannot be watched: %s\"",
                     strerror(errno));
        as_file_watch_close(r->watch);
        free(r);
        return NULL;
    }
    as_timer_init(&r->quiet, loop, on_quiet);
    r->declared = declared_text(app);
    if (app->args)
        r->args = as_str_format(AS_WORKER_SPEC_ARGS "=%s", app->args);
    watch_files(r, app);
    r->resumed = control_api->desired.generation > 1;
    if (r->resumed)
        on_change(r);
    return r;
}

static void on_closed(struct as_timer *t)
{
    struct as_reload *r = AS_CONTAINER(t, struct as_reload, quiet);

    free(r->declared);
    free(r->args);
    free(r);
}

void as_reload_close(struct as_reload *r)
{
    if (!r)
        return;
    as_describe_stop(r->describer);
    as_file_watch_close(r->watch);
    as_timer_close(&r->quiet, on_closed);
}
