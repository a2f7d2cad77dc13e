/* Routing: which calls prefer certain workers, so that they may wait though others have room. */
#include "sim.h"

#define PICK(s, ...)                                                                               \
    ((const as_ns[]){__VA_ARGS__}[below(s, (uint32_t)AS_COUNT(((as_ns[]){__VA_ARGS__})))])

static void draw_conf(struct sim *s, struct as_router_conf *c)
{
    *c = (struct as_router_conf)AS_ROUTER_CONF_DEFAULT;
    c->policy = chance(s, 400) ? AS_ROUTER_LATE_BINDING : (enum as_router)below(s, AS_ROUTERS);
    c->max_wait = PICK(s, 0, 20 * AS_US, 200 * AS_US, 2 * AS_MS);
    c->virtual_nodes = (uint32_t)PICK(s, 1, 10, 100);
    c->fallbacks = (uint32_t)PICK(s, 0, 2, 7);
    c->bound = (uint32_t)PICK(s, 100, 125, 1000);
    c->session_ttl = PICK(s, 1, 100 * AS_US, AS_SEC);
    c->max_sessions = (uint32_t)PICK(s, 1, 2, 1000);
    c->asks = chance(s, 150);
    c->ask_timeout = PICK(s, 1, 10 * AS_US, 200 * AS_US);
    c->ask_again_first = PICK(s, 1 * AS_US, 50 * AS_US);
    c->ask_again_max = 8 * c->ask_again_first;
}

void draw_routing(struct sim *s)
{
    struct scenario *i = &s->scenario;
    uint32_t reports = chance(s, 300) ? 1 + below(s, 40) : 0;

    draw_conf(s, &i->router);
    i->model_keys = (uint32_t)PICK(s, 0, 1, 3, 20);
    i->session_keys = (uint32_t)PICK(s, 0, 1, 4, 50);
    i->answers = (uint32_t)PICK(s, 0, 500, 1000);
    i->silent_router = (uint32_t)PICK(s, 0, 100, 1000);
    for (uint32_t n = 0; n < i->n_calls; n++) {
        struct as_request *q = &s->calls[n].q;

        if (i->model_keys && chance(s, 800))
            q->model_key = 1 + below(s, i->model_keys);
        if (i->session_keys && chance(s, 800))
            q->session_key = 1 + below(s, i->session_keys) * 0x9e3779b97f4a7c15u;
    }
    for (uint32_t n = 0; n < reports; n++)
        schedule(s, between(s, 0, s->end), E_HELD, below(s, 1000), 0);
    if (chance(s, 50))
        schedule(s, between(s, 0, s->end), E_ROUTER, 0, 0);
}

void report_held(struct sim *s, struct worker *w)
{
    uint64_t keys[8];
    uint32_t n = below(s, 8);

    for (uint32_t i = 0; i < n; i++)
        keys[i] = 1 + below(s, s->scenario.model_keys + 1);
    trace(s, "worker %u holds %u models", w->number, n);
    if (!s->multiplexed)
        note_multiplexed(s);
    note_held(s, w, keys, n);
    as_replica_set_held(w->replica, keys, n, s->now);
}

static void draw_choice(struct sim *s, struct as_router_choice *ret)
{
    uint32_t want = below(s, 4), rank = 0;

    ret->n = 0;
    for (uint32_t i = 0; i < want && s->n_workers; i++) {
        const struct worker *w = s->workers[below(s, s->n_workers)];

        rank += below(s, 2);
        if (!w->registered)
            continue;
        ret->of[ret->n].replica = w->replica;
        ret->of[ret->n++].rank = rank;
    }
}

bool op_ask(void *ctx, struct as_request *q, struct as_router_choice *ret)
{
    struct sim *s = ctx;
    struct call *c = AS_CONTAINER(q, struct call, q);

    if (c->asked)
        fail(s, "the router is asked twice for call %u", (uint32_t)(c - s->calls));
    if (chance(s, s->scenario.answers)) {
        draw_choice(s, ret);
        note_choice(s, c, ret);
        return true;
    }
    c->asked = true;
    c->asked_at = s->now;
    c->decided_at = 0;
    c->n_chosen = 0;
    if (!chance(s, s->scenario.silent_router))
        schedule(s, s->now + between(s, 0, 2 * s->scenario.router.ask_timeout), E_ROUTED,
                 (uint32_t)(c - s->calls), 0);
    return false;
}

void op_unask(void *ctx, struct as_request *q)
{
    struct call *c = AS_CONTAINER(q, struct call, q);

    if (!c->asked)
        fail(ctx, "call %u was not asked for", (uint32_t)(c - ((struct sim *)ctx)->calls));
    note_choice(ctx, c, NULL);
}

void answer_router(struct sim *s, uint32_t n)
{
    struct as_router_choice choice;

    if (!s->calls[n].asked || !s->d)
        return;
    draw_choice(s, &choice);
    note_choice(s, &s->calls[n], &choice);
    trace(s, "the router has %u replicas for call %u", choice.n, n);
    as_deployment_routed(s->d, &s->calls[n].q, &choice, s->now);
}

void change_router(struct sim *s)
{
    draw_conf(s, &s->scenario.router);
    trace(s, "router %s, asks %d", as_router_name(s->scenario.router.policy),
          s->scenario.router.asks);
    for (uint32_t i = 0; i < s->n_live; i++)
        s->calls[s->live[i]].placed_at = s->now;
    forget_rules(s);
    if (as_deployment_set_router(s->d, &s->scenario.router, s->now))
        fail(s, "the router is not accepted");
}

static bool has_preferences(enum as_router r)
{
    return r == AS_ROUTER_CONSISTENT_HASH || r == AS_ROUTER_SESSION;
}

bool may_prefer(const struct sim *s)
{
    return s->multiplexed || s->scenario.router.asks || has_preferences(s->scenario.router.policy);
}

bool holds_out(const struct sim *s, const struct call *c)
{
    const struct as_router_conf *r = &s->scenario.router;

    if (c->state != WAITING || c->q.is_mirror || c->q.on_cycle ||
        s->scenario.batch[c->q.model].max_size)
        return false;
    if (r->asks || (s->multiplexed && c->q.model_key))
        return true; /* how long depends on the answers, or on who loads the model */
    return has_preferences(r->policy) && c->q.session_key && /* a suspect begins to wait later */
           (c->was_suspect ||
            s->now <= c->placed_at + 2 * r->max_wait + s->scenario.timer_late + 1);
}
