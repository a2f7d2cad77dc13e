#include "edge/exchange/client_timeouts.h"

#include "base/counter.h"
#include "edge/rest/rest_body.h"
#include "edge/rest/rest.h"

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

/* Has there been no room since the last look? */
static bool was_short(const struct as_budget *b, uint64_t *seen)
{
    uint64_t n = atomic_load_explicit(&b->refusals, memory_order_relaxed);
    bool was = n != *seen;

    *seen = n;
    return was;
}

void as_patience_begin_sweep(struct as_edge *e)
{
    e->short_of_requests = was_short(&e->budgets->requests, &e->refused_requests);
    e->short_of_answers = was_short(&e->budgets->answers, &e->refused_answers);
}

bool as_patience_is_slow(const struct as_edge *e, as_ns time, uint64_t moved, uint64_t left,
                         as_ns timeout)
{
    if (!timeout || time < FIRST_LOOK + e->sweep_every)
        return false;
    time -= e->sweep_every;
    return left * (time / AS_MS) > moved * (timeout / AS_MS);
}

as_ns as_patience_with_output(const struct as_conn *c)
{
    as_ns timeout = c->edge->conf.send_timeout;

    return c->edge->short_of_answers && timeout && as_account_is_greedy(c->answers)
               ? AS_MIN(timeout, FIRST_LOOK)
               : timeout;
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
    as_exchange_drop_body(x);
}

void as_patience_yield(struct as_exchange *x)
{
    const struct as_budget *b = x->requests->budget;

    log_slow(x, "request");
    as_count(&x->edge->stat.slow_requests, 1);
    as_exchange_fail(x, AS_EFULL,
                     "the request came too slowly while others found no room in "
                     "--max-inflight-bytes %lu, of which this connection holds %lu",
                     (unsigned long)b->limit, (unsigned long)as_account_held(x->requests));
    as_exchange_drop_body(x);
}

/* Bytes that are still to come; of a body that does not say, as many as came. */
static uint64_t owed_of(const struct as_exchange *x)
{
    uint64_t n;

    if (!x->body)
        return 0;
    if (!x->grpc && !as_body_length(x, &n))
        return x->body_have;
    return x->body_len - x->body_have;
}

static void yield_uploads(struct as_edge *e, as_ns now)
{
    AS_LIST_EACH(n, &e->uploads)
    {
        struct as_exchange *x = AS_LIST_ENTRY(n, struct as_exchange, patience);

        if (as_account_is_greedy(x->requests) &&
            as_patience_is_slow(e, now - x->looked, x->got - x->mark, owed_of(x),
                                e->conf.body_timeout))
            as_patience_yield(x);
    }
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

    as_patience_look(x, left ? &e->answers : &e->new_answers, as_conn_sent(x->conn, x->stream));
    x->need = AS_MIN(left, e->conf.min_progress);
}

static void yield_answers(struct as_edge *e, struct as_list *list, as_ns now)
{
    AS_LIST_EACH(n, list)
    {
        struct as_exchange *x = AS_LIST_ENTRY(n, struct as_exchange, patience);

        if (as_account_is_greedy(x->answers) &&
            as_patience_is_slow(e, now - x->looked, as_conn_sent(x->conn, x->stream) - x->mark,
                                as_conn_unsent(x->conn, x->stream), e->conf.send_timeout))
            give_up_answer(x);
    }
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
        if (as_conn_sent(x->conn, x->stream) - x->mark >= x->need)
            look_at_answer(x);
        else
            give_up_answer(x);
    }
    if (e->short_of_requests)
        yield_uploads(e, now);
    if (e->short_of_answers) {
        yield_answers(e, &e->answers, now);
        yield_answers(e, &e->new_answers, now);
    }
}
