/* How replicas are chosen: the settings of each deployment, and what its requests and replicas tell
 * the router. */
#include "base/err.h"
#include "link/call/route_key.h"
#include "link/fleet/fleet_deployment.h"
#include "link/fleet/policy/policy.h"
#include "link/fleet/router_settings.h"
#include "link/fleet/upstream.h"

#include <stdlib.h>
#include <string.h>

struct as_router_conf as_fleet_router_conf(const struct as_fleet_deployment *d)
{
    struct as_router_conf c = d->fleet->conf.deployment.router;

    as_router_settings_apply(&d->router, &c);
    c.asks = d->policy || d->plugin.table;
    return c;
}

void as_fleet_set_router(struct as_fleet_deployment *d, const struct as_frame_router *said)
{
    struct as_router_conf conf;
    int err;

    if (as_frame_router_eq(&d->router, said))
        return; /* another worker has said it: sessions must not be forgotten */
    d->router = *said;
    conf = as_fleet_router_conf(d);
    if (said->policy[0] && as_router_of(said->policy) < 0)
        as_log_event(d->fleet->log, AS_LOG_WARN, "router_unknown",
                     "deployment=%s router=%s action=\"%s is used\"", as_id_shown_z(d->name),
                     said->policy, as_router_name(conf.policy));
    if (!d->core)
        return;
    err = as_deployment_set_router(d->core, &conf, as_loop_now(d->fleet->loop));
    AS_ASSERT(!err); /* the ranges were checked */
    as_log_event(d->fleet->log, AS_LOG_INFO, "router", "deployment=%s router=%s",
                 as_id_shown_z(d->name), as_router_name(conf.policy));
    as_fleet_record_settings(d);
}

/* --- routers of the user's own --- */

void as_fleet_begin_plugin(struct as_fleet_deployment *d)
{
    char why[256];

    if (!d->core && as_plugin_begin(&d->plugin, as_id_shown(as_str_of(d->name)), why, sizeof(why)))
        as_log_event(d->fleet->log, AS_LOG_ERROR, "router_plugin", "deployment=%s reason=\"%s\"",
                     as_id_shown_z(d->name), why);
}

void as_fleet_free_router(struct as_fleet_deployment *d)
{
    as_plugin_end(&d->plugin);
    as_policy_free(d->policy);
    d->policy = NULL;
    memset(d->router_outcomes, 0, sizeof(d->router_outcomes));
}

/* Of a body, as a router in C sees it. */
static struct as_str first_bytes(const struct as_payload *p)
{
    const struct as_tensor *t = p->msg.n_tensors ? &p->msg.tensors[0] : NULL;

    if (p->kind == AS_FRAME_CALL || p->kind == AS_FRAME_HTTP)
        return p->body;
    return t ? (struct as_str){(const char *)t->data, t->nbytes} : (struct as_str){0};
}

bool as_fleet_ask_router(struct as_fleet_deployment *d, struct as_call *c,
                         struct as_router_choice *ret)
{
    ret->n = 0;
    if (!d->plugin.table)
        return !as_policy_ask(d, c);
    /* no choice: the policy decides, and that is counted */
    (void)as_plugin_choose(&d->plugin, d->core, &c->core, first_bytes(&c->payload),
                           as_loop_now(d->fleet->loop), ret);
    return true;
}

void as_fleet_note_sent(struct as_upstream *u, struct as_call *c)
{
    c->routed_to = u->policy_number;
    if (c->routed_to)
        as_policy_note_sent(u->deploy, c);
    if (u->deploy->plugin.table) {
        as_plugin_note_sent(&u->deploy->plugin, u->replica);
        u->plugin_sent++;
    }
}

void as_fleet_note_ended(struct as_upstream *u, struct as_call *c)
{
    if (c->routed_to)
        as_policy_note_ended(u->deploy, c);
    if (u->plugin_sent) {
        as_plugin_note_ended(&u->deploy->plugin, u->replica);
        u->plugin_sent--;
    }
}

void as_fleet_note_upstream_end(struct as_upstream *u, bool died)
{
    as_policy_on_upstream_end(u, died);
    for (; u->plugin_sent; u->plugin_sent--)
        as_plugin_note_ended(&u->deploy->plugin, u->replica);
}

struct as_route_ids as_fleet_find_ids(const struct as_fleet_deployment *d,
                                      const struct as_payload *p)
{
    const char *header = d->router.session_header;

    return as_route_find_ids(p, header[0] ? as_str_of(header) : AS_STR(AS_ROUTE_SESSION_HEADER));
}

void as_fleet_set_keys(const struct as_fleet_deployment *d, struct as_call *c)
{
    uint64_t seed = d->fleet->conf.deployment.seed;
    struct as_route_ids ids = as_fleet_find_ids(d, &c->payload);

    c->core.model_key = ids.model.n ? as_route_key(ids.model, seed) : 0;
    c->core.session_key = ids.session.n ? as_route_key(ids.session, seed) : 0;
}

uint32_t as_fleet_set_held(const struct as_fleet_deployment *d, struct as_replica *r,
                           struct as_str models)
{
    uint64_t *keys;
    const uint64_t *last;
    uint32_t n, most = d->fleet->conf.max_models;

    if (as_route_read_models(models, d->fleet->conf.deployment.seed, &keys, &n))
        return 0; /* a worse choice only */
    last = n > most ? keys + (n - most) : keys;
    as_replica_set_held(r, last, AS_MIN(n, most), as_loop_now(d->fleet->loop));
    free(keys);
    return n;
}

void as_fleet_set_place(struct as_replica *r, struct as_str name)
{
    as_replica_set_place(r, as_str_hash(name), (struct as_place){0});
}
