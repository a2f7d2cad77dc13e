/* edge/patience.h — requests whose client must do something: send the rest, or take the answer.
 *
 * A client that stops in the middle holds memory, a part of the byte budget, and a handler that
 * waits for room. So each request is looked at once per body_timeout while its body, or a message
 * of its stream, comes in, and once per send_timeout while something of its answer waits for the
 * client; one that did not move by min_progress is given up. Lists are in the order of the last
 * look: a sweep touches only what is due, and answers of which nothing waits, which it asks after
 * every other second. Exact to a second and two sweeps. Thread: the edge's loop.
 */
#ifndef AS_EDGE_PATIENCE_H
#define AS_EDGE_PATIENCE_H

#include "edge/exchange.h"

/* Between two sweeps. */
#define AS_PATIENCE_LEAST (50 * AS_MS)
#define AS_PATIENCE_MOST  AS_SEC

/* How often to sweep, so that the shortest timeout of clients is exact to a quarter. */
as_ns as_patience_every(const struct as_edge_conf *conf);

void as_patience_init(struct as_edge *e);

/* It waits for somebody else now, or is gone. */
static inline void as_patience_stop(struct as_exchange *x)
{
    if (!as_list_empty(&x->patience))
        as_list_remove(&x->patience);
}

/* Time is that of the last sweep: reading the clock for each request is not worth it. */
static inline void as_patience_look(struct as_exchange *x, struct as_list *list, uint64_t mark)
{
    x->looked = x->edge->swept;
    x->mark = mark;
    as_patience_stop(x);
    as_list_push(list, &x->patience);
}

/* Its body will come. */
static inline void as_patience_upload(struct as_exchange *x)
{
    as_patience_look(x, &x->edge->uploads, 0);
}

/* It was answered, or is about to be, or its answer has begun. */
static inline void as_patience_answer(struct as_exchange *x)
{
    as_patience_look(x, &x->edge->new_answers, 0);
}

void as_patience_sweep(struct as_edge *e, as_ns now); /* every sweep_every */

/* Its request moved on by too little: it is answered so. */
void as_patience_give_up(struct as_exchange *x);

#endif
