/* edge/exchange/dispatch_query.h — a question to the dispatch loop, or a change there, on behalf of a request.
 *
 * What the fleet owns is read and changed on its own loop only. The question is made on the heap,
 * goes there and comes back; when its client has gone meanwhile, nobody hears the answer. With the
 * fleet on this loop it is answered before as_ask_send returns.
 */
#ifndef AS_EDGE_ASK_H
#define AS_EDGE_ASK_H

#include "edge/exchange/exchange.h"

struct as_ask { /* the first member of what the asker allocates with calloc */
    struct as_errand errand;
    struct as_exchange *x;                              /* NULL: the client has gone */
    void (*gone)(struct as_ask *k);                     /* it has just gone; NULL: nobody cares */
    void (*work)(struct as_ask *k, struct as_fleet *f); /* dispatch loop; x is not its to touch */
    void (*answer)(struct as_ask *k);                   /* this loop, x is there */
    void (*fini)(
        struct as_ask *k); /* the asker's: this loop, frees what the work took; NULL: nothing */
};

/* x waits; the fleet's work is done, then the answer is given and k freed. */
void as_ask_send(struct as_exchange *x, struct as_ask *k,
                 void (*work)(struct as_ask *k, struct as_fleet *f),
                 void (*answer)(struct as_ask *k));
/* The client has gone. */
static inline void as_ask_forget(struct as_exchange *x)
{
    struct as_ask *k = x->ask;

    x->ask = NULL;
    if (k)
        k->x = NULL;
    if (k && k->gone)
        k->gone(k);
}

#endif
