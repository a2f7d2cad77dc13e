/* Which workers serve which models of a deployment, and when a model that nobody serves is removed.
 * All workers of a deployment serve the same models, except during an update. */
#include "link/fleet/upstream.h"

void as_upstream_init_models(struct as_upstream *u)
{
    as_ns now = as_loop_now(u->fleet->loop);

    for (uint32_t i = 0; i < u->deploy->n_models; i++)
        as_replica_set_model(u->replica, i, as_upstream_serves(u, i), now);
}

void as_upstream_add_model(struct as_upstream *u, uint32_t model)
{
    u->models[model / 64] |= 1ull << model % 64;
    u->deploy->models[model].unserved_since = AS_NEVER;
    if (u->replica)
        as_replica_set_model(u->replica, model, true, as_loop_now(u->fleet->loop));
}

void as_fleet_mark_unserved(struct as_fleet_deployment *d, uint32_t model)
{
    AS_LIST_EACH_ENTRY(u, const struct as_upstream, node, &d->fleet->upstreams) {
        if (u->deploy == d && u->replica)
            as_replica_set_model(u->replica, model, false, as_loop_now(d->fleet->loop));
    }
}

/* --- removing models --- */

/* Is there a process of ours that stays and has not registered its models yet? */
static bool is_awaited(const struct as_fleet_deployment *d)
{
    for (struct as_list *n = d->fleet->processes.next; n != &d->fleet->processes; n = n->next) {
        const struct as_fleet_process *t = AS_LIST_ENTRY(n, struct as_fleet_process, node);

        if (!t->retiring && (!t->up || !t->up->ops->is_up(t->up)) &&
            as_str_eq(as_str_of(t->deployment), as_str_of(d->name)))
            return true;
    }
    return false;
}

/* A bit for each model that some worker has: among those that stay, and those that retire. */
struct model_holders {
    uint64_t stay[AS_DEPLOYMENT_MODELS_MAX / 64], end[AS_DEPLOYMENT_MODELS_MAX / 64];
    bool served; /* some worker stays and has slots */
};

static bool has_model(const uint64_t *bits, uint32_t model)
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

void as_fleet_drop_model(struct as_fleet_deployment *d, uint32_t model)
{
    struct as_fleet *f = d->fleet;
    struct as_fleet_model *m = &d->models[model];
    struct as_registry *g = as_registry_without_model(f->registry, d->number, m->index);

    as_fleet_record_gone(d, model);
    m->gone = true;
    m->order = ++d->n_gone;
    as_fleet_note_call_target(d);
    as_log_event(f->log, AS_LOG_INFO, "model_gone", "deployment=%s model=%s version=%s",
                 as_id_shown_z(d->name), m->name, m->version);
    as_fleet_publish(f, g);
    as_deployment_drop_model(d->core, model, as_loop_now(f->loop));
}

/* Since when no worker that stays has the model. 0: its last worker was asked to end, so nobody
 * brings it back; a worker that died may come again. */
static as_ns model_unserved_since(const struct as_fleet_model *m, const struct model_holders *h,
                                  uint32_t i, as_ns now)
{
    if (has_model(h->stay, i))
        return AS_NEVER;
    return has_model(h->end, i) ? 0 : AS_MIN(m->unserved_since, now);
}

/* Not called where the last worker ends: that may be inside a callback of core. */
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
        m->unserved_since = model_unserved_since(m, &h, i, now);
        if (!awaited && m->unserved_since != AS_NEVER &&
            (m->unserved_since == 0 || now - m->unserved_since >= d->fleet->conf.grace))
            as_fleet_drop_model(d, i);
    }
}

void as_fleet_schedule_cleanup(struct as_fleet_deployment *d)
{
    if (d->core && as_deployment_is_mixed(d->core))
        as_loop_defer(d->fleet->loop, &d->fleet->cleanup);
}

/* --- reusing places --- */

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
        if (!has_model(h.stay, i) && !has_model(h.end, i) && as_deployment_is_unused(d->core, i) &&
            (best == AS_DEPLOYMENT_MODELS_MAX || d->models[i].order < d->models[best].order))
            best = i;
    }
    return best;
}
