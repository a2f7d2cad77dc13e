#include "edge/edge.h"

#include "base/counter.h"
#include "base/err.h"
#include "edge/conn/conn_tls.h"
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/exchange.h"
#include "edge/grpc/stream.h"
#include "edge/rest/rest.h"
#include "edge/websocket/websocket.h"
#include "io/random.h"
#include "io/socket/peer.h"
#include "wire/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 64 /* so that requests are not delayed */
/* A connection is not evicted within this time after it was opened or last used. */
#define EVICT_AGE        AS_SEC
#define EVICT_CANDIDATES 64

/* Without descriptors or memory the listeners must not be watched, or the loop would spin; the next
 * sweep watches them again. */
static void watch_listeners(struct as_edge *e, int events)
{
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_watch(&e->listeners[i].sock, events);
}

const char *as_close_reason_name(uint32_t why)
{
    static const char *const names[] = {
        [AS_CLOSE_CLIENT] = "client",
        [AS_CLOSE_IDLE] = "idle",
        [AS_CLOSE_DRAIN] = "drain",
        [AS_CLOSE_MOVED] = "moved",
        [AS_CLOSE_EVICTED] = "evicted",
        [AS_CLOSE_HEADER_TIMEOUT] = "header_timeout",
        [AS_CLOSE_SEND_TIMEOUT] = "send_timeout",
        [AS_CLOSE_KEEPALIVE] = "keepalive_timeout",
        [AS_CLOSE_BAD_REQUEST] = "bad_request",
        [AS_CLOSE_HANDSHAKE_TIMEOUT] = "handshake_timeout",
        [AS_CLOSE_HANDSHAKE_FAILED] = "handshake_failed",
        [AS_CLOSE_HANDSHAKE_EVICTED] = "handshake_evicted",
        [AS_CLOSE_HANDSHAKE_REFUSED] = "handshake_refused",
        [AS_CLOSE_TLS_FLOOD] = "tls_flood",
    };

    if (why < AS_CLOSE_BREACH)
        return names[why];
    return why == AS_CLOSE_BREACH || why >= AS_CLOSE_REASONS
               ? NULL
               : as_h2_breach_name((enum as_h2_breach)(why - AS_CLOSE_BREACH));
}

const char *as_edge_refusal_event(const struct as_edge *e)
{
    static const char *const events[AS_INTERFACES] = {
        [AS_INTERFACE_MANAGEMENT] = "management_refused",
        [AS_INTERFACE_CONTROL] = "control_refused",
        [AS_INTERFACE_STATUS] = "status_refused",
    };

    return events[e->conf.interface];
}

bool as_edge_may_log(struct as_edge *e, uint32_t kind, uint64_t *ret_skipped)
{
    return as_log_ratelimit_allows(&e->log_limits[kind], as_loop_now(e->loop), AS_SEC, ret_skipped);
}

/* Without any its ports with TLS refuse everybody. */
static bool has_certificates(const struct as_edge *e)
{
    return !e->conf.tls || as_tls_server_not_after(e->conf.tls);
}

/* Without a table nobody's key is known to be valid. */
static bool has_keys(const struct as_edge *e)
{
    return !e->conf.api_keys || e->keys.table;
}

bool as_edge_is_ready(const struct as_edge *e)
{
    return has_certificates(e) && has_keys(e) && !e->shutting_down &&
           as_fleet_ready(e->client.fleet);
}

bool as_edge_is_model_ready(const struct as_edge *e, const struct as_model *m)
{
    return !e->shutting_down && !m->unloaded &&
           as_fleet_deployment_ready(e->client.fleet, m->deployment);
}

static void sweep_list(struct as_list *conns, as_ns now, bool final)
{
    AS_LIST_EACH_ENTRY(c, struct as_conn, node, conns) {
        if (final)
            as_conn_drain(c, true);
        as_conn_sweep(c, now);
    }
}

/* Enforces all timeouts of clients, and takes the second step of a drain. */
static void on_sweep(struct as_timer *t)
{
    struct as_edge *e = AS_CONTAINER(t, struct as_edge, sweep);
    as_ns now = as_loop_now(e->loop);
    bool final = e->draining && now >= e->drain_final;

    as_client_timeouts_begin_sweep(e);
    as_stream_expire_all(e, now);
    as_websocket_sweep_all(e, now);
    if (final) {
        e->drain_final = AS_NEVER;
        as_stream_drain_all(e);
    }
    as_client_timeouts_sweep(e, now);
    sweep_list(&e->new_conns, now, final);
    sweep_list(&e->conns, now, final);
    as_exchange_pool_trim(e);
    if (!e->draining)
        watch_listeners(e, UV_READABLE);
    if (e->n_conns || e->stat.pooled > AS_EXCHANGE_POOL_MIN)
        as_timer_set(&e->sweep, AS_MIN(now + e->sweep_every, e->drain_final));
}

void as_edge_conn_closed(struct as_edge *e)
{
    e->n_conns--;
    as_counter_add(&e->stat.closed, 1);
    if (e->n_conns == 0 && e->draining) {
        as_timer_set(&e->sweep, AS_NEVER);
        if (e->drained)
            e->drained(e->drained_arg);
    }
}

/* Makes room for a new connection, so that idle ones do not keep others out. Evicts the oldest
 * connection without a request so far, else the one that has been idle longest. */
static bool evict_idle_connection(struct as_edge *e)
{
    struct as_list *lists[] = {&e->new_conns, &e->conns};
    as_ns now = as_loop_now(e->loop);

    for (size_t i = 0; i < AS_COUNT(lists); i++) {
        int candidates = EVICT_CANDIDATES;

        AS_LIST_EACH_ENTRY(c, struct as_conn, node, lists[i]) {
            if (!c->n_open && now - c->last_active >= EVICT_AGE) {
                as_conn_end(c, AS_CLOSE_EVICTED, false);
                return true;
            }
            if (--candidates == 0)
                break;
        }
    }
    return false;
}

static void refuse_connection(struct as_edge *e, int fd)
{
    uint64_t skipped;

    as_counter_add(&e->stat.refused, 1);
    close(fd);
    if (as_edge_may_log(e, AS_EDGE_LOG_REFUSED, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "client_refused",
                     "reason=max_connections connections=%u skipped=%lu", e->n_conns, skipped);
}

struct as_conn *as_edge_admit(struct as_edge *e, int fd, bool tls)
{
    struct as_conn *c;

    if (e->n_conns >= e->conf.max_connections && !evict_idle_connection(e)) {
        refuse_connection(e, fd);
        return NULL;
    }
    c = as_conn_accept(e, fd, tls);
    if (e->sweep.at == AS_NEVER) {
        e->last_sweep = as_loop_now(e->loop);
        as_timer_set(&e->sweep, e->last_sweep + e->sweep_every);
    }
    return c;
}

/* accept() is tried again at each sweep. */
static void log_starved(struct as_edge *e, int err)
{
    uint64_t skipped;

    if (as_log_ratelimit_allows(&e->accept_log_limit, as_loop_now(e->loop),
                                AS_SOCK_STARVED_LOG_INTERVAL, &skipped))
        as_log_event(e->log, AS_LOG_ERROR, "accept_failed", "reason=\"%s\" failures=%lu",
                     strerror(err), skipped + 1);
}

/* At the end of the turn, and not beyond a refusal: clients that have left are noticed first. */
static void accept_clients(struct as_task *t)
{
    struct as_listener *l = AS_CONTAINER(t, struct as_listener, accept);
    struct as_edge *e = l->edge;

    for (int i = 0; i < ACCEPTS_PER_TURN && !l->sock.closing; i++) {
        int fd = accept4(l->sock.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && as_sock_is_starved(errno)) {
            log_starved(e, errno);
            watch_listeners(e, 0);
            as_timer_set(&e->sweep, as_loop_now(e->loop) + e->sweep_every);
        }
        if (fd < 0 || !as_edge_admit(e, fd, l->tls))
            return;
    }
}

static void on_listener(struct as_sock *s, int events AS_UNUSED)
{
    struct as_listener *l = AS_CONTAINER(s, struct as_listener, sock);

    as_loop_defer(l->edge->loop, &l->accept);
}

static bool is_loopback(int fd)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof(own);

    return getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
           as_peer_is_loopback((struct sockaddr *)&own);
}

int as_edge_listen(struct as_edge *e, int fd, bool tls)
{
    struct as_listener *l = &e->listeners[e->n_listeners];
    int own, err;

    AS_ASSERT(e->n_listeners < AS_EDGE_LISTENERS);
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return AS_EIO;
    l->edge = e;
    l->tls = tls;
    as_task_init(&l->accept, accept_clients);
    err = as_sock_open(&l->sock, e->loop, own, on_listener);
    if (!err)
        e->n_listeners++;
    e->loopback |= is_loopback(fd);
    return err;
}

int as_edge_adopt(struct as_edge *e, int fd)
{
    return as_connection_handover_adopt(&e->handover, fd);
}

static void on_registry(struct as_fleet_client *c)
{
    as_stream_notify_all(AS_CONTAINER(c, struct as_edge, client));
}

int as_edge_new(struct as_edge **ret_e, struct as_loop *loop, struct as_fleet *fleet,
                const struct as_edge_conf *conf, struct as_edge_budgets *budgets,
                const struct as_log *log)
{
    struct as_edge *e = as_xalloc(sizeof(*e));
    uint8_t secret[AS_SIPHASH_SECRET];
    int err;

    as_random_bytes(secret, sizeof(secret));
    as_key_cache_init(&e->keys, secret);
    e->loop = loop;
    e->conf = *conf;
    e->budgets = budgets;
    e->log = log;
    e->drain_final = AS_NEVER;
    e->sweep_every = as_client_timeouts_sweep_interval(conf);
    e->rx = as_xalloc(AS_EDGE_RX);
    as_list_init(&e->new_conns);
    as_list_init(&e->conns);
    as_client_timeouts_init(e);
    as_stream_init_all(e);
    as_list_init(&e->websockets);
    as_handshakes_init(&e->handshakes, e);
    as_compressor_init(&e->compressor, loop);
    e->client.on_registry = on_registry;
    err = as_fleet_client_open(&e->client, fleet, loop);
    if (!err)
        err = as_helper_open(&e->helper, loop);
    if (err) {
        free(e->rx);
        free(e);
        return err;
    }
    as_timer_init(&e->sweep, loop, on_sweep);
    as_connection_handover_init(&e->handover, e);
    as_linger_init(&e->linger, loop, e->rx, AS_EDGE_RX, conf->linger_timeout, conf->max_lingering);
    *ret_e = e;
    return 0;
}

static void notify_drain(struct as_list *conns)
{
    AS_LIST_EACH(n, conns) as_conn_drain(AS_LIST_ENTRY(n, struct as_conn, node), false);
}

static void close_connections(struct as_list *conns)
{
    AS_LIST_EACH(n, conns) as_conn_close(AS_LIST_ENTRY(n, struct as_conn, node), AS_CLOSE_DRAIN);
}

void as_edge_drain(struct as_edge *e, int successor, void (*drained)(void *arg), void *arg)
{
    as_connection_handover_stop_adopting(&e->handover);
    e->draining = e->shutting_down = true;
    e->drained = drained;
    e->drained_arg = arg;
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_close(&e->listeners[i].sock, NULL);
    e->n_listeners = 0;
    if (!e->n_conns) {
        if (successor >= 0)
            close(successor);
        if (drained)
            drained(arg);
        return;
    }
    e->drain_final = as_loop_now(e->loop) + e->conf.goaway_grace;
    as_connection_handover_start(&e->handover, successor);
    if (!e->n_conns) /* the last one was handed over, and `drained` called */
        return;
    if (successor < 0) /* in an upgrade they stay until the drain timeout */
        as_websocket_drain_all(e);
    notify_drain(&e->new_conns);
    notify_drain(&e->conns);
    as_stream_notify_all(e);
    as_timer_set(&e->sweep, e->drain_final);
}

static void fail_uploads(struct as_edge *e)
{
    struct as_list *n;

    while ((n = as_list_pop(&e->uploads))) {
        struct as_exchange *x = AS_LIST_ENTRY(n, struct as_exchange, progress.node);

        if (!x->answer.deferred) {
            as_exchange_fail(x, AS_EUNAVAILABLE, "the server is ending");
            as_exchange_free_body(x);
        }
        if (x->answer.deferred) /* its answer was only waiting for the rest of the request */
            as_rest_send_deferred(x);
    }
}

static void finish_connections(struct as_list *conns)
{
    AS_LIST_EACH(n, conns) as_conn_drain(AS_LIST_ENTRY(n, struct as_conn, node), true);
}

void as_edge_drain_expired(struct as_edge *e)
{
    e->drain_final = AS_NEVER;
    fail_uploads(e);
    as_stream_drain_all(e);
    as_websocket_drain_all(e);
    finish_connections(&e->new_conns);
    finish_connections(&e->conns);
}

void as_edge_announce_certificates(struct as_edge *e)
{
    as_stream_notify_all(e);
}

void as_edge_announce_shutdown(struct as_edge *e)
{
    e->shutting_down = true;
    as_stream_notify_all(e);
}

void as_edge_stop(struct as_edge *e)
{
    e->draining = e->shutting_down = true;
    e->drained = NULL;
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_close(&e->listeners[i].sock, NULL);
    e->n_listeners = 0;
    close_connections(&e->new_conns);
    close_connections(&e->conns);
}

void as_edge_close(struct as_edge *e)
{
    AS_ASSERT(e->n_conns == 0 && e->stat.exchanges == 0);
    as_fleet_client_close(&e->client);
    as_stream_fini_all(e);
    as_compressor_fini(&e->compressor);
    as_helper_close(&e->helper);
    as_timer_close(&e->sweep, NULL);
    as_linger_close(&e->linger);
    as_connection_handover_close(&e->handover);
}

void as_edge_free(struct as_edge *e)
{
    if (!e)
        return;
    as_exchange_pool_free(e);
    as_key_cache_fini(&e->keys);
    as_json_free(e->json);
    as_json_free(e->large_json);
    as_tls_buffer_free(e->tls_buffer);
    free(e->rx);
    free(e);
}

void as_edge_set_keys(struct as_edge *e, struct as_key_table *t)
{
    as_key_cache_set_table(&e->keys, t);
}

struct as_mbox *as_edge_mailbox(struct as_edge *e)
{
    return &e->client.box;
}

const struct as_edge_stat *as_edge_stat(const struct as_edge *e)
{
    return &e->stat;
}

const struct as_loop_stat *as_edge_loop_stat(const struct as_edge *e)
{
    return &e->loop->stat;
}
