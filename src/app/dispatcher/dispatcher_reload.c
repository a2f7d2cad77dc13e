/* Files that the dispatcher reads again while it serves: certificates and their keys, authorities
 * of clients, API keys. When one of them changes, or when somebody asks for it. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/state/outcome.h"
#include "io/process/runtime.h"

#include <errno.h>
#include <string.h>

/* A certificate and its key are replaced by two renames; between them they do not fit. Editors
 * write a file in steps. */
#define SETTLE (200 * AS_MS)
/* While nothing could be read yet: the reason may be one that no change of a file ends. */
#define RETRY (5 * AS_SEC)

/* 0, or as as_tls_server_load. */
static int load_certificates(struct as_dispatcher_reload *r)
{
    int rc;

    r->why.n = 0;
    rc = r->tls ? as_tls_server_load(r->tls, AS_TLS_EXPIRY_ALLOWED, &r->why) : 0;
    r->tls_failed = rc != 0;
    return rc;
}

static void open_certified(struct as_letter *letter, void *to AS_UNUSED)
{
    as_edge_announce_certificates(AS_CONTAINER(letter, struct as_client_lane, certified)->edge);
}

/* Only once: what is loaded stays when a later reading fails. */
static void announce_first_certificates(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;

    if (r->tls_failed || !r->uncertified)
        return;
    r->uncertified = false;
    for (uint32_t i = 0; i < d->n_lanes; i++)
        as_client_lane_post(&d->lanes[i], &d->lanes[i].certified, open_certified);
}

static void log_certificates(const struct as_dispatcher *d)
{
    const struct as_dispatcher_reload *r = &d->reload;
    char quoted[1024];

    if (r->tls_failed && !as_tls_server_not_after(r->tls))
        as_log_event(&d->log, AS_LOG_ERROR, "no_certificates",
                     "reason=%s action=\"clients of ports with TLS are refused until the files are "
                     "mended\"",
                     as_log_quote(quoted, sizeof(quoted), as_buf_slice(&r->why)));
    else if (r->tls_failed)
        as_log_event(&d->log, AS_LOG_ERROR, "certificates_reload_failed",
                     "reason=%s action=\"the former ones stay\"",
                     as_log_quote(quoted, sizeof(quoted), as_buf_slice(&r->why)));
    else if (r->tls)
        as_log_event(&d->log, AS_LOG_INFO, "certificates_reloaded", "certificates=%u expires=%ld",
                     r->conf.server.n, as_tls_server_not_after(r->tls));
}

static void start_reading(struct as_dispatcher *d, bool asked);

static bool has_nothing_to_read(const struct as_dispatcher *d)
{
    return !d->reload.tls && !as_option_str(d->opts, AS_OPT_API_KEYS)[0];
}

static void write_outcome(struct as_dispatcher *d, bool keys_failed)
{
    const struct as_dispatcher_reload *r = &d->reload;
    char folder[AS_RUNTIME_PATH_MAX];
    struct as_buf text = {0};

    as_buf_str(&text, has_nothing_to_read(d)         ? AS_OUTCOME_NOTHING
                      : r->tls_failed || keys_failed ? AS_OUTCOME_FAILED
                                                     : AS_OUTCOME_DONE);
    as_buf_add(&text, r->why.p, r->why.n);
    if (r->tls_failed && keys_failed)
        as_buf_str(&text, "; ");
    as_buf_add(&text, d->keys.why.p, d->keys.why.n);
    if (as_runtime_path(folder, as_option_str(d->opts, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(d->opts, AS_OPT_PORT), "") == 0)
        as_outcome_write(folder, AS_RUNTIME_RELOAD, as_buf_slice(&text));
    as_buf_fini(&text);
    as_dispatcher_send(d,
                       &(struct as_ctl_message){.type = AS_CTL_RELOADED, .number = r->asked_read});
}

/* --- watching --- */

static void on_change(void *ctx)
{
    struct as_dispatcher *d = ctx;

    as_timer_set(&d->reload.settle, as_loop_now(d->lanes[0].loop) + SETTLE);
}

static void add_path(char **paths, uint32_t *n, const char *file)
{
    if (file[0])
        paths[(*n)++] = as_str_dup(as_str_of(file));
}

/* Before the files are read: what changes while they are read is not missed. */
static void prepare_watch(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;
    const struct as_tls_server_conf *c = &r->conf.server;
    char **paths = as_xalloc((2 * (size_t)c->n + 2) * sizeof(*paths));
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        add_path(paths, &n, c->certs[i]);
        add_path(paths, &n, c->keys[i]);
    }
    add_path(paths, &n, c->client_ca ? c->client_ca : "");
    add_path(paths, &n, as_option_str(d->opts, AS_OPT_API_KEYS));
    r->watch_errno = 0;
    if (n && (as_file_watch_new(&r->next, on_change, d) || as_file_watch_set(r->next, paths, n)))
        r->watch_errno = errno;
    for (uint32_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
}

/* The one before stays if it has more than the new one: the user's inotify watches are used up, or
 * a folder has gone. */
static void take_watch(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;
    struct as_file_watch *next = r->next;

    r->next = NULL;
    if (next && !(r->watch_errno && r->watch)) {
        if (as_file_watch_start(next, d->lanes[0].loop)) {
            r->watch_errno = errno;
        } else {
            as_file_watch_close(r->watch);
            r->watch = next;
            next = NULL;
        }
    }
    as_file_watch_close(next);
    if (r->watch_errno)
        as_log_event(&d->log, AS_LOG_WARN, "reload_not_watched",
                     "reason=\"%s\" action=\"use anyserve reload\"", strerror(r->watch_errno));
}

/* --- reading --- */

void as_dispatcher_reload_retry(struct as_dispatcher *d)
{
    as_timer_set(&d->reload.settle, as_loop_now(d->lanes[0].loop) + RETRY);
}

/* If a file has changed meanwhile, or somebody has asked again, another reading follows. What was
 * read is used all the same: files may change more often than a reading takes. Whoever asked
 * meanwhile waits for that one's outcome, and so do all who wait, since they read the same file. */
static void end_reading(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;
    bool again = r->again && d->phase != AS_DISPATCHER_STOPPING, again_asked = r->again_asked;
    bool keys_failed;

    log_certificates(d);
    announce_first_certificates(d);
    take_watch(d);
    keys_failed = !as_dispatcher_keys_take(d);
    r->again = r->again_asked = false;
    if ((r->asked || again_asked) && !(again && again_asked))
        write_outcome(d, keys_failed);
    if (again)
        start_reading(d, again_asked);
    else if (r->uncertified || as_dispatcher_keys_are_missing(d))
        as_dispatcher_reload_retry(d);
}

static void read_files(struct as_dispatcher *d)
{
    prepare_watch(d);
    (void)load_certificates(&d->reload);
    as_dispatcher_keys_read(d);
}

static void open_done(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_dispatcher *d = AS_CONTAINER(letter, struct as_dispatcher, reload.done);

    pthread_join(d->reload.thread, NULL);
    d->reload.reading = false;
    end_reading(d);
}

static void *read_beside(void *arg)
{
    struct as_dispatcher *d = arg;

    pthread_setname_np(pthread_self(), "as-reload");
    read_files(d);
    as_client_lane_post(&d->lanes[0], &d->reload.done, open_done);
    return NULL;
}

static void start_reading(struct as_dispatcher *d, bool asked)
{
    struct as_dispatcher_reload *r = &d->reload;

    if (r->reading) {
        r->again = true;
        r->again_asked |= asked;
        return;
    }
    r->asked = asked;
    r->asked_read = r->asked_newest;
    if (has_nothing_to_read(d))
        as_log_event(&d->log, AS_LOG_INFO, "nothing_to_reload",
                     "reason=\"there are neither certificates nor API keys\"");
    as_dispatcher_keys_prepare(d);
    r->reading = !pthread_create(&r->thread, NULL, read_beside, d);
    if (r->reading)
        return;
    read_files(d); /* there are no threads: the loop waits */
    end_reading(d);
}

void as_dispatcher_reload(struct as_dispatcher *d, uint32_t number)
{
    d->reload.asked_newest = number;
    if (d->phase != AS_DISPATCHER_STOPPING)
        start_reading(d, true);
}

static void on_settled(struct as_timer *t)
{
    struct as_dispatcher *d = AS_CONTAINER(t, struct as_dispatcher, reload.settle);

    if (d->phase != AS_DISPATCHER_STOPPING)
        start_reading(d, false);
}

int as_dispatcher_reload_open(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;

    as_timer_init(&r->settle, d->lanes[0].loop, on_settled);
    if (as_tls_conf_read(&r->conf, d->opts, &r->why))
        return AS_EIO;
    prepare_watch(d);
    take_watch(d);
    if (r->conf.server.n)
        r->tls = as_tls_server_new(&r->conf.server);
    if (load_certificates(r) == AS_ENOMEM)
        as_fatal_memory(0); /* a wrong file may be mended, but nobody would try this again */
    r->uncertified = r->tls_failed;
    if (r->tls_failed) {
        log_certificates(d);
        as_dispatcher_reload_retry(d);
    }
    return 0;
}

void as_dispatcher_reload_close(struct as_dispatcher *d)
{
    struct as_dispatcher_reload *r = &d->reload;

    if (r->reading) { /* its letter was not opened: the loop has ended */
        pthread_join(r->thread, NULL);
        (void)as_dispatcher_keys_take(d);
    }
    as_timer_close(&r->settle, NULL);
    as_file_watch_close(r->next);
    as_file_watch_close(r->watch);
    as_buf_fini(&r->why);
}
