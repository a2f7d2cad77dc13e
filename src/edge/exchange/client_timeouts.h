/* edge/exchange/client_timeouts.h — timeouts of requests that wait for their client: for the rest
 * of the request, or until the client reads the answer.
 *
 * A client that stops halfway holds memory and a part of the byte budgets. So a request is checked
 * once per body_timeout while its body (or a message of its stream) is received, and once per
 * send_timeout while a part of its answer waits to be sent. If fewer than min_progress bytes moved
 * since the last check, the request fails. The lists are in the order of the last check, so a sweep
 * only touches requests that are due, and answers of which nothing waits, every other second.
 * Precision: a second and two sweeps.
 *
 * While a budget (base/memory/budget.h) has no room, requests that hold much of it are evicted if
 * at their pace the transfer would not complete within the timeout. Thread: the edge's loop.
 */
#ifndef AS_EDGE_CLIENT_TIMEOUTS_H
#define AS_EDGE_CLIENT_TIMEOUTS_H

#include "edge/exchange/exchange.h"

/* Bounds of the interval between two sweeps. */
#define AS_CLIENT_TIMEOUTS_SWEEP_MIN (50 * AS_MS)
#define AS_CLIENT_TIMEOUTS_SWEEP_MAX AS_SEC

/* The interval between two sweeps: a quarter of the shortest timeout. */
as_ns as_client_timeouts_sweep_interval(const struct as_edge_conf *conf);

void as_client_timeouts_init(struct as_edge *e);

/* The request does not wait for its client any more. */
static inline void as_client_timeouts_stop(struct as_exchange *x)
{
    if (!as_list_empty(&x->progress.node))
        as_list_remove(&x->progress.node);
}

/* Uses the time of the last sweep, to save reading the clock for each request. */
static inline void as_client_timeouts_start(struct as_exchange *x, struct as_list *list,
                                            uint64_t mark)
{
    x->progress.checked_at = x->edge->last_sweep;
    x->progress.mark = mark;
    as_client_timeouts_stop(x);
    as_list_push(list, &x->progress.node);
}

/* The rest of its body is to be received. */
static inline void as_client_timeouts_start_upload(struct as_exchange *x)
{
    as_client_timeouts_start(x, &x->edge->uploads, 0);
}

/* Its answer is to be sent. */
static inline void as_client_timeouts_start_answer(struct as_exchange *x)
{
    as_client_timeouts_start(x, &x->edge->new_answers, 0);
}

/* Called every sweep_every, in this order. */
void as_client_timeouts_begin_sweep(struct as_edge *e);
void as_client_timeouts_sweep(struct as_edge *e, as_ns now);

/* Logs that the client reads nothing of the answer, for a request that has an id. */
void as_client_timeouts_log_unread(struct as_exchange *x);
/* Fails a request of which too few bytes were received (--body-timeout). */
void as_client_timeouts_expire_upload(struct as_exchange *x);
/* Fails a slow request that holds much of a full budget. */
void as_client_timeouts_evict_upload(struct as_exchange *x);
/* True: at the pace of `moved` bytes in `time`, the `left` bytes would take longer than `timeout`
 * (0: never slow). False during the first second. `time` counts from a sweep, so it may be too long
 * by one sweep interval. */
bool as_client_timeouts_is_slow(const struct as_edge *e, as_ns time, uint64_t moved, uint64_t left,
                                as_ns timeout);

#endif
