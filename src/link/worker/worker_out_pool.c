/* Memory of the calls that the program opens, and finding them by their streams. */
#include "link/worker/worker_internal.h"

#include <string.h>

#define POOL_MAX    1024u
#define BUCKETS_MIN 64u

/* --- outs by stream --- */

static struct as_worker_out **bucket_of(const struct as_worker_outs *s, uint64_t stream)
{
    return &s->buckets[(stream >> 1) & (s->cap - 1)];
}

struct as_worker_out *as_worker_out_find(const struct as_worker_link *l, uint64_t stream)
{
    const struct as_worker_outs *s = &l->calls.outs;
    struct as_worker_out *o = s->n ? *bucket_of(s, stream) : NULL;

    while (o && o->stream != stream)
        o = o->chain;
    return o;
}

static void grow_outs(struct as_worker_outs *s)
{
    struct as_worker_outs more = {.cap = s->cap ? 2 * s->cap : BUCKETS_MIN, .n = s->n};

    more.buckets = as_xalloc(more.cap * sizeof(struct as_worker_out *));
    for (uint32_t i = 0; i < s->cap; i++) {
        for (struct as_worker_out *o = s->buckets[i], *next; o; o = next) {
            struct as_worker_out **to = bucket_of(&more, o->stream);

            next = o->chain;
            o->chain = *to;
            *to = o;
        }
    }
    free(s->buckets);
    *s = more;
}

void as_worker_out_add(struct as_worker_outs *s, struct as_worker_out *o)
{
    struct as_worker_out **to;

    if (s->n == s->cap)
        grow_outs(s);
    to = bucket_of(s, o->stream);
    o->chain = *to;
    *to = o;
    s->n++;
}

void as_worker_out_remove(struct as_worker_outs *s, struct as_worker_out *o)
{
    struct as_worker_out **at = bucket_of(s, o->stream);

    while (*at != o)
        at = &(*at)->chain;
    *at = o->chain;
    s->n--;
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
    o->current = NULL;
    o->text = o->kept = NULL;
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
    AS_WORKER_LINKS(w, l)
    {
        free(l->calls.outs.buckets);
        l->calls.outs = (struct as_worker_outs){0};
    }
}
