#include "link/plugin/plugin.h"

#include <dlfcn.h>
#include <stdio.h>

static struct loaded {
    char name[AS_PLUGIN_NAME_MAX + 1];
    const struct as_router_plugin *table;
} * plugins; /* as many as the option's text names */
static uint32_t n_plugins, cap_plugins;

const struct as_router_plugin *as_plugin_find(struct as_str name)
{
    for (uint32_t i = 0; i < n_plugins; i++) {
        if (as_str_eq(as_str_of(plugins[i].name), name))
            return plugins[i].table;
    }
    return NULL;
}

/* NULL, or what is wrong with it. */
static const char *check(const struct as_router_plugin *p)
{
    if (!p)
        return "as_router_plugin returns NULL";
    if (p->abi != AS_ROUTER_ABI)
        return "it was built for another version of anyserve/router.h";
    if (!p->create || !p->destroy || !p->choose)
        return "create, destroy or choose is NULL";
    return NULL;
}

int as_plugin_load(struct as_str name, const char *path, char *why, size_t n)
{
    const struct as_router_plugin *(*entry)(void);
    const struct as_router_plugin *p;
    const char *wrong;
    void *object, *symbol;

    if (as_plugin_find(name)) {
        snprintf(why, n, "%s: there is a router '%.*s' already", path, AS_STR_FMT(name));
        return AS_EINVALID;
    }
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        snprintf(why, n, "%s", dlerror());
        return AS_EINVALID;
    }
    symbol = dlsym(object, "as_router_plugin");
    if (!symbol) {
        snprintf(why, n, "%s: it has no function as_router_plugin (anyserve/router.h)", path);
        dlclose(object);
        return AS_EINVALID;
    }
    memcpy(&entry, &symbol, sizeof(entry)); /* C has no cast for this */
    p = entry();
    wrong = check(p);
    if (wrong) {
        snprintf(why, n, "%s: %s", path, wrong);
        dlclose(object);
        return AS_EINVALID;
    }
    if (n_plugins == cap_plugins) {
        cap_plugins = AS_MAX(2 * cap_plugins, 4u);
        plugins = as_xrealloc(plugins, cap_plugins * sizeof(*plugins));
    }
    plugins[n_plugins].table = p;
    snprintf(plugins[n_plugins++].name, sizeof(plugins[0].name), "%.*s", AS_STR_FMT(name));
    return 0;
}

int as_plugin_load_all(struct as_str list, char *why, size_t n)
{
    struct as_str entry, name, path;
    int err = 0;

    while (!err && as_plugin_list_next(&list, &entry) && as_plugin_split(entry, &name, &path)) {
        char *file = as_str_dup(path);

        err = as_plugin_load(name, file, why, n);
        free(file);
    }
    return err;
}

/* --- one deployment --- */

int as_plugin_begin(struct as_plugin_use *u, struct as_str deployment, char *why, size_t n)
{
    const struct as_router_plugin *p = as_plugin_find(deployment);
    char *name;

    if (!p || u->table)
        return 0;
    why[0] = '\0';
    name = as_str_dup(deployment);
    u->state = p->create(name, why, n);
    free(name);
    if (!u->state)
        return AS_EINVALID;
    u->table = p;
    return 0;
}

void as_plugin_end(struct as_plugin_use *u)
{
    if (u->table)
        u->table->destroy(u->state);
    free(u->replicas);
    free(u->of);
    *u = (struct as_plugin_use){0};
}

void as_plugin_note_sent(const struct as_plugin_use *u, const struct as_replica *r)
{
    if (u->table && u->table->on_routed)
        u->table->on_routed(u->state, as_replica_id(r));
}

void as_plugin_note_ended(const struct as_plugin_use *u, const struct as_replica *r)
{
    if (u->table && u->table->on_completed)
        u->table->on_completed(u->state, as_replica_id(r));
}

struct collected {
    struct as_plugin_use *use;
    const struct as_request *q;
    uint32_t n;
};

static void add_replica(void *arg, struct as_replica *r)
{
    struct collected *c = arg;
    struct as_replica_view v;

    as_replica_view(r, c->q, &v);
    c->use->of[c->n] = r;
    c->use->replicas[c->n++] = (struct as_router_replica){.id = v.id,
                                                          .slots = v.slots,
                                                          .ongoing = v.unanswered,
                                                          .waiting = v.waiting,
                                                          .models = v.models,
                                                          .service = v.service,
                                                          .is_free = v.is_free,
                                                          .holds_model = v.holds_model};
}

static void make_room(struct as_plugin_use *u, uint32_t n)
{
    if (n <= u->cap)
        return;
    u->cap = AS_MAX(n, 2 * u->cap);
    u->replicas = as_xrealloc(u->replicas, u->cap * sizeof(*u->replicas));
    u->of = as_xrealloc(u->of, u->cap * sizeof(struct as_replica *));
}

bool as_plugin_choose(struct as_plugin_use *u, struct as_deployment *d, const struct as_request *q,
                      struct as_str body, as_ns now, struct as_router_choice *ret)
{
    struct as_router_pick picks[AS_ROUTER_PICKS] = {{0, 0}};
    struct collected c = {.use = u, .q = q};
    bool has_waited = q->arrived && q->arrived < now;
    struct as_router_request request = {.model_key = q->model_key,
                                        .session_key = q->session_key,
                                        .priority = q->priority,
                                        .attempt = q->attempts,
                                        .waited = has_waited ? now - q->arrived : 0,
                                        .body = body.n ? body.p : NULL,
                                        .body_size = body.n};
    uint32_t n;

    static_assert(AS_ROUTER_PICKS == AS_PREFERENCE_LINKS, "a choice fits");
    ret->n = 0;
    if (!as_deployment_replicas(d))
        return false;
    make_room(u, as_deployment_replicas(d));
    as_deployment_each_replica(d, add_replica, &c);
    n = u->table->choose(u->state, &request, u->replicas, c.n, picks);
    if (!n || n > AS_ROUTER_PICKS)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (picks[i].replica >= c.n || (i && picks[i].rank < picks[i - 1].rank))
            return false;
        ret->of[i].replica = u->of[picks[i].replica];
        ret->of[i].rank = picks[i].rank;
    }
    ret->n = n;
    return true;
}
