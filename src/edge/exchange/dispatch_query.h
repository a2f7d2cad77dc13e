/* edge/exchange/dispatch_query.h — runs a function on the dispatch loop on behalf of a request.
 *
 * The fleet may only be read and changed on its own loop. A query is allocated by its sender, runs
 * there, and comes back to the edge's loop, where it is freed; it survives its client. If the fleet
 * is on this loop, the query is done before as_dispatch_query_send returns. Thread: the edge's
 * loop, except `work`.
 */
#ifndef AS_EDGE_DISPATCH_QUERY_H
#define AS_EDGE_DISPATCH_QUERY_H

#include "edge/exchange/exchange.h"

struct as_dispatch_query { /* the first member of a struct allocated with calloc */
    struct as_fleet_job job;
    struct as_exchange *x;                     /* NULL: the client has gone */
    void (*gone)(struct as_dispatch_query *k); /* the client has just gone; may be NULL */
    /* on the dispatch loop; must not use x */
    void (*work)(struct as_dispatch_query *k, struct as_fleet *f);
    void (*answer)(struct as_dispatch_query *k); /* on the edge's loop; the client is there */
    void (*fini)(struct as_dispatch_query *k);   /* frees the results of `work`; may be NULL */
};

/* Sets x to WAITING, runs `work`, then `answer` if the client is still there, then frees k. */
void as_dispatch_query_send(struct as_exchange *x, struct as_dispatch_query *k,
                            void (*work)(struct as_dispatch_query *k, struct as_fleet *f),
                            void (*answer)(struct as_dispatch_query *k));
/* The client has gone. */
static inline void as_dispatch_query_detach(struct as_exchange *x)
{
    struct as_dispatch_query *k = x->pending.query;

    x->pending.query = NULL;
    if (k)
        k->x = NULL;
    if (k && k->gone)
        k->gone(k);
}

#endif
