#include "link/call/call_graph.h"

#define WORDS AS_CALL_GRAPH_WORDS

struct set {
    uint64_t bits[WORDS];
};

static void insert(uint64_t *bits, uint32_t node)
{
    bits[node / 64] |= UINT64_C(1) << node % 64;
}

static void erase(uint64_t *bits, uint32_t node)
{
    bits[node / 64] &= ~(UINT64_C(1) << node % 64);
}

static bool contains(const uint64_t *bits, uint32_t node)
{
    return bits[node / 64] >> node % 64 & 1u;
}

/* All nodes that can be reached from `start` along the edges (backwards: from which it can be
 * reached), with itself. Each node is visited once. */
static void reach(const struct as_call_graph *g, uint32_t start, bool backwards, struct set *ret_s)
{
    struct set todo = {0};
    bool found = true;

    *ret_s = (struct set){0};
    insert(todo.bits, start);
    insert(ret_s->bits, start);
    while (found) {
        found = false;
        for (uint32_t w = 0; w < WORDS; w++) {
            while (todo.bits[w]) {
                uint32_t node = w * 64 + (uint32_t)__builtin_ctzll(todo.bits[w]);
                const struct as_call_graph_node *n = g->nodes[node];

                erase(todo.bits, node);
                for (uint32_t i = 0; n && i < WORDS; i++) {
                    uint64_t fresh = (backwards ? n->from[i] : n->to[i]) & ~ret_s->bits[i];

                    ret_s->bits[i] |= fresh;
                    todo.bits[i] |= fresh;
                    found = found || fresh;
                }
            }
        }
    }
}

/* The nodes that lie on a cycle with `node`, and itself. */
static void component_of(const struct as_call_graph *g, uint32_t node, struct set *ret_s)
{
    struct set back;

    reach(g, node, false, ret_s);
    reach(g, node, true, &back);
    for (uint32_t i = 0; i < WORDS; i++)
        ret_s->bits[i] &= back.bits[i];
}

/* An edge lies on a cycle if both of its nodes are in the same component. */
static void mark_component(struct as_call_graph *g, const struct set *s)
{
    for (uint32_t node = 0; node < AS_CALL_GRAPH_NODES; node++) {
        struct as_call_graph_node *n = g->nodes[node];

        if (!n || !contains(s->bits, node))
            continue;
        for (uint32_t i = 0; i < WORDS; i++)
            n->cyclic[i] = n->to[i] & s->bits[i];
    }
}

static struct as_call_graph_node *get_node(struct as_call_graph *g, uint32_t node)
{
    AS_ASSERT(node < AS_CALL_GRAPH_NODES);
    if (!g->nodes[node])
        g->nodes[node] = as_xalloc(sizeof(*g->nodes[node]));
    return g->nodes[node];
}

void as_call_graph_add(struct as_call_graph *g, uint32_t from, uint32_t to)
{
    struct set s;

    insert(get_node(g, from)->to, to);
    insert(get_node(g, to)->from, from);
    component_of(g, from, &s);
    if (contains(s.bits, to))
        mark_component(g, &s);
}

/* Cycles may have gone with the node. */
static void mark_all(struct as_call_graph *g)
{
    struct set done = {0};

    for (uint32_t node = 0; node < AS_CALL_GRAPH_NODES; node++) {
        struct set s;

        if (!g->nodes[node] || contains(done.bits, node))
            continue;
        component_of(g, node, &s);
        mark_component(g, &s);
        for (uint32_t i = 0; i < WORDS; i++)
            done.bits[i] |= s.bits[i];
    }
}

void as_call_graph_remove(struct as_call_graph *g, uint32_t node)
{
    if (!g->nodes[node])
        return;
    free(g->nodes[node]);
    g->nodes[node] = NULL;
    for (uint32_t i = 0; i < AS_CALL_GRAPH_NODES; i++) {
        if (!g->nodes[i])
            continue;
        erase(g->nodes[i]->to, node);
        erase(g->nodes[i]->cyclic, node);
        erase(g->nodes[i]->from, node);
    }
    mark_all(g);
}

void as_call_graph_fini(struct as_call_graph *g)
{
    for (uint32_t i = 0; i < AS_CALL_GRAPH_NODES; i++)
        free(g->nodes[i]);
    *g = (struct as_call_graph){0};
}
