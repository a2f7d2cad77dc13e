/* What the dispatcher is to know of the deployments before a worker of theirs has come. */
#include "app/controller/control_api.h"
#include "conf/spec/spec_plan.h"

#include <stdlib.h>

struct as_control_api_declared {
    uint64_t deployment, models; /* hashes: of its name, of all that was said of it */
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

/* A deployment of which no models are known is declared only to take back what was. */
void as_control_api_declare(struct as_control_api *o)
{
    struct as_control_api_declared *all = NULL, now;
    size_t room = AS_CTL_DECLARED_MAX;
    uint32_t n = 0;

    for (struct as_spec_walk w = {0}; as_spec_next(o->desired.spec->file, &w);) {
        const char *name = as_spec_str(w.deployment, AS_SPEC_DEPLOYMENT_NAME);
        const struct as_declared_deployment *d = as_declared_find(&o->desired.models,
                                                                  as_str_of(name)),
                                            none = {.name = (char *)(uintptr_t)name};
        uint64_t hash = as_str_hash(as_str_of(name));
        const struct as_control_api_declared *before = find_declared(o, hash);
        struct as_buf settings = {0};

        if (!d && !before)
            continue;
        as_spec_put_settings(w.deployment, o->debugging, &settings);
        now =
            (struct as_control_api_declared){hash, hash_of(d ? d : &none, as_buf_slice(&settings))};
        if (!before || before->models != now.models)
            as_reconciler_declare(o->reconciler, d ? d : &none, as_buf_slice(&settings), &room);
        all = as_xrealloc(all, (n + 1) * sizeof(*all));
        all[n++] = now;
        as_buf_fini(&settings);
    }
    free(o->declared);
    o->declared = all;
    o->n_declared = n;
}
