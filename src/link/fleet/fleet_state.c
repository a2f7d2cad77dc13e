/* The state of the fleet: readiness for client loops, everything else for the status page. */
#include "link/fleet/upstream.h"

bool as_fleet_deployment_ready(const struct as_fleet *f, uint32_t deployment)
{
    return as_fleet_flag(&f->deploys[AS_FLEET_DEPLOYMENT_PLACE(deployment)]->ready);
}

bool as_fleet_deployment_down(const struct as_fleet *f, uint32_t deployment)
{
    return as_fleet_flag(&f->deploys[AS_FLEET_DEPLOYMENT_PLACE(deployment)]->down);
}

bool as_fleet_ready(const struct as_fleet *f)
{
    uint32_t n = atomic_load_explicit(&f->n_deploys, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (as_fleet_flag(&d->expected) && !as_fleet_flag(&d->ready) && !as_fleet_flag(&d->late))
            return false;
    }
    return as_fleet_flag(&f->accepting);
}

uint32_t as_fleet_unanswered(const struct as_fleet *f)
{
    return f->unanswered;
}

struct as_registry *as_fleet_registry(const struct as_fleet *f)
{
    return f->registry;
}

const struct as_model_stat *as_fleet_model_stat(const struct as_fleet *f, uint32_t deployment,
                                                uint32_t model)
{
    struct as_fleet_deployment *d = as_fleet_deployment_by_number(f, deployment);
    const struct as_fleet_model *m = d ? as_fleet_find_model(d, model) : NULL;

    return m ? &m->stat : NULL;
}

void as_fleet_each_replica(struct as_fleet *f,
                           void (*fn)(void *arg, const struct as_fleet_replica *r), void *arg)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        struct as_fleet_replica r = {.name = as_str_of(u->name ? u->name : ""),
                                     .deployment = as_str_of(u->deploy ? u->deploy->name : ""),
                                     .kind = as_str_of(u->ops->kind)};

        if (u->replica) {
            r.slots = as_replica_slots(u->replica);
            r.ongoing = as_replica_ongoing(u->replica);
            r.unanswered = as_replica_unanswered(u->replica);
            r.service = as_replica_service(u->replica);
            r.breaker = as_replica_breaker(u->replica);
        }
        u->ops->fill_status(u, &r);
        fn(arg, &r);
    }
}

void as_fleet_each_deployment(struct as_fleet *f,
                              void (*fn)(void *arg, struct as_deployment *d, bool down), void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        if (f->deploys[i]->core)
            fn(arg, f->deploys[i]->core, as_fleet_flag(&f->deploys[i]->down));
    }
}

void as_fleet_each_exits(struct as_fleet *f,
                         void (*fn)(void *arg, struct as_str deployment, const uint64_t *counts),
                         void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        if (d->name && as_fleet_flag(&d->expected))
            fn(arg, as_str_of(d->name), d->exits);
    }
}

const char *as_fleet_exit_name(uint32_t why)
{
    static const char *const names[] = {
#define X(name, text) text,
        AS_FLEET_EXIT_TABLE(X)
#undef X
    };

    return why < AS_FLEET_EXITS ? names[why] : NULL;
}

void as_fleet_each_model(struct as_fleet *f,
                         void (*fn)(void *arg, const struct as_fleet_model_row *m), void *arg)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        const struct as_fleet_deployment *d = f->deploys[i];

        for (uint32_t k = 0; k < d->n_models; k++) {
            const struct as_fleet_model *m = &d->models[k];

            if (!m->gone) /* its name may be registered again, under another index */
                fn(arg, &(struct as_fleet_model_row){as_str_of(d->name), as_str_of(m->name),
                                                     as_str_of(m->version), &m->stat});
        }
    }
}
