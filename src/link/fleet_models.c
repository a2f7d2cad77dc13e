/* Which workers serve which models of a deployment, and when nobody serves one any more. All serve
 * the same but while one version takes the place of another. */
#include "link/link.h"

void as_upstream_join(struct as_upstream *u)
{
    as_ns now = as_loop_now(u->fleet->loop);

    for (uint32_t i = 0; i < u->deploy->n_models; i++)
        as_replica_set_model(u->replica, i, as_upstream_has(u, i), now);
}

void as_upstream_add_model(struct as_upstream *u, uint32_t model)
{
    as_ns now = as_loop_now(u->fleet->loop);

    if (as_upstream_has(u, model))
        return;
    u->models[model / 64] |= 1ull << model % 64;
    u->deploy->models[model].missed = AS_NEVER;
    AS_LIST_EACH(n, &u->fleet->upstreams)
    {
        struct as_upstream *o = AS_LIST_ENTRY(n, struct as_upstream, node);

        if (o->deploy == u->deploy && o->replica)
            as_replica_set_model(o->replica, model, as_upstream_has(o, model), now);
    }
}

/* --- models that go --- */

/* Is there a process of ours that is to stay and has not told its models yet? */
static bool is_awaited(const struct as_fleet_deploy *d)
{
    for (struct as_list *n = d->fleet->tokens.next; n != &d->fleet->tokens; n = n->next) {
        const struct as_fleet_token *t = AS_LIST_ENTRY(n, struct as_fleet_token, node);

        if (!t->retiring && (!t->link || t->link->state != AS_LINK_READY) &&
            as_str_eq(as_str_of(t->deployment), as_str_of(d->name)))
            return true;
    }
    return false;
}

/* What workers that stay have, a bit each. False: there is none such. */
static bool sum_up(const struct as_fleet_deploy *d, uint64_t *ret_models)
{
    bool some = false;

    memset(ret_models, 0, AS_DEPLOY_MODELS_MAX / 8);
    for (struct as_list *n = d->fleet->upstreams.next; n != &d->fleet->upstreams; n = n->next) {
        const struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        if (u->deploy != d || u->retiring)
            continue;
        for (size_t i = 0; i < AS_COUNT(u->models); i++)
            ret_models[i] |= u->models[i];
        some = some || u->replica;
    }
    return some;
}

static void drop(struct as_fleet_deploy *d, uint32_t model)
{
    struct as_fleet *f = d->fleet;
    struct as_registry *g = as_registry_without_model(f->registry, d->number, model);
    struct as_fleet_model *m = &d->models[model];

    m->gone = true;
    as_log_event(f->log, AS_LOG_INFO, "model_gone", "deployment=%s model=%s version=%s", d->name,
                 m->name, m->version);
    if (g == f->registry)
        as_registry_unref(g);
    else
        as_fleet_publish(f, g);
    as_deploy_drop_model(d->core, model, as_loop_now(f->loop));
}

/* Not where the last one goes: core may be in the middle of something. */
void as_fleet_drop_models(struct as_fleet_deploy *d)
{
    bool ours = as_fleet_flag(&d->expected);
    as_ns now = as_loop_now(d->fleet->loop);
    uint64_t models[AS_DEPLOY_MODELS_MAX / 64];

    if (!d->core || d->deleted || !as_deploy_is_mixed(d->core) || is_awaited(d) ||
        !sum_up(d, models))
        return;
    for (uint32_t i = 0; i < d->n_models; i++) {
        struct as_fleet_model *m = &d->models[i];

        if (m->gone)
            continue;
        if (models[i / 64] >> i % 64 & 1u) {
            m->missed = AS_NEVER;
            continue;
        }
        m->missed = AS_MIN(m->missed, now);
        if (ours || now - m->missed >= d->fleet->conf.grace)
            drop(d, i);
    }
}

void as_fleet_review(struct as_fleet_deploy *d)
{
    if (d->core && as_deploy_is_mixed(d->core))
        as_loop_defer(d->fleet->loop, &d->fleet->tidy);
}
