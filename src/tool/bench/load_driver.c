#include "tool/bench/load_driver.h"

#include "base/err.h"
#include "io/loop/clock.h"
#include "tool/bench/load_driver_internal.h"

#define CHECK_INTERVAL (20 * AS_MS) /* how often deadlines and signals are checked */
#define HANDSHAKES     64u          /* in progress at once before the load */

/* --- connections --- */

static void lose_connection(struct as_load_driver_connection *conn, const char *why)
{
    struct as_load_driver *d = conn->driver;

    if (!d->result->lost++)
        snprintf(d->result->why, sizeof(d->result->why), "%s", why);
    as_load_driver_retire(conn);
    if (d->running)
        as_load_driver_advance(d, as_clock_now());
}

/* A handshake is over, well or not. */
static void count_handshake(struct as_load_driver *d)
{
    d->handshaking--;
    if (!d->running)
        as_loop_stop(d->loop);
}

static void on_handshake(struct as_client_connection *p)
{
    count_handshake(AS_CONTAINER(p, struct as_load_driver_connection, client)->driver);
}

static void on_end(struct as_client_connection *p)
{
    struct as_load_driver_connection *conn =
        AS_CONTAINER(p, struct as_load_driver_connection, client);
    struct as_load_driver *d = conn->driver;

    if (p->handshaking)
        count_handshake(d);
    if (!as_load_driver_may_reopen(conn)) {
        lose_connection(conn, p->why);
        return;
    }
    conn->reopening = true;
    if (as_load_driver_is_sending(d) && !d->result->reopened++)
        snprintf(d->result->why_reopened, sizeof(d->result->why_reopened), "%s", p->why);
}

static void on_connection_closed(struct as_client_connection *p);

static int open_connection(struct as_load_driver_connection *conn, int fd)
{
    struct as_load_driver *d = conn->driver;
    struct as_tls *session = NULL;
    int rc;

    if (d->conf->tls) {
        session = as_tls_new(as_tls_client_open(d->conf->tls), false, fd, d->tls_buffer);
        if (!session)
            as_fatal_memory(0);
    }
    rc = as_client_connection_open(&conn->client, d->loop, fd, session,
                                   d->conf->protocol != AS_MODEL_CALL_GRPC, &as_load_driver_ops,
                                   conn);
    conn->opened = as_clock_now();
    if (!rc && session)
        d->handshaking++;
    conn->client.on_handshake = on_handshake;
    conn->client.on_end = on_end;
    conn->client.on_closed = on_connection_closed;
    return rc;
}

/* The memory of the old connection may be used again: opens the next one. */
static void on_connection_closed(struct as_client_connection *p)
{
    struct as_load_driver_connection *conn =
        AS_CONTAINER(p, struct as_load_driver_connection, client);
    int fd;

    if (!conn->reopening || !as_load_driver_is_sending(conn->driver))
        return;
    conn->can_reopen = false;
    if (as_connect_start(&conn->addr, &fd) || open_connection(conn, fd)) {
        lose_connection(conn, "the connection ended and could not be opened again");
        return;
    }
    conn->reopening = false;
    as_load_driver_start_calls(conn, as_clock_now());
}

static void on_arrival(struct as_tick *t)
{
    struct as_load_driver *d = AS_CONTAINER(t, struct as_load_driver, arrivals);

    as_load_driver_send_due(d, as_clock_now());
}

static void on_poll(struct as_task *t)
{
    struct as_load_driver *d = AS_CONTAINER(t, struct as_load_driver, poll);

    as_load_driver_send_due(d, as_clock_now());
}

/* Cancels calls that the server should have ended by itself. */
static void check_deadlines(struct as_load_driver_connection *conn, as_ns now)
{
    as_ns longest = conn->driver->conf->request.timeout + AS_LOAD_DRIVER_GRACE;

    AS_LIST_EACH_ENTRY(c, struct as_load_driver_call, node, &conn->calls) {
        if (now - c->sent < longest)
            break;
        if (!c->timed_out)
            as_client_connection_reset(&conn->client, c->stream);
        c->timed_out = true;
    }
}

static bool is_interrupted(const struct as_load_driver *d)
{
    return d->conf->interrupted && *d->conf->interrupted;
}

/* Ends connections whose handshake takes too long. */
static void check_handshakes(struct as_load_driver *d, as_ns now)
{
    for (uint32_t i = 0; i < d->conf->connections && d->handshaking; i++) {
        struct as_load_driver_connection *conn = &d->connections[i];
        struct as_client_connection *p = &conn->client;

        if (p->ended || !p->handshaking || now - conn->opened < d->conf->connect_timeout)
            continue;
        snprintf(p->why, sizeof(p->why), AS_CLIENT_CONNECTION_SILENT,
                 (double)d->conf->connect_timeout / (double)AS_SEC);
        as_client_connection_close(p);
        count_handshake(d);
        lose_connection(conn, p->why);
    }
}

static void on_check_timer(struct as_timer *t)
{
    struct as_load_driver *d = AS_CONTAINER(t, struct as_load_driver, check_timer);
    as_ns now = as_clock_now();

    check_handshakes(d, now);
    if (!d->running) {
        as_timer_set(&d->check_timer, as_loop_now(d->loop) + CHECK_INTERVAL);
        as_loop_stop(d->loop);
        return;
    }
    if (is_interrupted(d) && d->phase < AS_LOAD_DRIVER_DRAIN) {
        d->result->interrupted = true;
        if (d->phase == AS_LOAD_DRIVER_WARM)
            as_load_driver_enter_phase(d, AS_LOAD_DRIVER_MEASURE, now);
        as_load_driver_enter_phase(d, AS_LOAD_DRIVER_DRAIN, now);
    }
    as_load_driver_advance(d, now);
    for (uint32_t i = 0; d->conf->request.timeout && i < d->conf->connections; i++) {
        if (!d->connections[i].client.ended)
            check_deadlines(&d->connections[i], now);
    }
    if (d->conf->progress && now - d->progress_at >= AS_SEC && d->phase != AS_LOAD_DRIVER_DONE) {
        d->progress_at = now;
        d->conf->progress(d->conf->ctx, d->tally,
                          d->phase == AS_LOAD_DRIVER_WARM
                              ? 0
                              : (double)(now - d->measure_start) / (double)AS_SEC);
    }
    as_timer_set(&d->check_timer, as_loop_now(d->loop) + CHECK_INTERVAL);
}

/* --- the run --- */

static void wait_for_handshakes(struct as_load_driver *d, uint32_t most)
{
    while (d->handshaking > most && !is_interrupted(d))
        as_loop_run(d->loop); /* until a handshake is over, or the timer fires */
}

static int open_connections(struct as_load_driver *d)
{
    int rc = 0;

    as_timer_set(&d->check_timer, as_loop_now(d->loop) + CHECK_INTERVAL);
    d->connections = as_xalloc(d->conf->connections * sizeof(*d->connections));
    for (uint32_t i = 0; i < d->conf->connections; i++)
        d->connections[i].client.ended = d->connections[i].client.closed = true;
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        struct as_load_driver_connection *conn = &d->connections[i];
        int fd = d->conf->fds[i], err = 0;

        conn->driver = d;
        as_list_init(&conn->calls);
        conn->free_streams = d->conf->streams;
        if (fd < 0) {
            conn->addr = d->connections[0].addr;
            err = as_connect_start(&conn->addr, &fd);
        } else {
            as_connect_addr_of(fd, &conn->addr);
        }
        if (!err)
            err = open_connection(conn, fd);
        conn->retired = err != 0;
        d->alive += err == 0;
        rc = rc ? rc : err;
        wait_for_handshakes(d, HANDSHAKES - 1);
    }
    wait_for_handshakes(d, 0);
    return rc;
}

static void start_load(struct as_load_driver *d)
{
    as_ns now = as_clock_now();

    d->progress_at = now;
    if (d->conf->rate) {
        as_arrival_schedule_init(&d->schedule, now, d->conf->rate, d->conf->poisson, d->conf->seed);
        d->due = as_arrival_schedule_next(&d->schedule);
    }
    as_load_driver_enter_phase(d, AS_LOAD_DRIVER_WARM, now);
    as_load_driver_advance(d, now);
    if (d->conf->rate) {
        as_load_driver_send_due(d, now);
        return;
    }
    for (uint32_t i = 0; i < d->conf->connections; i++)
        as_load_driver_start_calls(&d->connections[i], now);
}

/* Counts what is left when the time is over: calls without a response, and calls that were due but
 * never sent. */
static void count_unfinished(struct as_load_driver *d)
{
    as_ns now = as_clock_now();

    d->phase = AS_LOAD_DRIVER_DONE;
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        AS_LIST_EACH_ENTRY(c, struct as_load_driver_call, node, &d->connections[i].calls) {
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
    struct as_load_driver_call *c = AS_LIST_ENTRY(n, struct as_load_driver_call, node);

    as_model_call_fini(&c->model_call);
    free(c);
}

static void close_all(struct as_load_driver *d)
{
    struct as_list *n;

    for (uint32_t i = 0; i < d->conf->connections; i++)
        as_client_connection_close(&d->connections[i].client);
    as_timer_close(&d->check_timer, NULL);
    as_loop_free(d->loop);
    as_tls_buffer_free(d->tls_buffer);
    for (uint32_t i = 0; i < d->conf->connections; i++) {
        while ((n = as_list_pop(&d->connections[i].calls)))
            free_call(n);
    }
    while ((n = as_list_pop(&d->spare_calls)))
        free_call(n);
    free(d->connections);
    as_arena_fini(&d->arena);
    as_buf_fini(&d->body);
    as_json_free(d->json);
}

int as_load_driver_run(const struct as_load_driver_conf *conf, struct as_load_driver_result *ret_r)
{
    struct as_load_driver *d = as_xalloc(sizeof(*d));
    int rc;

    *ret_r = (struct as_load_driver_result){.lost = 0};
    d->conf = conf;
    d->result = ret_r;
    d->tally = &ret_r->tally;
    d->n_wanted = conf->requests ? conf->requests : UINT64_MAX;
    as_list_init(&d->spare_calls);
    as_arena_init(&d->arena, NULL, 0);
    as_model_call_prepare(&d->frame, conf->protocol, &conf->request, conf->authority,
                          conf->tls != NULL);
    d->frame.request.head_id = 1; /* all calls have the same head */
    for (uint32_t i = 0; i < d->frame.request.n_body; i++)
        as_buf_add(&d->body, d->frame.body[i].p, d->frame.body[i].n);
    d->frame.body[0] = as_buf_slice(&d->body);
    d->frame.request.n_body = d->body.n ? 1 : 0;
    rc = as_loop_new(&d->loop, 0);
    AS_ASSERT(rc == 0); /* a process without a few free descriptors cannot work at all */
    if (conf->tls)
        d->tls_buffer = as_tls_buffer_new(d->loop, AS_TLS_CLIENT_MESSAGES);
    if (conf->protocol != AS_MODEL_CALL_GRPC && !(d->json = as_json_new()))
        as_fatal_memory(0);
    as_timer_init(&d->check_timer, d->loop, on_check_timer);
    rc = open_connections(d);
    if (rc == 0)
        rc = as_tick_open(&d->arrivals, d->loop, on_arrival);
    as_task_init(&d->poll, on_poll);
    if (rc == 0) {
        start_load(d);
        d->running = d->phase != AS_LOAD_DRIVER_DONE;
        if (d->running)
            as_loop_run(d->loop);
        d->running = false;
        count_unfinished(d);
        as_load_driver_wait_until(d, AS_NEVER);
        as_tick_close(&d->arrivals, NULL);
        ret_r->measured =
            AS_MAX(d->conf->requests ? d->last_answer : d->measure_end, d->measure_start) -
            d->measure_start;
        if (as_tally_due(d->tally) == 0 && ret_r->lost)
            rc = AS_EUNAVAILABLE;
    }
    d->phase = AS_LOAD_DRIVER_DONE;
    close_all(d);
    free(d);
    return rc;
}
