#include "edge/patience.h"

#include "base/counter.h"
#include "edge/rest.h"

/* An answer that is still there after this may wait for its client: from now on it must move. */
#define FIRST_LOOK AS_SEC

as_ns as_patience_every(const struct as_edge_conf *conf)
{
    const as_ns timeouts[] = {conf->header_timeout,    conf->idle_timeout, conf->keepalive_time,
                              conf->keepalive_timeout, conf->body_timeout, conf->send_timeout};
    as_ns every = AS_PATIENCE_MOST;

    for (size_t i = 0; i < AS_COUNT(timeouts); i++) {
        if (timeouts[i])
            every = AS_MIN(every, timeouts[i] / 4);
    }
    return AS_MAX(every, AS_PATIENCE_LEAST);
}

void as_patience_init(struct as_edge *e)
{
    as_list_init(&e->uploads);
    as_list_init(&e->new_answers);
    as_list_init(&e->answers);
}

/* The oldest look of the list, if it is due. */
static struct as_exchange *due(struct as_edge *e, struct as_list *list, as_ns now, as_ns timeout)
{
    struct as_exchange *x = AS_LIST_ENTRY(list->next, struct as_exchange, patience);

    /* a look may be as much younger than it says as a sweep is apart from the next */
    return !as_list_empty(list) && timeout && now - x->looked >= timeout + e->sweep_every ? x
                                                                                          : NULL;
}

static void log_slow(struct as_exchange *x, const char *what)
{
    struct as_edge *e = x->edge;
    uint64_t skipped;

    if (as_edge_may_log(e, AS_QUIET_REQUESTS, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "request_stalled", "part=%s method=%s skipped=%lu", what,
                     as_rpc_name(x->rpc), skipped);
}

void as_patience_give_up(struct as_exchange *x)
{
    const struct as_edge_conf *conf = &x->edge->conf;

    log_slow(x, "request");
    as_count(&x->edge->stat.slow_requests, 1);
    if (x->held) {
        as_rest_release(x);
        return;
    }
    as_exchange_fail(
        x, AS_ESLOW, "less than %lu bytes of the request came in %lu ms (--body-timeout)",
        (unsigned long)conf->min_progress, (unsigned long)(conf->body_timeout / AS_MS));
}

static void give_up_answer(struct as_exchange *x)
{
    log_slow(x, "answer");
    as_count(&x->edge->stat.slow_answers, 1);
    as_patience_stop(x); /* the stream ends with the next write */
    as_conn_reset(x->conn, x->stream);
    as_conn_touch(x->conn);
}

/* By the next look it must have moved on; what waits now is enough if that is less. Nothing waits:
 * more may come, or its last frame is behind others, which the connection looks after. */
static void look_at_answer(struct as_exchange *x)
{
    struct as_edge *e = x->edge;
    uint64_t left = as_conn_unsent(x->conn, x->stream);

    as_patience_look(x, left ? &e->answers : &e->new_answers,
                     as_conn_sent(x->conn, x->stream) + AS_MIN(left, e->conf.min_progress));
}

void as_patience_sweep(struct as_edge *e, as_ns now)
{
    const struct as_edge_conf *conf = &e->conf;
    struct as_exchange *x;

    e->swept = now;
    while ((x = due(e, &e->uploads, now, conf->body_timeout))) {
        if (x->got - x->mark >= conf->min_progress)
            as_patience_look(x, &e->uploads, x->got);
        else
            as_patience_give_up(x);
    }
    while ((x = due(e, &e->new_answers, now, AS_MIN(FIRST_LOOK, conf->send_timeout))))
        look_at_answer(x);
    while ((x = due(e, &e->answers, now, conf->send_timeout))) {
        if (as_conn_sent(x->conn, x->stream) >= x->mark)
            look_at_answer(x);
        else
            give_up_answer(x);
    }
}
