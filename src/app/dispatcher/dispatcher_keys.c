/* The API keys of --api-keys: read at the start and by dispatcher_reload.c, and given to all lanes.
 *
 * A file that cannot be read changes nothing: the former keys stay valid. Lanes get a table by
 * letter, and keep it until the next one; who is the last to use it frees it. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/state/key_file.h"

#include <stdlib.h>

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
    if (as_option_bool(d->opts, AS_OPT_STATUS_KEYS))
        as_edge_set_keys(d->status, t);
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

void as_dispatcher_keys_prepare(struct as_dispatcher *d)
{
    struct as_dispatcher_keys *k = &d->keys;

    k->former = k->table ? as_key_table_ref(k->table) : NULL;
    k->unused = k->older;
    k->older = NULL;
    k->why.n = 0;
}

void as_dispatcher_keys_read(struct as_dispatcher *d)
{
    struct as_dispatcher_keys *k = &d->keys;

    as_key_table_unref(k->unused);
    k->unused = k->result = NULL;
    if (path_of(d)[0] && read_file(d, k->former, &k->result, &k->why))
        k->result = NULL;
}

bool as_dispatcher_keys_take(struct as_dispatcher *d, bool drop)
{
    struct as_dispatcher_keys *k = &d->keys;
    struct as_key_table *t = k->result;

    as_key_table_unref(k->former);
    k->former = k->result = NULL;
    if (drop)
        as_key_table_unref(t);
    else if (t)
        use(d, t);
    else if (path_of(d)[0])
        report_failure(d, &k->why);
    return !k->why.n;
}

void as_dispatcher_keys_open(struct as_dispatcher *d)
{
    struct as_key_table *t;
    struct as_buf err = {0};

    if (!path_of(d)[0])
        return;
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

void as_dispatcher_keys_close(struct as_dispatcher *d)
{
    as_key_table_unref(d->keys.table);
    as_key_table_unref(d->keys.older);
    as_buf_fini(&d->keys.why);
}
