#include "tool/bench/load_driver.h"

#include "base/err.h"
#include "io/loop/clock.h"
#include "io/loop/tick.h"
#include "io/socket/connect.h"
#include "tool/bench/arrival_schedule.h"

#define CHECK_INTERVAL (20 * AS_MS)  /* how often deadlines and signals are checked */
#define GRACE          (100 * AS_MS) /* how late the server's own DEADLINE_EXCEEDED may come */
#define DRAIN_MAX      (10 * AS_SEC) /* longest drain for calls without a timeout */
#define LATE           AS_MS
#define BURST          1000u /* calls sent before the loop checks its sockets again */

enum { UNKNOWN = 2, DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14 };

/*  WARM ──warm-up over──► MEASURE ──duration or calls over──► DRAIN ──all answered──► DONE  */
enum phase { WARM, MEASURE, DRAIN, DONE };

struct connection {
    struct load_driver *driver;
    struct as_client_connection client;
    struct as_list calls;  /* calls in flight, oldest first */
    uint32_t free_streams; /* unused streams */
    bool retired;          /* gets no more calls */
    bool reopening;        /* gets no calls until it was opened again */
    bool can_reopen;       /* the server has answered on it, or a call was cancelled */
    struct as_connect_addr addr;
};

struct call {
    struct as_list node; /* in connection.calls or load_driver.spare_calls */
    struct connection *connection;
    as_ns due, sent;
    uint32_t stream;
    bool counted;   /* it was due during the measurement */
    bool timed_out; /* it was cancelled at its deadline */
    struct as_model_call model_call;
    /* Of a stream: */
    as_ns response_at;       /* time of the last response; 0: none yet */
    bool has_error;          /* a response was an error */
    char why[AS_TALLY_TEXT]; /* its text */
};

struct load_driver {
    const struct as_load_driver_conf *conf;
    struct as_load_driver_result *result;
    struct as_tally *tally;
    struct as_loop *loop;
    struct connection *connections;
    uint32_t next_connection, alive;
    struct as_list spare_calls;
    struct as_tick arrivals;
    struct as_timer check_timer;
    struct as_arrival_schedule schedule;
    as_ns due; /* when the next call is due */
    enum phase phase;
    bool running; /* the loop */
    as_ns phase_end, measure_start, measure_end, progress_at, last_answer;
    uint64_t n_sent;    /* calls of the measurement that were sent */
    uint64_t in_flight; /* of these, not answered yet */
    struct as_model_call_frame frame;
    struct as_json *json;  /* NULL over gRPC */
    struct as_arena arena; /* temporary memory for a response */
};

/* --- phases --- */

static void enter_phase(struct load_driver *d, enum phase to, as_ns now)
{
    if (to == DRAIN && d->phase == WARM) /* nothing was measured */
        d->measure_start = now;
    d->phase = to;
    d->phase_end = AS_NEVER;
    if (to == WARM) {
        d->phase_end = now + d->conf->warmup;
    } else if (to == MEASURE) {
        d->measure_start = now;
        d->phase_end = d->conf->requests ? AS_NEVER : now + d->conf->duration;
        /* calls that the warm-up could not send would delay those of the measurement */
        while (d->conf->rate && d->due < now)
            d->due = as_arrival_schedule_next(&d->schedule);
    } else if (to == DRAIN) {
        d->measure_end = now;
        d->phase_end =
            now + (d->conf->request.timeout ? d->conf->request.timeout + 5 * GRACE : DRAIN_MAX);
        as_tick_set(&d->arrivals, AS_NEVER);
    } else if (d->running) {
        as_loop_stop(d->loop);
    }
}

static void send_overdue(struct load_driver *d, as_ns now);

/* Enters the phases that are due. A phase ends at its planned time, not when this is called. */
static void advance_phase(struct load_driver *d, as_ns now)
{
    if (d->phase == WARM && now >= d->phase_end)
        enter_phase(d, MEASURE, d->phase_end);
    if (d->phase == MEASURE && d->conf->rate && now >= d->phase_end)
        send_overdue(d, now);
    if (d->phase == MEASURE &&
        (now >= d->phase_end || (d->conf->requests && d->n_sent == d->conf->requests)))
        enter_phase(d, DRAIN, AS_MIN(now, d->phase_end));
    if (d->phase == DRAIN && (d->in_flight == 0 || now >= d->phase_end))
        enter_phase(d, DONE, now);
    if (d->alive == 0 && d->phase < DRAIN)
        enter_phase(d, DRAIN, now);
}

static bool is_sending(const struct load_driver *d)
{
    return d->phase < DRAIN && d->alive > 0;
}

/* --- calls --- */

static struct call *alloc_call(struct load_driver *d)
{
    struct as_list *n = as_list_pop(&d->spare_calls);

    if (n)
        return AS_LIST_ENTRY(n, struct call, node);
    return as_xalloc(sizeof(struct call));
}

static void retire_connection(struct connection *conn)
{
    if (!conn->retired)
        conn->driver->alive--;
    conn->retired = true;
    conn->reopening = false;
}

/* Whether it is a connection of HTTP/1.1 that may have ended in the normal way. */
static bool may_reopen(const struct connection *conn)
{
    return conn->driver->conf->protocol != AS_MODEL_CALL_GRPC && conn->can_reopen &&
           conn->addr.n > 0;
}

static void on_response(void *ctx, struct as_model_call *model_call);

/* Sends one call on the connection. False: the connection accepts no more. */
static bool start_call(struct connection *conn, as_ns due, as_ns now)
{
    struct load_driver *d = conn->driver;
    struct call *c = alloc_call(d);

    as_list_init(&c->node);
    c->connection = conn;
    c->due = due;
    c->sent = now;
    c->timed_out = c->has_error = false;
    c->response_at = 0;
    c->counted = d->phase == MEASURE && due >= d->measure_start;
    as_model_call_begin(&c->model_call, d->conf->protocol, d->json, d->conf->request.limit);
    if (d->conf->stream)
        as_model_call_expect_stream(&c->model_call, on_response, c);
    if (as_client_connection_request(&conn->client, &d->frame.request, c, &c->stream)) {
        as_list_push(&d->spare_calls, &c->node);
        if (may_reopen(conn))
            conn->reopening = true; /* on_end follows */
        else
            retire_connection(conn);
        return false;
    }
    as_list_push(&conn->calls, &c->node);
    conn->free_streams--;
    d->n_sent += c->counted;
    d->in_flight += c->counted;
    if (c->counted && now - due > LATE)
        d->tally->late++;
    return true;
}

static bool has_free_stream(const struct connection *conn)
{
    return conn->free_streams && !conn->retired && !conn->reopening;
}

static struct connection *find_free_connection(struct load_driver *d)
{
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        struct connection *conn = &d->connections[d->next_connection];

        d->next_connection =
            d->next_connection + 1 < d->conf->connections ? d->next_connection + 1 : 0;
        if (has_free_stream(conn))
            return conn;
    }
    return NULL;
}

/* Sends the calls that were due before the end of the measurement, when the timer came late. */
static void send_overdue(struct load_driver *d, as_ns now)
{
    struct connection *conn;

    while (d->due < d->phase_end && (conn = find_free_connection(d))) {
        if (start_call(conn, d->due, now))
            d->due = as_arrival_schedule_next(&d->schedule);
    }
}

/* Open loop: sends the calls that are due while streams are free, and sets the timer for the next.
 */
static void send_due(struct load_driver *d, as_ns now)
{
    struct connection *conn = NULL;

    for (uint32_t i = 0; i < BURST && is_sending(d) && d->due <= now; i++) {
        advance_phase(d, d->due); /* a call counts if it is due during the measurement */
        if (!is_sending(d) || !(conn = find_free_connection(d)))
            return; /* called again when a stream becomes free */
        if (start_call(conn, d->due, now))
            d->due = as_arrival_schedule_next(&d->schedule);
        advance_phase(d, d->due <= now ? d->due : now);
    }
    if (is_sending(d))
        as_tick_set(&d->arrivals, d->due);
}

static void start_calls(struct connection *conn, as_ns now)
{
    struct load_driver *d = conn->driver;

    if (d->conf->rate) {
        send_due(d, now);
        return;
    }
    advance_phase(d, now);
    while (is_sending(d) && has_free_stream(conn) && start_call(conn, now, now))
        advance_phase(d, now);
}

/* Whether a response that comes now counts for the rate. */
static bool in_window(const struct load_driver *d, const struct call *c)
{
    return d->conf->requests ? c->counted : d->phase == MEASURE;
}

static void finish_call(struct call *c, uint32_t status, as_ns now)
{
    struct connection *conn = c->connection;
    struct load_driver *d = conn->driver;

    now = AS_MAX(now, c->due); /* a call that could not be sent has ended before the last read */
    advance_phase(d, now);
    d->tally->in_window += status == 0 && in_window(d, c);
    if (c->counted) {
        d->in_flight--;
        d->last_answer = now;
        as_tally_answer(d->tally, now - c->due, status, as_model_call_text(&c->model_call));
    }
    as_list_remove(&c->node);
    as_list_push(&d->spare_calls, &c->node);
    conn->free_streams++;
    advance_phase(d, now);
}

/* --- events --- */

static void on_response(void *ctx, struct as_model_call *model_call)
{
    struct call *c = ctx;
    struct load_driver *d = c->connection->driver;
    as_ns now = AS_MAX(c->connection->client.read_at, c->due);
    struct as_str text;

    advance_phase(d, now);
    if (d->phase == DONE || c->has_error)
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
    as_model_call_field(&((struct call *)call)->model_call, name, value);
}

static void on_data(void *ctx, void *call, const uint8_t *p, size_t n)
{
    struct connection *conn = ctx;
    struct call *c = call;

    if (as_model_call_data(&c->model_call, p, n))
        as_client_connection_reset(&conn->client, c->stream);
}

static void on_close(void *ctx, void *call, uint32_t code, bool whole)
{
    struct connection *conn = ctx;
    struct call *c = call;
    uint32_t status = as_model_call_end(&c->model_call, code, whole);
    char *text = as_model_call_text(&c->model_call);

    conn->can_reopen = conn->can_reopen || whole || c->timed_out;
    if (conn->driver->phase == DONE) /* it was counted as unanswered already */
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
        start_calls(conn, conn->client.read_at);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static void lose_connection(struct connection *conn, const char *why)
{
    struct load_driver *d = conn->driver;

    if (!d->result->lost++)
        snprintf(d->result->why, sizeof(d->result->why), "%s", why);
    retire_connection(conn);
    advance_phase(d, as_clock_now());
}

static void on_end(struct as_client_connection *p)
{
    struct connection *conn = AS_CONTAINER(p, struct connection, client);
    struct load_driver *d = conn->driver;

    if (!may_reopen(conn)) {
        lose_connection(conn, p->why);
        return;
    }
    conn->reopening = true;
    if (is_sending(d) && !d->result->reopened++)
        snprintf(d->result->why_reopened, sizeof(d->result->why_reopened), "%s", p->why);
}

static void on_connection_closed(struct as_client_connection *p);

static int open_connection(struct connection *conn, int fd)
{
    int rc =
        as_client_connection_open(&conn->client, conn->driver->loop, fd,
                                  conn->driver->conf->protocol != AS_MODEL_CALL_GRPC, &ops, conn);

    conn->client.on_end = on_end;
    conn->client.on_closed = on_connection_closed;
    return rc;
}

/* The memory of the old connection may be used again: opens the next one. */
static void on_connection_closed(struct as_client_connection *p)
{
    struct connection *conn = AS_CONTAINER(p, struct connection, client);
    int fd;

    if (!conn->reopening || !is_sending(conn->driver))
        return;
    conn->can_reopen = false;
    if (as_connect_start(&conn->addr, &fd) || open_connection(conn, fd)) {
        lose_connection(conn, "the connection ended and could not be opened again");
        return;
    }
    conn->reopening = false;
    start_calls(conn, as_clock_now());
}

static void on_arrival(struct as_tick *t)
{
    struct load_driver *d = AS_CONTAINER(t, struct load_driver, arrivals);

    send_due(d, as_clock_now());
}

/* Cancels calls that the server should have ended by itself. */
static void check_deadlines(struct connection *conn, as_ns now)
{
    as_ns longest = conn->driver->conf->request.timeout + GRACE;

    AS_LIST_EACH(n, &conn->calls)
    {
        struct call *c = AS_LIST_ENTRY(n, struct call, node);

        if (now - c->sent < longest)
            break;
        if (!c->timed_out)
            as_client_connection_reset(&conn->client, c->stream);
        c->timed_out = true;
    }
}

static void on_check_timer(struct as_timer *t)
{
    struct load_driver *d = AS_CONTAINER(t, struct load_driver, check_timer);
    as_ns now = as_clock_now();

    if (d->conf->interrupted && *d->conf->interrupted && d->phase < DRAIN) {
        d->result->interrupted = true;
        if (d->phase == WARM)
            enter_phase(d, MEASURE, now);
        enter_phase(d, DRAIN, now);
    }
    advance_phase(d, now);
    for (uint32_t i = 0; d->conf->request.timeout && i < d->conf->connections; i++) {
        if (!d->connections[i].client.ended)
            check_deadlines(&d->connections[i], now);
    }
    if (d->conf->progress && now - d->progress_at >= AS_SEC && d->phase != DONE) {
        d->progress_at = now;
        d->conf->progress(d->conf->ctx, d->tally,
                          d->phase == WARM ? 0 : (double)(now - d->measure_start) / (double)AS_SEC);
    }
    as_timer_set(&d->check_timer, as_loop_now(d->loop) + CHECK_INTERVAL);
}

/* --- the run --- */

static int open_connections(struct load_driver *d)
{
    int rc = 0;

    d->connections = as_xalloc(d->conf->connections * sizeof(*d->connections));
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        struct connection *conn = &d->connections[i];
        int err;

        conn->driver = d;
        as_list_init(&conn->calls);
        conn->free_streams = d->conf->streams;
        as_connect_addr_of(d->conf->fds[i], &conn->addr);
        err = open_connection(conn, d->conf->fds[i]);
        conn->retired = err != 0;
        d->alive += err == 0;
        rc = rc ? rc : err;
    }
    return rc;
}

static void start_load(struct load_driver *d)
{
    as_ns now = as_clock_now();

    d->progress_at = now;
    if (d->conf->rate) {
        as_arrival_schedule_init(&d->schedule, now, d->conf->rate, d->conf->poisson, d->conf->seed);
        d->due = as_arrival_schedule_next(&d->schedule);
    }
    enter_phase(d, WARM, now);
    advance_phase(d, now);
    as_timer_set(&d->check_timer, as_loop_now(d->loop) + CHECK_INTERVAL);
    if (d->conf->rate) {
        send_due(d, now);
        return;
    }
    for (uint32_t i = 0; i < d->conf->connections; i++)
        start_calls(&d->connections[i], now);
}

/* Counts what is left when the time is over: calls without a response, and calls that were due but
 * never sent. */
static void count_unfinished(struct load_driver *d)
{
    as_ns now = as_clock_now();

    d->phase = DONE;
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        AS_LIST_EACH(n, &d->connections[i].calls)
        {
            struct call *c = AS_LIST_ENTRY(n, struct call, node);

            if (c->counted)
                as_tally_unanswered(d->tally, now - c->due);
        }
    }
    if (!d->conf->rate || d->conf->requests)
        return;
    for (; d->due < d->measure_end; d->due = as_arrival_schedule_next(&d->schedule)) {
        if (d->due >= d->measure_start)
            as_tally_unsent(d->tally, d->measure_end - d->due);
    }
}

static void free_call(struct as_list *n)
{
    struct call *c = AS_LIST_ENTRY(n, struct call, node);

    as_model_call_fini(&c->model_call);
    free(c);
}

static void close_all(struct load_driver *d)
{
    struct as_list *n;

    for (uint32_t i = 0; i < d->conf->connections; i++)
        as_client_connection_close(&d->connections[i].client);
    as_timer_close(&d->check_timer, NULL);
    as_loop_free(d->loop);
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        while ((n = as_list_pop(&d->connections[i].calls)))
            free_call(n);
    }
    while ((n = as_list_pop(&d->spare_calls)))
        free_call(n);
    free(d->connections);
    as_arena_fini(&d->arena);
    as_json_free(d->json);
}

int as_load_driver_run(const struct as_load_driver_conf *conf, struct as_load_driver_result *ret_r)
{
    struct load_driver *d = as_xalloc(sizeof(*d));
    int rc;

    *ret_r = (struct as_load_driver_result){.lost = 0};
    d->conf = conf;
    d->result = ret_r;
    d->tally = &ret_r->tally;
    as_list_init(&d->spare_calls);
    as_arena_init(&d->arena, NULL, 0);
    as_model_call_prepare(&d->frame, conf->protocol, &conf->request, conf->authority);
    rc = as_loop_new(&d->loop, 0);
    AS_ASSERT(rc == 0); /* a process without a few free descriptors cannot work at all */
    if (conf->protocol != AS_MODEL_CALL_GRPC && !(d->json = as_json_new()))
        as_fatal_memory(0);
    as_timer_init(&d->check_timer, d->loop, on_check_timer);
    rc = open_connections(d);
    if (rc == 0)
        rc = as_tick_open(&d->arrivals, d->loop, on_arrival);
    if (rc == 0) {
        start_load(d);
        d->running = d->phase != DONE;
        if (d->running)
            as_loop_run(d->loop);
        d->running = false;
        count_unfinished(d);
        as_tick_close(&d->arrivals, NULL);
        ret_r->measured =
            AS_MAX(d->conf->requests ? d->last_answer : d->measure_end, d->measure_start) -
            d->measure_start;
        if (as_tally_due(d->tally) == 0 && ret_r->lost)
            rc = AS_EUNAVAILABLE;
    }
    d->phase = DONE;
    close_all(d);
    free(d);
    return rc;
}
