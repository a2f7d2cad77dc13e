/* What client loops know of the fleet: snapshots of the registry of models and of the routes of
 * applications, given out when they change. */
#include "link/fleet/fleet_deployment.h"

#include "base/err.h"

static void on_registry_letter(struct as_letter *letter, void *to);

/* One is allocated for each snapshot and client: snapshots are rare, and a letter inside the client
 * could still be under way. */
struct registry_letter {
    struct as_letter letter;
    struct as_registry *registry;
    struct as_routes *routes;
    bool models_pending;
};

static bool are_models_pending(const struct as_fleet *f)
{
    for (uint32_t i = 0; i < f->n_deploys; i++) {
        if (as_fleet_flag(&f->deploys[i]->expected) && !as_fleet_flag(&f->deploys[i]->registered))
            return true;
    }
    return !as_fleet_flag(&f->accepting);
}

void as_fleet_republish(struct as_fleet *f)
{
    AS_LIST_EACH_ENTRY(c, struct as_fleet_client, node, &f->clients) {
        struct registry_letter *l = as_xalloc(sizeof(*l));

        l->registry = as_registry_ref(f->registry);
        l->routes = as_routes_ref(f->routes);
        l->models_pending = are_models_pending(f);
        l->letter.open = on_registry_letter;
        if (c->local)
            on_registry_letter(&l->letter, c);
        else
            as_mbox_post(&c->box, &l->letter);
    }
}

void as_fleet_publish(struct as_fleet *f, struct as_registry *g)
{
    bool same = g == f->registry;

    as_registry_unref(f->registry);
    f->registry = g;
    if (!same)
        as_fleet_republish(f);
}

static void on_registry_letter(struct as_letter *letter, void *to)
{
    struct registry_letter *l = AS_CONTAINER(letter, struct registry_letter, letter);
    struct as_fleet_client *c = to;

    as_registry_unref(c->registry);
    as_routes_unref(c->routes);
    c->registry = l->registry;
    c->routes = l->routes;
    c->models_pending = l->models_pending;
    free(l);
    if (c->on_registry)
        c->on_registry(c);
}

/* --- whether all loops have them --- */

struct confirm_round {
    struct as_fleet *fleet;
    uint64_t id;
    uint32_t n_out; /* letters that have not come back */
};

struct confirm_letter {
    struct as_letter letter;
    struct confirm_round *round;
};

static void end_round_if_done(struct confirm_round *r)
{
    struct as_fleet *f = r->fleet;

    if (r->n_out)
        return;
    f->ops.on_confirmed(f->ctx, r->id);
    free(r);
}

static void on_confirm_returned(struct as_letter *letter, void *to AS_UNUSED)
{
    struct confirm_letter *l = AS_CONTAINER(letter, struct confirm_letter, letter);
    struct confirm_round *r = l->round;

    free(l);
    r->n_out--;
    end_round_if_done(r);
}

/* On the client's loop. Letters are opened in their order: it has opened those before. */
static void on_confirm_letter(struct as_letter *letter, void *to)
{
    const struct as_fleet_client *c = to;

    letter->open = on_confirm_returned;
    as_mbox_post(c->fleet->box, letter);
}

void as_fleet_confirm(struct as_fleet *f, uint64_t id)
{
    struct confirm_round *r = as_xalloc(sizeof(*r));

    *r = (struct confirm_round){.fleet = f, .id = id};
    AS_LIST_EACH_ENTRY(c, struct as_fleet_client, node, &f->clients) {
        struct confirm_letter *l;

        if (c->local)
            continue;
        l = as_xalloc(sizeof(*l));
        l->round = r;
        l->letter.open = on_confirm_letter;
        r->n_out++; /* before it can come back, which is in a later turn of this loop */
        as_mbox_post(&c->box, &l->letter);
    }
    end_round_if_done(r);
}

/* --- routes --- */

bool as_fleet_set_route(struct as_fleet *f, struct as_str deployment, struct as_str prefix)
{
    struct as_routes *g = as_routes_set(f->routes, deployment, prefix);
    bool same = g == f->routes;

    if (!g)
        return false;
    as_routes_unref(f->routes);
    f->routes = g;
    if (same)
        return true;
    as_log_event(f->log, AS_LOG_INFO, "route", "deployment=%.*s prefix=%.*s",
                 AS_STR_FMT(as_id_shown(deployment)), AS_STR_FMT(prefix));
    as_fleet_republish(f);
    return true;
}

int as_fleet_set_loaded(struct as_fleet *f, struct as_str model, bool loaded)
{
    struct as_registry *g = as_registry_set_loaded(f->registry, model, loaded);

    if (!g)
        return AS_ENOTFOUND;
    as_fleet_publish(f, g);
    return 0;
}
