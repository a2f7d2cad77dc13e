/* What the dispatcher is to know of the deployments before a worker of theirs has come. */
#include "app/controller/control_api.h"
#include "conf/spec/spec_plan.h"

#include <stdlib.h>

struct as_control_api_declared {
    uint64_t deployment, models; /* hashes: of its id, of all that was said of its models … */
    bool has_models;             /* … if anything was */
    uint64_t route;              /* hash of its prefix; 0: it has none */
};

static uint64_t hash_of(const struct as_declared_deployment *d, struct as_str settings)
{
    struct as_buf all = {0};
    uint64_t hash;

    as_buf_add(&all, settings.p, settings.n);
    for (uint32_t i = 0; i < d->n_models; i++) {
        as_buf_add(&all, d->models[i].name, strlen(d->models[i].name) + 1);
        as_buf_add(&all, d->models[i].frame.p, d->models[i].frame.n);
    }
    hash = as_str_hash(as_buf_slice(&all));
    as_buf_fini(&all);
    return hash;
}

/* NULL: the deployment was not declared. */
static const struct as_control_api_declared *find_declared(const struct as_control_api *o,
                                                           uint64_t deployment)
{
    for (uint32_t i = 0; i < o->n_declared; i++) {
        if (o->declared[i].deployment == deployment)
            return &o->declared[i];
    }
    return NULL;
}

/* The prefix of the application, of its ingress deployment; "" of others. */
static struct as_str route_of(const struct as_spec_walk *w)
{
    bool ingress = as_spec_is_set(w->deployment, AS_SPEC_DEPLOYMENT_INGRESS) &&
                   as_spec_value(w->deployment, AS_SPEC_DEPLOYMENT_INGRESS)->i;
    const char *prefix = ingress ? as_spec_str(w->app, AS_SPEC_APPLICATION_ROUTE_PREFIX) : NULL;

    return as_str_of(prefix ? prefix : "");
}

/* Says what is new of the models of a deployment. One of which none are known is declared only to
 * take back what was. */
static void declare_models(struct as_control_api *o, const struct as_spec_walk *w,
                           struct as_str name, const struct as_control_api_declared *before,
                           struct as_control_api_declared *now, size_t *room)
{
    const struct as_declared_deployment *d = as_declared_find(&o->desired.models, name),
                                        none = {.name = (char *)(uintptr_t)name.p};
    struct as_buf settings = {0};

    if (!d && !(before && before->has_models))
        return;
    as_spec_put_settings(w->deployment, o->debugging, &settings);
    now->has_models = true;
    now->models = hash_of(d ? d : &none, as_buf_slice(&settings));
    if (!before || !before->has_models || before->models != now->models)
        as_reconciler_declare(o->reconciler, d ? d : &none, as_buf_slice(&settings), room);
    as_buf_fini(&settings);
}

void as_control_api_declare(struct as_control_api *o)
{
    struct as_control_api_declared *all = NULL;
    size_t room = AS_CTL_DECLARED_MAX;
    uint32_t n = 0;

    for (struct as_spec_walk w = {0}; as_spec_next(o->desired.spec->file, &w);) {
        struct as_id id;
        struct as_str name = as_spec_id(w.app, w.deployment, &id), route = route_of(&w);
        struct as_control_api_declared now = {.deployment = as_str_hash(name)};
        const struct as_control_api_declared *before = find_declared(o, now.deployment);

        now.route = route.n ? as_str_hash(route) | 1 : 0;
        declare_models(o, &w, name, before, &now, &room);
        if ((before ? before->route : 0) != now.route)
            as_reconciler_send_route(o->reconciler, name, route);
        all = as_xrealloc(all, (n + 1) * sizeof(*all));
        all[n++] = now;
    }
    free(o->declared);
    o->declared = all;
    o->n_declared = n;
}
