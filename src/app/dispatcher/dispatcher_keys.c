/* The API keys of --api-keys: read at the start and when the file changes, and given to all lanes.
 *
 * A changed file is read by a thread beside the loops, since a million keys take two seconds.
 * A file that cannot be read changes nothing: the former keys stay valid. Lanes get a table by
 * letter, and keep it until the next one; who is the last to use it frees it. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/state/key_file.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* A letter of its own for each lane and reading: several may be under way. */
struct delivery {
    struct as_letter letter;
    struct as_edge *edge;
    struct as_key_table *table; /* one reference */
};

static const char *path_of(const struct as_dispatcher *d)
{
    return as_option_str(d->opts, AS_OPT_API_KEYS);
}

/* Keys of `former` that are not valid any more are marked here already: whoever sees the mark looks
 * for the key in its table, and finds it there until it gets the new one. */
static int read_file(const struct as_dispatcher *d, const struct as_key_table *former,
                     struct as_key_table **ret_t, struct as_buf *err)
{
    uint32_t most = (uint32_t)as_option_u64(d->opts, AS_OPT_MAX_API_KEYS);
    int rc = as_key_file_load(path_of(d), most, former, ret_t, err);

    if (!rc)
        as_key_table_retire(former, *ret_t);
    return rc;
}

/* --- giving them to the lanes --- */

static void open_delivery(struct as_letter *letter, void *to AS_UNUSED)
{
    struct delivery *l = AS_CONTAINER(letter, struct delivery, letter);

    as_edge_set_keys(l->edge, l->table);
    as_key_table_unref(l->table);
    free(l);
}

/* Takes over the table. The one before is kept until the next reading, whose thread frees it: for a
 * million keys that takes a loop too long. */
static void publish(struct as_dispatcher *d, struct as_key_table *t)
{
    as_key_table_unref(d->keys.older);
    d->keys.older = d->keys.table;
    d->keys.table = t;
    as_edge_set_keys(d->lanes[0].edge, t);
    for (uint32_t i = 1; i < d->n_lanes; i++) {
        struct delivery *l = as_xalloc(sizeof(*l));

        l->edge = d->lanes[i].edge;
        l->table = as_key_table_ref(t);
        as_client_lane_post(&d->lanes[i], &l->letter, open_delivery);
    }
}

static void report_failure(struct as_dispatcher *d, const struct as_buf *err)
{
    char text[1024];

    as_log_event(&d->log, AS_LOG_ERROR, "keys_reload_failed",
                 "reason=%s action=\"the former keys stay valid\"",
                 as_log_quote(text, sizeof(text), as_buf_slice(err)));
}

static void use(struct as_dispatcher *d, struct as_key_table *t)
{
    publish(d, t);
    as_log_event(&d->log, AS_LOG_INFO, "keys_reloaded", "keys=%u", as_key_table_count(t));
}

int as_dispatcher_reload_keys(struct as_dispatcher *d, struct as_buf *err)
{
    struct as_key_table *t;
    int rc;

    if (!path_of(d)[0] || d->phase == AS_DISPATCHER_STOPPING)
        return 0;
    rc = read_file(d, d->keys.table, &t, err);
    if (rc)
        report_failure(d, err);
    else
        use(d, t);
    d->keys.again = d->keys.reading; /* what the thread reads may be older */
    return rc;
}

/* --- when the file changes --- */

static void start_reading(struct as_dispatcher *d);

static void end_reading(struct as_dispatcher *d)
{
    pthread_join(d->keys.thread, NULL);
    d->keys.reading = false;
    as_key_table_unref(d->keys.former);
    d->keys.former = NULL;
}

static void open_result(struct as_letter *letter, void *to AS_UNUSED)
{
    struct as_dispatcher *d = AS_CONTAINER(letter, struct as_dispatcher, keys.done);
    struct as_key_table *t = d->keys.result;

    end_reading(d);
    d->keys.result = NULL;
    if (d->phase == AS_DISPATCHER_STOPPING || d->keys.again) /* it may be older than the newest */
        as_key_table_unref(t);
    else if (t)
        use(d, t);
    else
        report_failure(d, &d->keys.why);
    as_buf_fini(&d->keys.why);
    if (d->keys.again && d->phase != AS_DISPATCHER_STOPPING)
        start_reading(d);
}

static void *read_beside(void *arg)
{
    struct as_dispatcher *d = arg;

    pthread_setname_np(pthread_self(), "as-keys");
    as_key_table_unref(d->keys.unused);
    if (read_file(d, d->keys.former, &d->keys.result, &d->keys.why))
        d->keys.result = NULL;
    as_client_lane_post(&d->lanes[0], &d->keys.done, open_result);
    return NULL;
}

static void start_reading(struct as_dispatcher *d)
{
    struct as_buf err = {0};

    d->keys.again = d->keys.reading;
    if (d->keys.reading)
        return;
    d->keys.reading = true;
    d->keys.former = d->keys.table ? as_key_table_ref(d->keys.table) : NULL;
    d->keys.unused = d->keys.older;
    d->keys.older = NULL;
    if (!pthread_create(&d->keys.thread, NULL, read_beside, d))
        return;
    d->keys.reading = false;
    as_key_table_unref(d->keys.former);
    as_key_table_unref(d->keys.unused);
    d->keys.former = NULL;
    (void)as_dispatcher_reload_keys(d, &err);
    as_buf_fini(&err);
}

static void on_quiet(struct as_timer *t)
{
    start_reading(AS_CONTAINER(t, struct as_dispatcher, keys.quiet));
}

static void on_changed(void *ctx)
{
    struct as_dispatcher *d = ctx;

    if (d->phase != AS_DISPATCHER_STOPPING)
        as_timer_set(&d->keys.quiet, as_loop_now(d->lanes[0].loop) + AS_DISPATCHER_KEYS_QUIET);
}

/* Mounted secrets are links through a link `..data` in the same folder, which a change replaces
 * (Kubernetes, "Secrets": mounted secrets are updated automatically). */
static void watch(struct as_dispatcher *d)
{
    char *copy = as_str_dup(as_str_of(path_of(d)));
    char *paths[] = {as_str_dup(as_str_of(path_of(d))), as_str_format("%s/..data", dirname(copy))};

    if (as_file_watch_new(&d->keys.watch, d->lanes[0].loop, on_changed, d) ||
        as_file_watch_set(d->keys.watch, paths, AS_COUNT(paths)))
        as_log_event(&d->log, AS_LOG_WARN, "keys_not_watched", "reason=\"%s\"", strerror(errno));
    for (size_t i = 0; i < AS_COUNT(paths); i++)
        free(paths[i]);
    free(copy);
}

void as_dispatcher_open_keys(struct as_dispatcher *d)
{
    struct as_key_table *t;
    struct as_buf err = {0};

    as_timer_init(&d->keys.quiet, d->lanes[0].loop, on_quiet);
    if (!path_of(d)[0])
        return;
    watch(d); /* first: a change while it is read is not missed */
    /* the supervisor has checked the file, but it may have changed since, before this process was
     * started again */
    if (read_file(d, NULL, &t, &err))
        as_log_event(&d->log, AS_LOG_ERROR, "no_api_keys",
                     "reason=\"%.*s\" action=\"requests are refused until the file is valid\"",
                     AS_STR_FMT(as_buf_slice(&err)));
    else
        publish(d, t);
    as_buf_fini(&err);
}

void as_dispatcher_close_keys(struct as_dispatcher *d)
{
    if (d->keys.reading) { /* its letter was not opened: the loop has ended */
        end_reading(d);
        as_key_table_unref(d->keys.result);
        as_buf_fini(&d->keys.why);
    }
    as_file_watch_close(d->keys.watch);
    as_timer_close(&d->keys.quiet, NULL);
    as_key_table_unref(d->keys.table);
    as_key_table_unref(d->keys.older);
}
