#include "edge/exchange/client_timeouts.h"

#include "base/counter.h"

as_ns as_client_timeouts_sweep_interval(const struct as_edge_conf *conf)
{
    const as_ns timeouts[] = {
        conf->header_timeout, conf->handshake_timeout,       conf->idle_timeout,
        conf->keepalive_time, conf->keepalive_timeout,       conf->body_timeout,
        conf->send_timeout,   conf->websocket.ping_interval, conf->websocket.ping_timeout};
    as_ns every = AS_CLIENT_TIMEOUTS_SWEEP_MAX;

    for (size_t i = 0; i < AS_COUNT(timeouts); i++) {
        if (timeouts[i])
            every = AS_MIN(every, timeouts[i] / 4);
    }
    return AS_MAX(every, AS_CLIENT_TIMEOUTS_SWEEP_MIN);
}

void as_client_timeouts_init(struct as_edge *e)
{
    as_list_init(&e->uploads);
    as_list_init(&e->new_answers);
    as_list_init(&e->answers);
}

/* The request of the list that was checked longest ago, if it is due. */
static struct as_exchange *next_due(struct as_edge *e, struct as_list *list, as_ns now,
                                    as_ns timeout)
{
    struct as_exchange *x = AS_LIST_ENTRY(list->next, struct as_exchange, progress.node);

    /* checked_at is the time of a sweep, up to one interval before the actual start */
    return !as_list_empty(list) && timeout &&
                   now - x->progress.checked_at >= timeout + e->sweep_every
               ? x
               : NULL;
}

/* True: the budget refused something since the last call. */
static bool had_refusals(const struct as_budget *b, uint64_t *seen)
{
    uint64_t n = atomic_load_explicit(&b->refusals, memory_order_relaxed);
    bool was = n != *seen;

    *seen = n;
    return was;
}

void as_client_timeouts_begin_sweep(struct as_edge *e)
{
    e->short_of_requests = had_refusals(&e->budgets->requests, &e->refused_requests);
    e->short_of_answers = had_refusals(&e->budgets->answers, &e->refused_answers);
}

bool as_client_timeouts_is_slow(const struct as_edge *e, as_ns time, uint64_t moved, uint64_t left,
                                as_ns timeout)
{
    if (!timeout || time < AS_EDGE_FIRST_CHECK + e->sweep_every)
        return false;
    time -= e->sweep_every;
    return left * (time / AS_MS) > moved * (timeout / AS_MS);
}

static void log_slow(struct as_exchange *x, const char *what)
{
    struct as_edge *e = x->edge;
    char id[600];
    uint64_t skipped;

    if (!as_edge_may_log(e, AS_EDGE_LOG_STALLED, &skipped))
        return;
    if (x->request_id.n)
        as_log_event(e->log, AS_LOG_WARN, "request_stalled", "part=%s request_id=%s skipped=%lu",
                     what, as_log_quote(id, sizeof(id), x->request_id), skipped);
    else
        as_log_event(e->log, AS_LOG_WARN, "request_stalled", "part=%s method=%s skipped=%lu", what,
                     as_grpc_methods[x->rpc].name, skipped);
}

void as_client_timeouts_log_unread(struct as_exchange *x)
{
    if (x->request_id.n)
        log_slow(x, "answer");
}

/* Nothing is awaited of its body any more, not even before its error is sent. */
static void stop_upload(struct as_exchange *x)
{
    as_exchange_free_body(x);
    if (x->answer.deferred)
        x->kind->send_deferred(x);
}

void as_client_timeouts_expire_upload(struct as_exchange *x)
{
    const struct as_edge_conf *conf = &x->edge->conf;

    log_slow(x, "request");
    as_counter_add(&x->edge->stat.slow_requests, 1);
    if (x->answer.deferred) {
        x->kind->send_deferred(x);
        return;
    }
    as_exchange_fail(
        x, AS_ESLOW, "less than %lu bytes of the request were received in %lu ms (--body-timeout)",
        (unsigned long)conf->min_progress, (unsigned long)(conf->body_timeout / AS_MS));
    stop_upload(x);
}

void as_client_timeouts_evict_upload(struct as_exchange *x)
{
    const struct as_budget *b = x->budget.requests->budget;

    log_slow(x, "request");
    as_counter_add(&x->edge->stat.slow_requests, 1);
    as_exchange_fail(x, AS_EFULL,
                     "the request was received too slowly while others found no room in "
                     "--max-inflight-bytes %lu, of which this connection holds %lu",
                     (unsigned long)b->limit,
                     (unsigned long)as_account_charged(x->budget.requests));
    stop_upload(x);
}

/* Bytes of the body still to be received; without a declared length, assumes as many as so far. */
static uint64_t bytes_missing(const struct as_exchange *x)
{
    if (!x->body.p)
        return 0;
    return x->body.length_unknown ? x->body.filled : x->body.len - x->body.filled;
}

static void evict_slow_uploads(struct as_edge *e, as_ns now)
{
    AS_LIST_EACH_ENTRY(x, struct as_exchange, progress.node, &e->uploads) {
        if (as_account_is_greedy(x->budget.requests) &&
            as_client_timeouts_is_slow(e, now - x->progress.checked_at,
                                       x->body.received - x->progress.mark, bytes_missing(x),
                                       e->conf.body_timeout))
            as_client_timeouts_evict_upload(x);
    }
}

static void expire_answer(struct as_exchange *x)
{
    log_slow(x, "answer");
    as_counter_add(&x->edge->stat.slow_answers, 1);
    as_client_timeouts_stop(x); /* the reset closes the stream with the next write */
    as_conn_reset(x->conn, x->stream);
    as_conn_schedule_flush(x->conn);
}

/* Sets what must be sent by the next check: min_progress, or what waits now if that is less. If
 * nothing waits, more may follow, or the last frame waits behind those of other streams, for which
 * the connection's own timeout is responsible. */
static void restart_answer(struct as_exchange *x)
{
    struct as_edge *e = x->edge;
    uint64_t left = as_conn_unsent(x->conn, x->stream);

    as_client_timeouts_start(x, left ? &e->answers : &e->new_answers,
                             as_conn_sent(x->conn, x->stream));
    x->progress.must_send = AS_MIN(left, e->conf.min_progress);
}

static void evict_slow_answers(struct as_edge *e, struct as_list *list, as_ns now)
{
    AS_LIST_EACH_ENTRY(x, struct as_exchange, progress.node, list) {
        if (as_account_is_greedy(x->budget.answers) &&
            as_client_timeouts_is_slow(e, now - x->progress.checked_at,
                                       as_conn_sent(x->conn, x->stream) - x->progress.mark,
                                       as_conn_unsent(x->conn, x->stream), e->conf.send_timeout))
            expire_answer(x);
    }
}

void as_client_timeouts_sweep(struct as_edge *e, as_ns now)
{
    const struct as_edge_conf *conf = &e->conf;
    struct as_exchange *x;

    e->last_sweep = now;
    while ((x = next_due(e, &e->uploads, now, conf->body_timeout))) {
        if (x->body.received - x->progress.mark >= conf->min_progress)
            as_client_timeouts_start(x, &e->uploads, x->body.received);
        else
            as_client_timeouts_expire_upload(x);
    }
    while ((x = next_due(e, &e->new_answers, now, AS_MIN(AS_EDGE_FIRST_CHECK, conf->send_timeout))))
        restart_answer(x);
    while ((x = next_due(e, &e->answers, now, conf->send_timeout))) {
        if (as_conn_sent(x->conn, x->stream) - x->progress.mark >= x->progress.must_send)
            restart_answer(x);
        else
            expire_answer(x);
    }
    if (e->short_of_requests)
        evict_slow_uploads(e, now);
    if (e->short_of_answers) {
        evict_slow_answers(e, &e->answers, now);
        evict_slow_answers(e, &e->new_answers, now);
    }
}
