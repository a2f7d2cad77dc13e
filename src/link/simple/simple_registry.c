/* The registry of simple workers: which worker has registered which model. */
#include "link/simple/simple_internal.h"

struct as_simple_registry *as_simple_registry_get(struct as_fleet *f)
{
    if (!f->simple) {
        f->simple = as_xalloc(sizeof(*f->simple));
        for (size_t i = 0; i < AS_COUNT(f->simple->bucket); i++)
            as_list_init(&f->simple->bucket[i]);
    }
    return f->simple;
}

static void free_registry(struct as_fleet *f)
{
    free(f->simple);
    f->simple = NULL;
}

const struct as_upstream_kind as_upstream_simple = {.fini = free_registry};

struct as_simple_stat as_simple_stat(const struct as_fleet *f)
{
    return f->simple ? f->simple->stat : (struct as_simple_stat){0};
}

static struct as_list *bucket_of(struct as_fleet *f, struct as_str worker)
{
    return &as_simple_registry_get(f)->bucket[as_str_hash(worker) % 256];
}

void as_simple_registry_add(struct as_simple *s)
{
    as_list_push(bucket_of(s->up.fleet, as_str_of(s->worker)), &s->registry_node);
}

void as_simple_registry_remove(struct as_simple *s)
{
    as_list_remove(&s->registry_node);
}

struct as_simple *as_simple_registry_find(struct as_fleet *f, struct as_str worker,
                                          struct as_str model, struct as_str version)
{
    AS_LIST_EACH_ENTRY(s, struct as_simple, registry_node, bucket_of(f, worker)) {
        if (as_str_eq(as_str_of(s->worker), worker) && as_str_eq(as_str_of(s->model), model) &&
            as_str_eq(as_str_of(s->version), version))
            return s;
    }
    return NULL;
}

static bool is_named(const struct as_simple *s, const struct as_str *models, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (as_str_eq(as_str_of(s->model), models[i]))
            return true;
    }
    return n == 0;
}

static bool serves_model(struct as_fleet *f, struct as_str worker, struct as_str model)
{
    AS_LIST_EACH_ENTRY(s, struct as_simple, registry_node, bucket_of(f, worker)) {
        if (as_str_eq(as_str_of(s->worker), worker) && as_str_eq(as_str_of(s->model), model))
            return true;
    }
    return false;
}

bool as_simple_heartbeat(struct as_fleet *f, struct as_str worker, const struct as_str *models,
                         uint32_t n)
{
    bool any = false, all = true;

    AS_LIST_EACH_ENTRY(s, struct as_simple, registry_node, bucket_of(f, worker)) {
        if (!as_str_eq(as_str_of(s->worker), worker) || !is_named(s, models, n))
            continue;
        any = true;
        as_simple_on_heartbeat(s);
    }
    for (uint32_t i = 0; i < n && all; i++)
        all = serves_model(f, worker, models[i]);
    return any && all;
}
