/* link/call/call_graph.h — which deployment calls which, and which of these edges lie on a cycle.
 *
 * A request that executes keeps its slot while it waits for the calls that it has made. If
 * deployments call each other in a circle, requests that hold the slots of all of them could wait
 * for each other for ever. So a call along an edge on a cycle waits for no slot
 * (as_request.on_cycle). The edge is entered before that is decided. Hence of the edges of a cycle
 * the one that was seen last has no call that waits for a slot, and calls that went along the
 * others before the cycle was complete can go on: no call needs to be changed when a cycle is
 * found.
 *
 * Nodes are the places of deployments in the fleet's table. An edge stays until one of its nodes is
 * removed. Memory: 384 bytes for each deployment that calls or is called. Thread: the dispatch
 * loop.
 */
#ifndef AS_LINK_CALL_GRAPH_H
#define AS_LINK_CALL_GRAPH_H

#include "base/defs.h"

#define AS_CALL_GRAPH_NODES 1024u

#define AS_CALL_GRAPH_WORDS (AS_CALL_GRAPH_NODES / 64)

struct as_call_graph_node {
    uint64_t to[AS_CALL_GRAPH_WORDS];     /* a bit for each node that it calls … */
    uint64_t cyclic[AS_CALL_GRAPH_WORDS]; /* … if that edge lies on a cycle */
    uint64_t from[AS_CALL_GRAPH_WORDS];   /* … and for each that calls it */
};

struct as_call_graph {
    struct as_call_graph_node *nodes[AS_CALL_GRAPH_NODES]; /* NULL: it has no edges */
};

/* A struct of zeros is an empty graph. */
void as_call_graph_fini(struct as_call_graph *g);

/* Enters the edge if it is new, and finds the edges that lie on a cycle with it. A node that calls
 * itself is a cycle. */
void as_call_graph_add(struct as_call_graph *g, uint32_t from, uint32_t to);
/* The deployment is gone: removes its edges. */
void as_call_graph_remove(struct as_call_graph *g, uint32_t node);

static inline bool as_call_graph_has(const struct as_call_graph *g, uint32_t from, uint32_t to)
{
    return g->nodes[from] && g->nodes[from]->to[to / 64] >> to % 64 & 1u;
}

/* Does a call along this edge wait for no slot? The edge is entered if it is new. */
static inline bool as_call_graph_is_cyclic(struct as_call_graph *g, uint32_t from, uint32_t to)
{
    if (__builtin_expect(!as_call_graph_has(g, from, to), 0))
        as_call_graph_add(g, from, to);
    return g->nodes[from]->cyclic[to / 64] >> to % 64 & 1u;
}

#endif
