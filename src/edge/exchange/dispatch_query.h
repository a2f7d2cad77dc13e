/* edge/exchange/dispatch_query.h — a question to the dispatch loop, or a change there, on behalf of
 * a request.
 *
 * What the fleet owns is read and changed on its own loop only. The question is made on the heap,
 * goes there and comes back; when its client has gone meanwhile, nobody hears the answer. With the
 * fleet on this loop it is answered before as_dispatch_query_send returns.
 */
#ifndef AS_EDGE_DISPATCH_QUERY_H
#define AS_EDGE_DISPATCH_QUERY_H

#include "edge/exchange/exchange.h"

struct as_dispatch_query { /* the first member of what the asker allocates with calloc */
    struct as_fleet_job job;
    struct as_exchange *x;                     /* NULL: the client has gone */
    void (*gone)(struct as_dispatch_query *k); /* it has just gone; NULL: nobody cares */
    void (*work)(struct as_dispatch_query *k,
                 struct as_fleet *f);            /* dispatch loop; x is not its to touch */
    void (*answer)(struct as_dispatch_query *k); /* this loop, x is there */
    void (*fini)(struct as_dispatch_query
                     *k); /* the asker's: this loop, frees what the work took; NULL: nothing */
};

/* x waits; the fleet's work is done, then the answer is given and k freed. */
void as_dispatch_query_send(struct as_exchange *x, struct as_dispatch_query *k,
                            void (*work)(struct as_dispatch_query *k, struct as_fleet *f),
                            void (*answer)(struct as_dispatch_query *k));
/* The client has gone. */
static inline void as_dispatch_query_detach(struct as_exchange *x)
{
    struct as_dispatch_query *k = x->query;

    x->query = NULL;
    if (k)
        k->x = NULL;
    if (k && k->gone)
        k->gone(k);
}

#endif
