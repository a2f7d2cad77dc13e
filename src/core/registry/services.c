#include "core/registry/services.h"

#include <stdlib.h>

/* --- sets --- */

struct as_service_set *as_service_set_new(const struct as_service_method *methods, uint32_t n,
                                          struct as_str descriptors)
{
    size_t head = sizeof(struct as_service_set) + n * sizeof(methods[0]), texts = descriptors.n;
    struct as_service_set *s;
    char *at;

    for (uint32_t i = 0; i < n; i++)
        texts += methods[i].path.n;
    s = as_xalloc(head + texts);
    at = (char *)s + head;
    atomic_init(&s->refs, 1);
    s->n = n;
    for (uint32_t i = 0; i < n; i++) {
        s->methods[i] = methods[i];
        s->methods[i].counts = as_counts_new(AS_COUNTS_SERVICE);
        s->methods[i].path.p = memcpy(at, methods[i].path.p, methods[i].path.n);
        at += methods[i].path.n;
    }
    s->descriptors = (struct as_str){at, descriptors.n};
    if (descriptors.n)
        memcpy(at, descriptors.p, descriptors.n);
    return s;
}

struct as_service_set *as_service_set_ref(struct as_service_set *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void as_service_set_unref(struct as_service_set *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        as_counts_unref(s->methods[i].counts);
    free(s);
}

bool as_service_set_eq(const struct as_service_set *a, const struct as_service_set *b)
{
    if (!a || !b || a == b)
        return a == b;
    if (a->n != b->n || !as_str_eq(a->descriptors, b->descriptors))
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct as_service_method *x = &a->methods[i], *y = &b->methods[i];

        if (!as_str_eq(x->path, y->path) || x->takes_inputs != y->takes_inputs ||
            x->gives_parts != y->gives_parts)
            return false;
    }
    return true;
}

static int compare(struct as_str a, struct as_str b)
{
    int c = memcmp(a.p, b.p, AS_MIN(a.n, b.n));

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The index of the first method that is not before `path`. */
static uint32_t lower_bound(const struct as_service_set *s, struct as_str path)
{
    uint32_t from = 0, to = s->n;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (compare(s->methods[mid].path, path) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

const struct as_service_method *as_service_set_find(const struct as_service_set *s,
                                                    struct as_str path)
{
    uint32_t i = path.n ? lower_bound(s, path) : s->n;

    return i < s->n && as_str_eq(s->methods[i].path, path) ? &s->methods[i] : NULL;
}

struct as_str as_service_of(struct as_str path)
{
    const char *slash = memrchr(path.p, '/', path.n);

    return (struct as_str){path.p + 1, (size_t)(slash - path.p) - 1};
}

bool as_service_set_has(const struct as_service_set *s, struct as_str service)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (as_str_eq(as_service_of(s->methods[i].path), service))
            return true;
    }
    return false;
}

void as_service_set_keep_counts(struct as_service_set *s, const struct as_service_set *old)
{
    for (uint32_t i = 0; old && i < s->n; i++) {
        const struct as_service_method *m = as_service_set_find(old, s->methods[i].path);

        if (!m)
            continue;
        as_counts_unref(s->methods[i].counts);
        s->methods[i].counts = as_counts_ref(m->counts);
    }
}

/* --- tables --- */

struct as_service_table *as_service_table_ref(struct as_service_table *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void as_service_table_unref(struct as_service_table *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < t->n; i++) {
        free((char *)(uintptr_t)t->at[i].application.p);
        as_service_set_unref(t->at[i].set);
    }
    free(t);
}

static void add_row(struct as_service_table *t, struct as_str application, uint32_t deployment,
                    struct as_service_set *set)
{
    t->at[t->n++] = (struct as_service_provider){
        {as_str_dup(application), application.n}, deployment, as_service_set_ref(set)};
}

struct as_service_table *as_service_table_with(const struct as_service_table *t,
                                               uint32_t deployment, struct as_str application,
                                               struct as_service_set *set)
{
    uint32_t n = t ? t->n : 0;
    struct as_service_table *next = as_xalloc(sizeof(*next) + (n + 1) * sizeof(next->at[0]));

    atomic_init(&next->refs, 1);
    for (uint32_t i = 0; i < n; i++) {
        if (t->at[i].deployment != deployment)
            add_row(next, t->at[i].application, t->at[i].deployment, t->at[i].set);
    }
    if (set)
        add_row(next, application, deployment, set);
    if (next->n)
        return next;
    free(next);
    return NULL;
}
