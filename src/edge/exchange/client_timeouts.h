/* edge/exchange/client_timeouts.h — requests whose client must do something: send the rest, or take
 * the answer.
 *
 * A client that stops in the middle holds memory, a part of the byte budget, and a handler that
 * waits for room. So each request is checked_at at once per body_timeout while its body, or a
 * message of its stream, comes in, and once per send_timeout while something of its answer waits
 * for the client; one that did not move by min_progress is given up. Lists are in the order of the
 * last look: a sweep touches only what is due, and answers of which nothing waits, which it asks
 * after every other second. Exact to a second and two sweeps.
 *
 * While there is no room in a budget (base/memory/budget.h), those who hold much of it must be
 * faster: a request that at its pace would not be there, or an answer that would not be taken,
 * within the timeout is given up. Nobody else is judged by that. Thread: the edge's loop.
 */
#ifndef AS_EDGE_CLIENT_TIMEOUTS_H
#define AS_EDGE_CLIENT_TIMEOUTS_H

#include "edge/exchange/exchange.h"

/* Between two sweeps. */
#define AS_CLIENT_TIMEOUTS_SWEEP_MIN (50 * AS_MS)
#define AS_CLIENT_TIMEOUTS_SWEEP_MAX AS_SEC

/* How often to sweep, so that the shortest timeout of clients is exact to a quarter. */
as_ns as_client_timeouts_sweep_interval(const struct as_edge_conf *conf);

void as_client_timeouts_init(struct as_edge *e);

/* It waits for somebody else now, or is gone. */
static inline void as_client_timeouts_stop(struct as_exchange *x)
{
    if (!as_list_empty(&x->timeout_node))
        as_list_remove(&x->timeout_node);
}

/* Time is that of the last sweep: reading the clock for each request is not worth it. */
static inline void as_client_timeouts_start(struct as_exchange *x, struct as_list *list,
                                            uint64_t mark)
{
    x->checked_at = x->edge->last_sweep;
    x->mark = mark;
    as_client_timeouts_stop(x);
    as_list_push(list, &x->timeout_node);
}

/* Its body will come. */
static inline void as_client_timeouts_start_upload(struct as_exchange *x)
{
    as_client_timeouts_start(x, &x->edge->uploads, 0);
}

/* It was answered, or is about to be, or its answer has begun. */
static inline void as_client_timeouts_start_answer(struct as_exchange *x)
{
    as_client_timeouts_start(x, &x->edge->new_answers, 0);
}

/* Every sweep_every; begin first. */
void as_client_timeouts_begin_sweep(struct as_edge *e);
void as_client_timeouts_sweep(struct as_edge *e, as_ns now);

/* Its request moved on by too little: it is answered so. */
void as_client_timeouts_expire_upload(struct as_exchange *x);
/* Others had no room while it held much: likewise. */
void as_client_timeouts_evict_upload(struct as_exchange *x);
/* Would `left` bytes take longer than `timeout` (0: never), at the pace of `moved` in so much time?
 * A pace is known after a second; the time may be as much shorter as a sweep is from the next. */
bool as_client_timeouts_is_slow(const struct as_edge *e, as_ns time, uint64_t moved, uint64_t left,
                                as_ns timeout);
/* How long may a connection take nothing of what waits for it? 0: for ever. */
as_ns as_client_timeouts_of_output(const struct as_conn *c);

#endif
