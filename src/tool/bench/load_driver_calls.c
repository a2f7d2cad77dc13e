#include "base/err.h"
#include "io/loop/clock.h"
#include "tool/bench/load_driver_internal.h"

#define DRAIN_MAX (10 * AS_SEC) /* longest drain for calls without a timeout */
#define LATE      AS_MS
#define BURST     1000u /* calls sent before the loop checks its sockets again */

enum { UNKNOWN = 2, DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14, DATA_LOSS = 15 };

/* --- phases --- */

void as_load_driver_wait_until(struct as_load_driver *d, as_ns due)
{
    if (!d->conf->poll)
        as_tick_set(&d->arrivals, due);
    else if (due == AS_NEVER)
        as_task_cancel(&d->poll);
    else
        as_loop_defer_next_turn(d->loop, &d->poll);
}

void as_load_driver_enter_phase(struct as_load_driver *d, enum as_load_driver_phase to, as_ns now)
{
    if (to == AS_LOAD_DRIVER_DRAIN && d->phase == AS_LOAD_DRIVER_WARM) /* nothing was measured */
        d->measure_start = now;
    d->phase = to;
    d->phase_end = AS_NEVER;
    if (to == AS_LOAD_DRIVER_WARM) {
        d->phase_end = now + d->conf->warmup;
    } else if (to == AS_LOAD_DRIVER_MEASURE) {
        d->measure_start = now;
        d->phase_end = d->conf->requests ? AS_NEVER : now + d->conf->duration;
        /* calls that the warm-up could not send would delay those of the measurement */
        while (d->conf->rate && d->due < now)
            d->due = as_arrival_schedule_next(&d->schedule);
    } else if (to == AS_LOAD_DRIVER_DRAIN) {
        d->measure_end = now;
        d->phase_end =
            now + (d->conf->request.timeout ? d->conf->request.timeout + 5 * AS_LOAD_DRIVER_GRACE
                                            : DRAIN_MAX);
        as_load_driver_wait_until(d, AS_NEVER);
    } else if (d->running) {
        as_loop_stop(d->loop);
    }
}

static void send_overdue(struct as_load_driver *d, as_ns now);

void as_load_driver_enter_due_phases(struct as_load_driver *d, as_ns now)
{
    if (d->phase == AS_LOAD_DRIVER_WARM && now >= d->phase_end)
        as_load_driver_enter_phase(d, AS_LOAD_DRIVER_MEASURE, d->phase_end);
    if (d->phase == AS_LOAD_DRIVER_MEASURE && d->conf->rate && now >= d->phase_end)
        send_overdue(d, now);
    if (d->phase == AS_LOAD_DRIVER_MEASURE &&
        (now >= d->phase_end || (d->conf->requests && d->n_sent == d->conf->requests)))
        as_load_driver_enter_phase(d, AS_LOAD_DRIVER_DRAIN, AS_MIN(now, d->phase_end));
    if (d->phase == AS_LOAD_DRIVER_DRAIN && (d->in_flight == 0 || now >= d->phase_end))
        as_load_driver_enter_phase(d, AS_LOAD_DRIVER_DONE, now);
    if (d->alive == 0 && d->phase < AS_LOAD_DRIVER_DRAIN)
        as_load_driver_enter_phase(d, AS_LOAD_DRIVER_DRAIN, now);
}

/* --- calls --- */

static struct as_load_driver_call *alloc_call(struct as_load_driver *d)
{
    struct as_list *n = as_list_pop(&d->spare_calls);

    if (n)
        return AS_LIST_ENTRY(n, struct as_load_driver_call, node);
    return as_xalloc(sizeof(struct as_load_driver_call));
}

void as_load_driver_retire(struct as_load_driver_connection *conn)
{
    if (!conn->retired)
        conn->driver->alive--;
    conn->retired = true;
    conn->reopening = false;
}

bool as_load_driver_may_reopen(const struct as_load_driver_connection *conn)
{
    return conn->driver->conf->protocol != AS_MODEL_CALL_GRPC && conn->can_reopen &&
           conn->addr.n > 0;
}

static void on_response(void *ctx, struct as_model_call *model_call);

/* Sends one call on the connection. False: the connection accepts no more. */
static bool start_call(struct as_load_driver_connection *conn, as_ns due, as_ns now)
{
    struct as_load_driver *d = conn->driver;
    struct as_load_driver_call *c = alloc_call(d);

    as_list_init(&c->node);
    c->connection = conn;
    c->due = due;
    c->sent = now;
    c->timed_out = c->has_error = false;
    c->response_at = 0;
    c->counted = d->phase == AS_LOAD_DRIVER_MEASURE && due >= d->measure_start;
    as_model_call_begin(&c->model_call, d->conf->protocol, d->json, d->conf->request.limit);
    if (d->conf->stream)
        as_model_call_expect_stream(&c->model_call, on_response, c);
    if (d->conf->answer)
        as_model_call_compare(&c->model_call, d->conf->answer);
    if (as_client_connection_request(&conn->client, &d->frame.request, c, &c->stream)) {
        as_list_push(&d->spare_calls, &c->node);
        if (as_load_driver_may_reopen(conn))
            conn->reopening = true; /* on_end follows */
        else
            as_load_driver_retire(conn);
        return false;
    }
    as_list_push(&conn->calls, &c->node);
    conn->free_streams--;
    d->result->sent++;
    d->n_sent += c->counted;
    d->in_flight += c->counted;
    if (c->counted && d->conf->rate) {
        as_loghist_add(&d->tally->delay, now - due);
        d->tally->late += now - due > LATE;
    }
    return true;
}

static bool has_free_stream(const struct as_load_driver_connection *conn)
{
    return conn->free_streams && !conn->retired && !conn->reopening;
}

static struct as_load_driver_connection *find_free_connection(struct as_load_driver *d)
{
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        struct as_load_driver_connection *conn = &d->connections[d->next_connection];

        d->next_connection =
            d->next_connection + 1 < d->conf->connections ? d->next_connection + 1 : 0;
        if (has_free_stream(conn))
            return conn;
    }
    return NULL;
}

/* Sends the calls that were due before the end of the measurement, when the timer came late. */
static void send_overdue(struct as_load_driver *d, as_ns now)
{
    struct as_load_driver_connection *conn;

    while (d->due < d->phase_end && (conn = find_free_connection(d))) {
        if (start_call(conn, d->due, now))
            d->due = as_arrival_schedule_next(&d->schedule);
    }
}

void as_load_driver_send_due(struct as_load_driver *d, as_ns now)
{
    struct as_load_driver_connection *conn = NULL;

    for (uint32_t i = 0; i < BURST && as_load_driver_is_sending(d) && d->due <= now; i++) {
        as_load_driver_advance(d, d->due); /* a call counts if it is due during the measurement */
        if (!as_load_driver_is_sending(d) || !(conn = find_free_connection(d)))
            return; /* called again when a stream becomes free */
        if (start_call(conn, d->due, now))
            d->due = as_arrival_schedule_next(&d->schedule);
        as_load_driver_advance(d, d->due <= now ? d->due : now);
    }
    if (as_load_driver_is_sending(d))
        as_load_driver_wait_until(d, d->due);
}

void as_load_driver_start_calls(struct as_load_driver_connection *conn, as_ns now)
{
    struct as_load_driver *d = conn->driver;

    if (d->conf->rate) {
        as_load_driver_send_due(d, now);
        return;
    }
    as_load_driver_advance(d, now);
    while (as_load_driver_is_sending(d) && has_free_stream(conn) && start_call(conn, now, now))
        as_load_driver_advance(d, now);
}

/* Whether a response that comes now counts for the rate. */
static bool in_window(const struct as_load_driver *d, const struct as_load_driver_call *c)
{
    return d->conf->requests ? c->counted : d->phase == AS_LOAD_DRIVER_MEASURE;
}

static void finish_call(struct as_load_driver_call *c, uint32_t status, as_ns now)
{
    struct as_load_driver_connection *conn = c->connection;
    struct as_load_driver *d = conn->driver;

    now = AS_MAX(now, c->due); /* a call that could not be sent has ended before the last read */
    as_load_driver_advance(d, now);
    d->tally->in_window += status == 0 && in_window(d, c);
    if (c->counted) {
        d->in_flight--;
        d->last_answer = now;
        as_tally_answer(d->tally, now - c->due, status, as_model_call_text(&c->model_call));
    }
    as_list_remove(&c->node);
    as_list_push(&d->spare_calls, &c->node);
    conn->free_streams++;
    as_load_driver_advance(d, now);
}

/* --- events --- */

static void on_response(void *ctx, struct as_model_call *model_call)
{
    struct as_load_driver_call *c = ctx;
    struct as_load_driver *d = c->connection->driver;
    as_ns now = AS_MAX(c->connection->client.read_at, c->due);
    struct as_str text;

    as_load_driver_advance(d, now);
    if (d->phase == AS_LOAD_DRIVER_DONE || c->has_error)
        return;
    if (as_model_call_is_error(model_call, &d->arena, &text)) {
        c->has_error = true;
        snprintf(c->why, sizeof(c->why), "%.*s", AS_STR_FMT(text));
    } else {
        d->tally->responses_in_window += in_window(d, c);
        if (c->counted)
            as_tally_response(d->tally, !c->response_at, now - AS_MAX(c->response_at, c->due));
        c->response_at = now;
    }
    as_arena_reset(&d->arena);
}

static void on_field(void *ctx, void *call, struct as_str name, struct as_str value, bool trailer)
{
    (void)ctx;
    (void)trailer;
    as_model_call_field(&((struct as_load_driver_call *)call)->model_call, name, value);
}

static void on_data(void *ctx, void *call, const uint8_t *p, size_t n)
{
    struct as_load_driver_connection *conn = ctx;
    struct as_load_driver_call *c = call;

    if (as_model_call_data(&c->model_call, p, n))
        as_client_connection_reset(&conn->client, c->stream);
}

static void on_close(void *ctx, void *call, uint32_t code, bool whole)
{
    struct as_load_driver_connection *conn = ctx;
    struct as_load_driver_call *c = call;
    const struct as_load_driver *d = conn->driver;
    uint32_t status = as_model_call_end(&c->model_call, code, whole);
    char *text = as_model_call_text(&c->model_call);

    if (!status && d->conf->answer && !as_model_call_is_expected(&c->model_call)) {
        status = DATA_LOSS;
        snprintf(text, AS_MODEL_CALL_TEXT, "the answer is not that of the first call");
    }
    conn->can_reopen = conn->can_reopen || whole || c->timed_out;
    if (d->phase == AS_LOAD_DRIVER_DONE) /* it was counted as unanswered already */
        return;
    if (c->timed_out) {
        status = DEADLINE_EXCEEDED;
        snprintf(text, AS_MODEL_CALL_TEXT, "no answer within the timeout");
    } else if (conn->client.ended) {
        status = UNAVAILABLE;
        snprintf(text, AS_MODEL_CALL_TEXT, "%s", conn->client.why);
    } else if (code == AS_MODEL_CALL_PROTOCOL_ERROR && as_client_connection_fault(&conn->client)) {
        snprintf(text, AS_MODEL_CALL_TEXT, "%s", as_client_connection_fault(&conn->client));
    } else if (c->has_error && !status) {
        status = UNKNOWN; /* the stream itself ended without an error */
        snprintf(text, AS_MODEL_CALL_TEXT, "%s", c->why);
    }
    finish_call(c, status,
                conn->client.ended || c->timed_out ? as_clock_now() : conn->client.read_at);
    if (!conn->client.ended)
        as_load_driver_start_calls(conn, conn->client.read_at);
}

const struct as_http_client_ops as_load_driver_ops = {on_field, on_data, on_close};
