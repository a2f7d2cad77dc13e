/* Files that the dispatcher reads again while it serves: certificates, keys, authorities. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/state/outcome.h"
#include "io/process/runtime.h"

#include <errno.h>
#include <string.h>

/* A certificate and its key are replaced by two renames; between them they do not fit. */
#define SETTLE (200 * AS_MS)

static void read_files(struct as_helper_job *j)
{
    struct as_dispatcher_reload *r = AS_CONTAINER(j, struct as_dispatcher_reload, job);

    r->failed = r->tls && as_tls_server_load(r->tls, AS_TLS_EXPIRY_ALLOWED, &r->outcome) != 0;
}

static void start_job(struct as_dispatcher *d, bool asked)
{
    struct as_dispatcher_reload *r = &d->reload;

    if (r->busy) {
        r->again = true;
        r->again_asked |= asked;
        return;
    }
    r->busy = true;
    r->asked = asked;
    r->outcome.n = 0;
    as_helper_submit(&r->helper, &r->job);
}

static void write_outcome(struct as_dispatcher *d)
{
    char folder[AS_RUNTIME_PATH_MAX];
    struct as_buf text = {0};

    as_buf_str(&text, d->reload.failed ? "failed " : "done ");
    as_buf_add(&text, d->reload.outcome.p, d->reload.outcome.n);
    if (as_runtime_path(folder, as_option_str(d->opts, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(d->opts, AS_OPT_PORT), "") == 0)
        as_outcome_write(folder, AS_RUNTIME_RELOAD, as_buf_slice(&text));
    as_buf_fini(&text);
}

static void log_outcome(const struct as_dispatcher *d)
{
    const struct as_dispatcher_reload *r = &d->reload;
    char quoted[1024];

    if (r->failed)
        as_log_event(&d->log, AS_LOG_ERROR, "reload_failed",
                     "reason=%s action=\"what was read before stays\"",
                     as_log_quote(quoted, sizeof(quoted), as_buf_slice(&r->outcome)));
    else
        as_log_event(&d->log, AS_LOG_INFO, "reloaded", "certificates=%u expires=%ld",
                     r->conf.server.n, r->tls ? as_tls_server_not_after(r->tls) : 0L);
}

static void on_done(struct as_helper_job *j)
{
    struct as_dispatcher *d = AS_CONTAINER(j, struct as_dispatcher, reload.job);
    struct as_dispatcher_reload *r = &d->reload;

    r->busy = false;
    log_outcome(d);
    if (r->asked)
        write_outcome(d);
    if (r->again) {
        bool asked = r->again_asked;

        r->again = r->again_asked = false;
        start_job(d, asked);
    }
}

static void on_change(void *ctx)
{
    struct as_dispatcher *d = ctx;

    as_timer_set(&d->reload.settle, as_loop_now(d->lanes[0].loop) + SETTLE);
}

static void on_settled(struct as_timer *t)
{
    start_job(AS_CONTAINER(t, struct as_dispatcher, reload.settle), false);
}

void as_dispatcher_reload(struct as_dispatcher *d)
{
    start_job(d, true);
}

/* Beside each file its folder's "..data": Kubernetes mounts secrets as links through this one, and
 * replaces only this one (AtomicWriter in its pkg/volume/util). */
static void watch_files(struct as_dispatcher *d)
{
    const struct as_dispatcher_reload *r = &d->reload;
    const struct as_tls_server_conf *c = &r->conf.server;
    uint32_t n = 0, missed;
    char **paths = as_xalloc((2 * c->n + 1) * 2 * sizeof(*paths));

    for (uint32_t i = 0; i < 2 * c->n + (c->client_ca != NULL); i++) {
        const char *file = i < c->n ? c->certs[i] : i < 2 * c->n ? c->keys[i - c->n] : c->client_ca;
        const char *slash = strrchr(file, '/');
        struct as_buf data = {0};

        as_buf_add(&data, file, slash ? (size_t)(slash + 1 - file) : 0);
        as_buf_str(&data, "..data");
        paths[n++] = as_str_dup(as_str_of(file));
        paths[n++] = as_str_dup(as_buf_slice(&data));
        as_buf_fini(&data);
    }
    missed = as_file_watch_set(r->watch, paths, n);
    if (missed)
        as_log_event(&d->log, AS_LOG_WARN, "reload_not_watched",
                     "files=%u action=\"use anyserve reload\"", missed);
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
}

int as_dispatcher_reload_open(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;
    struct as_loop *loop = d->lanes[0].loop;

    as_timer_init(&r->settle, loop, on_settled);
    r->job = (struct as_helper_job){.work = read_files, .done = on_done};
    if (as_helper_open(&r->helper, loop) || as_tls_conf_read(&r->conf, d->opts, &r->outcome))
        return AS_EIO;
    if (!r->conf.server.n)
        return 0;
    r->tls = as_tls_server_new(&r->conf.server);
    read_files(&r->job);
    if (r->failed)
        log_outcome(d);
    if (as_file_watch_new(&r->watch, loop, on_change, d))
        as_log_event(&d->log, AS_LOG_WARN, "reload_not_watched",
                     "reason=\"%s\" action=\"use anyserve reload\"", strerror(errno));
    else
        watch_files(d);
    return 0;
}

void as_dispatcher_reload_close(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;

    as_timer_close(&r->settle, NULL);
    as_file_watch_close(r->watch);
    as_helper_close(&r->helper);
    as_buf_fini(&r->outcome);
}
