/* The API keys of --api-keys: read at the start and by dispatcher_reload.c, and given to all lanes.
 *
 * A file that cannot be read changes nothing: the former keys stay valid. Lanes get a table by
 * letter, and keep it until the next one. When all have the next one, a thread frees it: for a
 * million keys that takes a loop too long. */
#include "app/dispatcher/dispatcher_internal.h"
#include "ctl/state/key_file.h"

#include <stdatomic.h>
#include <stdlib.h>

/* For one lane. */
struct copy {
    struct as_letter letter;
    struct delivery *delivery;
    struct as_edge *edge;
    struct as_key_table *table; /* one reference; NULL: the letter was opened */
};

/* Of one table to all lanes but the first: several may be under way. */
struct delivery {
    struct as_letter done; /* to lane 0, from the last one */
    struct as_dispatcher *d;
    struct as_list node;
    struct as_key_table *former; /* one reference, or NULL */
    atomic_uint left;            /* lanes that use the former table */
    uint32_t n;
    struct copy copies[];
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

/* --- freeing tables --- */

static void *free_table(void *table)
{
    as_key_table_unref(table);
    return NULL;
}

/* Takes over the table, which no loop uses any more; NULL is fine. */
static void free_beside(struct as_key_table *t)
{
    pthread_t thread;

    if (t && pthread_create(&thread, NULL, free_table, t))
        as_key_table_unref(t); /* there are no threads: the loop waits */
    else if (t)
        pthread_detach(thread);
}

/* --- giving them to the lanes --- */

static void open_done(struct as_letter *letter, void *to AS_UNUSED)
{
    struct delivery *v = AS_CONTAINER(letter, struct delivery, done);

    as_list_remove(&v->node);
    free_beside(v->former);
    free(v);
}

static void open_copy(struct as_letter *letter, void *to AS_UNUSED)
{
    struct copy *c = AS_CONTAINER(letter, struct copy, letter);
    struct delivery *v = c->delivery;

    as_edge_set_keys(c->edge, c->table);
    as_key_table_unref(c->table);
    c->table = NULL;
    if (atomic_fetch_sub(&v->left, 1) == 1)
        as_client_lane_post(&v->d->lanes[0], &v->done, open_done);
}

/* former: the reference is taken over; or NULL. */
static void deliver(struct as_dispatcher *d, struct as_key_table *t, struct as_key_table *former)
{
    uint32_t n = d->n_lanes - 1;
    struct delivery *v = as_xalloc(sizeof(*v) + n * sizeof(*v->copies));

    v->d = d;
    v->former = former;
    v->n = n;
    atomic_init(&v->left, n);
    as_list_push(&d->keys.deliveries, &v->node);
    for (uint32_t i = 0; i < n; i++) {
        struct copy *c = &v->copies[i];

        *c = (struct copy){
            .delivery = v, .edge = d->lanes[i + 1].edge, .table = as_key_table_ref(t)};
    }
    if (!n)
        open_done(&v->done, NULL);
    for (uint32_t i = 0; i < n; i++)
        as_client_lane_post(&d->lanes[i + 1], &v->copies[i].letter, open_copy);
}

/* Takes over the table. */
static void publish(struct as_dispatcher *d, struct as_key_table *t)
{
    struct as_key_table *former = d->keys.table;

    d->keys.table = t;
    as_edge_set_keys(d->lanes[0].edge, t);
    if (as_option_bool(d->opts, AS_OPT_STATUS_KEYS))
        as_edge_set_keys(d->status, t);
    deliver(d, t, former);
}

bool as_dispatcher_keys_are_missing(const struct as_dispatcher *d)
{
    return path_of(d)[0] && !d->keys.table;
}

static void report_failure(struct as_dispatcher *d, const struct as_buf *err)
{
    bool none = as_dispatcher_keys_are_missing(d);
    char text[1024];

    as_log_event(&d->log, AS_LOG_ERROR, none ? "no_api_keys" : "keys_reload_failed",
                 "reason=%s action=\"%s\"", as_log_quote(text, sizeof(text), as_buf_slice(err)),
                 none ? "requests are refused until the file is valid"
                      : "the former keys stay valid");
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
    k->why.n = 0;
}

void as_dispatcher_keys_read(struct as_dispatcher *d)
{
    struct as_dispatcher_keys *k = &d->keys;

    k->result = NULL;
    if (path_of(d)[0] && read_file(d, k->former, &k->result, &k->why))
        k->result = NULL;
}

bool as_dispatcher_keys_take(struct as_dispatcher *d)
{
    struct as_dispatcher_keys *k = &d->keys;
    struct as_key_table *t = k->result;

    as_key_table_unref(k->former); /* never the last reference: it is the table's */
    k->former = k->result = NULL;
    if (d->phase == AS_DISPATCHER_STOPPING)
        free_beside(t);
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

    as_list_init(&d->keys.deliveries);
    if (!path_of(d)[0])
        return;
    /* the supervisor has checked the file, but it may have changed since, before this process was
     * started again */
    if (read_file(d, NULL, &t, &err)) {
        report_failure(d, &err);
        as_dispatcher_reload_retry(d);
    } else {
        publish(d, t);
    }
    as_buf_fini(&err);
}

/* Letters to loops that have ended are not opened. */
static void end_delivery(struct delivery *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        as_key_table_unref(v->copies[i].table);
    as_key_table_unref(v->former);
    as_list_remove(&v->node);
    free(v);
}

void as_dispatcher_keys_close(struct as_dispatcher *d)
{
    if (d->keys.deliveries.next) { /* it was opened */
        AS_LIST_EACH_ENTRY(v, struct delivery, node, &d->keys.deliveries)
            end_delivery(v);
    }
    as_key_table_unref(d->keys.table);
    as_buf_fini(&d->keys.why);
}
