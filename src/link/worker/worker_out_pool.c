/* Memory of the calls that the program opens, and finding them by their streams. */
#include "link/worker/worker_internal.h"

#include <string.h>

#define POOL_MAX 1024u

struct as_worker_out *as_worker_out_find(const struct as_worker_link *l, uint64_t stream)
{
    struct as_worker_entry *e = as_worker_table_find(&l->calls.outs, stream);

    return e ? AS_CONTAINER(e, struct as_worker_out, entry) : NULL;
}

/* --- memory --- */

void as_worker_family_init(struct as_worker_family *f)
{
    as_list_init(&f->waiting);
    as_list_init(&f->open);
    f->used = (struct as_frame_window){0};
}

struct as_worker_out *as_worker_out_get(struct as_worker *w)
{
    struct as_list *n = as_list_pop(&w->out_pool);
    struct as_worker_out *o;

    if (n) {
        o = AS_LIST_ENTRY(n, struct as_worker_out, node);
        w->n_out_pool--;
        memset(o, 0, sizeof(*o));
    } else {
        o = calloc(1, sizeof(*o));
        if (!o)
            return NULL;
    }
    as_list_init(&o->node);
    as_list_init(&o->news);
    as_list_init(&o->messages);
    as_list_push(&w->outs, &o->all);
    o->w = w;
    o->held = true;
    return o;
}

static void out_clear(struct as_worker *w, struct as_worker_out *o)
{
    as_worker_out_drop_messages(w, o);
    if (o->current)
        as_worker_req_put(w, o->current);
    as_blob_unref(o->text);
    as_blob_unref(o->kept);
    as_blob_unref(o->replica);
    o->current = NULL;
    o->text = o->kept = o->replica = NULL;
    as_list_remove(&o->all);
    as_worker_forget_news(w, o);
}

void as_worker_out_settle(struct as_worker *w, struct as_worker_out *o)
{
    if (o->held || o->sent || o->kept)
        return;
    out_clear(w, o);
    if (w->n_out_pool == POOL_MAX) {
        free(o);
        return;
    }
    as_list_insert_after(&w->out_pool, &o->node);
    w->n_out_pool++;
}

void as_worker_free_outs(struct as_worker *w)
{
    struct as_list *n;

    while (!as_list_empty(&w->outs)) {
        struct as_worker_out *o = AS_LIST_ENTRY(w->outs.next, struct as_worker_out, all);

        as_list_remove(&o->node);
        out_clear(w, o);
        free(o);
    }
    while ((n = as_list_pop(&w->out_pool)))
        free(AS_LIST_ENTRY(n, struct as_worker_out, node));
}
