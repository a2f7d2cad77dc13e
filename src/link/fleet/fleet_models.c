/* Which workers serve which models of a deployment, and when nobody serves one any more. All serve
 * the same but while one version takes the place of another. */
#include "link/native/link.h"

void as_upstream_init_models(struct as_upstream *u)
{
    as_ns now = as_loop_now(u->fleet->loop);

    for (uint32_t i = 0; i < u->deploy->n_models; i++)
        as_replica_set_model(u->replica, i, as_upstream_serves(u, i), now);
}

void as_upstream_add_model(struct as_upstream *u, uint32_t model)
{
    u->models[model / 64] |= 1ull << model % 64;
    u->deploy->models[model].missed = AS_NEVER;
    if (u->replica)
        as_replica_set_model(u->replica, model, true, as_loop_now(u->fleet->loop));
}

void as_fleet_mark_unserved(struct as_fleet_deployment *d, uint32_t model)
{
    AS_LIST_EACH(n, &d->fleet->upstreams)
    {
        const struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);

        if (u->deploy == d && u->replica)
            as_replica_set_model(u->replica, model, false, as_loop_now(d->fleet->loop));
    }
}

/* --- models that go --- */

/* Is there a process of ours that is to stay and has not told its models yet? */
static bool is_awaited(const struct as_fleet_deployment *d)
{
    for (struct as_list *n = d->fleet->tokens.next; n != &d->fleet->tokens; n = n->next) {
        const struct as_fleet_add_process *t = AS_LIST_ENTRY(n, struct as_fleet_add_process, node);

        if (!t->retiring && (!t->link || t->link->state != AS_LINK_READY) &&
            as_str_eq(as_str_of(t->deployment), as_str_of(d->name)))
            return true;
    }
    return false;
}

/* A bit for each model that somebody has: among workers that stay, among those that are to end. */
struct model_holders {
    uint64_t stay[AS_DEPLOYMENT_MODELS_MAX / 64], end[AS_DEPLOYMENT_MODELS_MAX / 64];
    bool served; /* somebody stays, and has slots */
};

static bool has(const uint64_t *bits, uint32_t model)
{
    return bits[model / 64] >> model % 64 & 1u;
}

static void collect_holders(const struct as_fleet_deployment *d, struct model_holders *ret_h)
{
    *ret_h = (struct model_holders){0};
    for (struct as_list *n = d->fleet->upstreams.next; n != &d->fleet->upstreams; n = n->next) {
        const struct as_upstream *u = AS_LIST_ENTRY(n, struct as_upstream, node);
        uint64_t *bits = u->retiring ? ret_h->end : ret_h->stay;

        if (u->deploy != d)
            continue;
        for (size_t i = 0; i < AS_COUNT(u->models); i++)
            bits[i] |= u->models[i];
        ret_h->served = ret_h->served || (u->replica && !u->retiring);
    }
}

static void drop_model(struct as_fleet_deployment *d, uint32_t model)
{
    struct as_fleet *f = d->fleet;
    struct as_fleet_model *m = &d->models[model];
    struct as_registry *g = as_registry_without_model(f->registry, d->number, m->index);

    m->gone = true;
    m->order = ++d->n_gone;
    as_log_event(f->log, AS_LOG_INFO, "model_gone", "deployment=%s model=%s version=%s", d->name,
                 m->name, m->version);
    if (g == f->registry)
        as_registry_unref(g);
    else
        as_fleet_publish(f, g);
    as_deployment_drop_model(d->core, model, as_loop_now(f->loop));
}

/* Since when nobody that stays has it. 0: long ago, because who had it last was asked to end; one
 * that has died may come again. */
static as_ns missed(const struct as_fleet_model *m, const struct model_holders *h, uint32_t i,
                    as_ns now)
{
    if (has(h->stay, i))
        return AS_NEVER;
    return has(h->end, i) ? 0 : AS_MIN(m->missed, now);
}

/* Not where the last one goes: core may be in the middle of something. */
void as_fleet_drop_unserved_models(struct as_fleet_deployment *d)
{
    as_ns now = as_loop_now(d->fleet->loop);
    struct model_holders h;
    bool awaited;

    if (!d->core || d->deleted || !as_deployment_is_mixed(d->core))
        return;
    collect_holders(d, &h);
    awaited = !h.served || is_awaited(d);
    for (uint32_t i = 0; i < d->n_models; i++) {
        struct as_fleet_model *m = &d->models[i];

        if (m->gone)
            continue;
        m->missed = missed(m, &h, i, now);
        if (!awaited && m->missed != AS_NEVER &&
            (m->missed == 0 || now - m->missed >= d->fleet->conf.grace))
            drop_model(d, i);
    }
}

void as_fleet_schedule_cleanup(struct as_fleet_deployment *d)
{
    if (d->core && as_deployment_is_mixed(d->core))
        as_loop_defer(d->fleet->loop, &d->fleet->tidy);
}

/* --- places that are used again --- */

uint32_t as_fleet_find_free_place(const struct as_fleet_deployment *d)
{
    uint32_t best = AS_DEPLOYMENT_MODELS_MAX;
    bool summed = false;
    struct model_holders h;

    for (uint32_t i = 0; i < d->n_models; i++) {
        if (!d->models[i].gone)
            continue;
        if (!summed)
            collect_holders(d, &h);
        summed = true;
        if (!has(h.stay, i) && !has(h.end, i) && as_deployment_is_unused(d->core, i) &&
            (best == AS_DEPLOYMENT_MODELS_MAX || d->models[i].order < d->models[best].order))
            best = i;
    }
    return best;
}
