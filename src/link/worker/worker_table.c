#include "link/worker/worker_table.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 64u

static struct as_worker_entry **bucket_of(const struct as_worker_table *t, uint64_t stream)
{
    return &t->buckets[(stream >> 1) & (t->cap - 1)];
}

static void push(struct as_worker_table *t, struct as_worker_entry *e)
{
    struct as_worker_entry **to = bucket_of(t, e->stream);

    e->next = *to;
    *to = e;
    t->n++;
}

static void grow(struct as_worker_table *t)
{
    struct as_worker_table more = {.cap = t->cap ? 2 * t->cap : BUCKETS_MIN};
    struct as_worker_entry *e;
    uint32_t at = 0;

    more.buckets = as_xalloc(more.cap * sizeof(struct as_worker_entry *));
    while ((e = as_worker_table_pop(t, &at)))
        push(&more, e);
    free(t->buckets);
    *t = more;
}

void as_worker_table_add(struct as_worker_table *t, struct as_worker_entry *e, uint64_t stream)
{
    if (t->n == t->cap)
        grow(t);
    e->stream = stream;
    push(t, e);
}

void as_worker_table_remove(struct as_worker_table *t, struct as_worker_entry *e)
{
    struct as_worker_entry **at = bucket_of(t, e->stream);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    t->n--;
}

struct as_worker_entry *as_worker_table_pop(struct as_worker_table *t, uint32_t *at)
{
    for (; *at < t->cap; ++*at) {
        struct as_worker_entry *e = t->buckets[*at];

        if (!e)
            continue;
        t->buckets[*at] = e->next;
        t->n--;
        return e;
    }
    return NULL;
}

void as_worker_table_clear(struct as_worker_table *t)
{
    if (t->n)
        memset(t->buckets, 0, t->cap * sizeof(struct as_worker_entry *));
    t->n = 0;
}

void as_worker_table_fini(struct as_worker_table *t)
{
    free(t->buckets);
    *t = (struct as_worker_table){0};
}
