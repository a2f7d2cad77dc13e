/* Draws from the seed: the graph, the replicas, what requests do, and how much trouble comes. */
#include "calls.h"

uint32_t below(struct sim *s, uint32_t n)
{
    return (uint32_t)as_rand_below(&s->rand, n);
}

bool chance(struct sim *s, uint32_t per_mille)
{
    return below(s, 1000) < per_mille;
}

static uint32_t pick(struct sim *s, const uint32_t *list, uint32_t n)
{
    return list[below(s, n)];
}
#define PICK(s, ...)                                                                               \
    pick(s, (const uint32_t[]){__VA_ARGS__}, (uint32_t)AS_COUNT(((uint32_t[]){__VA_ARGS__})))

static void draw_graph(struct sim *s)
{
    uint32_t dense = PICK(s, 200, 400, 800);
    bool ring = chance(s, 400);

    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct node *n = &s->nodes[i];

        for (uint32_t k = 0; k < s->n_nodes; k++) {
            if (chance(s, dense))
                n->calls |= 1u << k;
        }
        if (ring)
            n->calls |= 1u << (i + 1) % s->n_nodes;
        n->slots = PICK(s, 1, 1, 1, 1, 2, 3);
        n->wanted = PICK(s, 1, 1, 1, 2, 3);
        n->prefetch = PICK(s, 0, 0, 0, 1, 4);
        n->max_queued = chance(s, 150) ? 1 + (int64_t)below(s, 4) : -1;
        n->surge = chance(s, 500);
    }
}

void draw_scenario(struct sim *s)
{
    bool quiet = chance(s, 400); /* nothing but load: each deadlock would stay */

    s->n_nodes = 1 + below(s, DEPLOYMENTS_MAX);
    draw_graph(s);
    s->roots = PICK(s, 2, 4, 8, 16, 40);
    s->fans_out = PICK(s, 100, 500, 900);
    s->forgets = PICK(s, 0, 0, 0, 200);
    s->depth_max = PICK(s, 2, 3, 4, 8, 24);
    s->fan_max = PICK(s, 1, 1, 2, 3, 5);
    s->idempotent = PICK(s, 0, 500, 1000);
    s->pins = PICK(s, 0, 0, 0, 100);
    s->refuses = PICK(s, 0, 0, 0, 0, 100);
    s->fixed = true;
    if (quiet)
        return;
    s->stops = PICK(s, 0, 500, 1000);
    s->kills = PICK(s, 0, 0, 1, 2, 4);
    s->drains = PICK(s, 0, 0, 1, 3);
    s->leaves = PICK(s, 0, 0, 2, 10);
    s->downs = PICK(s, 0, 0, 0, 2);
    s->grants = PICK(s, 0, 0, 0, 3);
    s->fixed = !s->grants;
    s->deadlines = PICK(s, 0, 0, 0, 300);
}

void draw_execution(struct sim *s, struct call *c)
{
    c->made = c->open = c->to_make = 0;
    c->awaits = !chance(s, s->forgets);
    c->at_once = 1 + (chance(s, 500) ? below(s, s->fan_max) : 0);
    if (c->depth < s->depth_max && s->nodes[c->deployment].calls && chance(s, s->fans_out))
        c->to_make = 1 + below(s, s->fan_max);
}
