/* One client connection: bytes between the socket and its HTTP/2 session. */
#include "edge/edge_own.h"

#include "base/counter.h"
#include "base/err.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define OUT_MAX (512u << 10) /* bytes taken from h2 per write */

static struct as_conn *conn_of(struct as_sock *s)
{
    return AS_CONTAINER(s, struct as_conn, sock);
}

static void on_closed(struct as_sock *s)
{
    free(conn_of(s));
}

/* Those that the client is to blame for. */
static void log_close(struct as_conn *c, uint32_t why)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    char host[INET6_ADDRSTRLEN] = "unknown";
    uint64_t skipped;

    if (why < AS_CLOSE_EVICTED || !as_edge_may_log(c->edge, why, &skipped))
        return;
    if (getpeername(c->sock.fd, (struct sockaddr *)&peer, &len) == 0)
        getnameinfo((struct sockaddr *)&peer, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
    as_log_event(c->edge->log, AS_LOG_WARN, "client_closed",
                 "reason=%s client=%s requests=%lu open=%u age_ms=%lu skipped=%lu",
                 as_close_name(why), host, c->n_requests, c->n_open,
                 (as_loop_now(c->edge->loop) - c->opened) / AS_MS, skipped);
}

void as_conn_close(struct as_conn *c, uint32_t why)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct as_edge *e = c->edge;

    if (c->sock.closing)
        return;
    log_close(c, why);
    as_count(&e->stat.ended[why], 1);
    as_task_cancel(&c->flush);
    /* The kernel would go on offering to such a client what it has not taken, for minutes. */
    if (why == AS_CLOSE_SEND_TIMEOUT)
        setsockopt(c->sock.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    as_sock_close(&c->sock, on_closed);
    as_h2_free(c->h2); /* tells every open request that its client has gone */
    c->h2 = NULL;
    as_outq_fini(&c->out);
    as_list_remove(&c->node);
    as_edge_conn_gone(e);
}

void as_conn_touch(struct as_conn *c)
{
    as_loop_defer(c->edge->loop, &c->flush);
}

static uint32_t reason(const struct as_conn *c)
{
    enum as_h2_breach breach = as_h2_breach(c->h2);

    return breach ? AS_CLOSE_BREACH + (uint32_t)breach : (uint32_t)c->why;
}

/* What h2 still says goes out as far as the client takes it now, and that is the end. */
static void finish(struct as_conn *c)
{
    struct as_linger *linger = &c->edge->linger;
    int fd = fcntl(c->sock.fd, F_DUPFD_CLOEXEC, 0);

    as_conn_close(c, reason(c)); /* first: once shut down, a socket may not know its peer */
    if (fd >= 0)                 /* else it is closed, and the client may not hear why */
        as_linger_add(linger, fd);
}

/* How long has the client not taken what waits for it? Output that is full is enough: nothing more
 * is read that could make it grow. */
static void note_waiting(struct as_conn *c, bool waited, size_t written)
{
    int events = c->sock.events;

    c->moved += written;
    if (!waited || c->moved >= c->edge->conf.min_progress) {
        c->stuck = as_loop_now(c->edge->loop);
        c->moved = 0;
    }
    as_sock_watch(&c->sock, c->out.bytes < OUT_MAX ? events | UV_READABLE : events & ~UV_READABLE);
}

static void on_flush(struct as_task *t)
{
    struct as_conn *c = AS_CONTAINER(t, struct as_conn, flush);
    bool waited = c->sock.events & UV_WRITABLE;
    size_t before, written = 0;

    /* more than one round only for answers larger than OUT_MAX into a socket that takes them */
    do {
        if (as_h2_send(c->h2, &c->out, OUT_MAX))
            c->ending = true;
        before = c->out.bytes;
        if (as_sock_flush(&c->sock, &c->out)) {
            as_conn_close(c, c->ending ? reason(c) : (uint32_t)AS_CLOSE_CLIENT);
            return;
        }
        written += before - c->out.bytes;
    } while (!c->out.bytes && !c->ending && as_h2_wants_write(c->h2));
    as_count(&c->edge->stat.bytes_out, written);
    if (c->ending) {
        finish(c);
        return;
    }
    if (c->out.bytes || waited)
        note_waiting(c, waited, written);
    if (!c->out.bytes && as_h2_done(c->h2))
        finish(c); /* a client that has said GOAWAY may say more: a PING must not meet a reset */
}

void as_conn_end(struct as_conn *c, enum as_close why, bool calm)
{
    c->why = why;
    if (calm)
        as_h2_enough(c->h2, as_close_name(why));
    else
        as_h2_shutdown_final(c->h2);
    c->ending = true;
    as_task_cancel(&c->flush);
    on_flush(&c->flush);
}

void as_conn_begin_request(struct as_conn *c)
{
    c->n_open++;
    if (c->n_requests++ == 0) {
        as_list_remove(&c->node);
        as_list_push(&c->edge->conns, &c->node);
    }
}

void as_conn_end_request(struct as_conn *c)
{
    c->n_open--;
    if (c->n_open || c->sock.closing)
        return;
    c->active = as_loop_now(c->edge->loop);
    as_list_remove(&c->node);
    as_list_push(&c->edge->conns, &c->node);
}

/* True: closed. */
static bool is_stuck(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;

    if (!c->out.bytes || !conf->send_timeout || now - c->stuck < conf->send_timeout)
        return false;
    as_conn_close(c, AS_CLOSE_SEND_TIMEOUT);
    return true;
}

/* True: closed. A full output keeps us from hearing anything: is_stuck is for that. */
static bool is_dead(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;

    if (!conf->keepalive_time || c->out.bytes || now - c->heard < conf->keepalive_time)
        return false;
    if (c->pinged <= c->heard) {
        c->pinged = now;
        as_h2_ping(c->h2);
        as_conn_touch(c);
    } else if (now - c->pinged >= conf->keepalive_timeout) {
        as_conn_close(c, AS_CLOSE_KEEPALIVE);
        return true;
    }
    return false;
}

void as_conn_sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns block = as_h2_block_since(c->h2);

    if (!as_h2_greeted(c->h2)) {
        if (now - c->opened >= conf->header_timeout)
            as_conn_close(c, AS_CLOSE_HEADER_TIMEOUT);
    } else if (block != AS_NEVER && now - block >= conf->header_timeout) {
        as_conn_end(c, AS_CLOSE_HEADER_TIMEOUT, true);
    } else if (is_stuck(c, now) || is_dead(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->active >= conf->idle_timeout) {
        c->why = AS_CLOSE_IDLE;
        as_h2_shutdown_final(c->h2);
        as_conn_touch(c);
    }
}

static void feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    while (!c->ending) {
        size_t taken;

        if (as_h2_recv(c->h2, p, n, c->heard, &taken))
            c->ending = true;
        p += taken;
        n -= taken;
        if (!n)
            return;
        if (as_h2_send(c->h2, &c->out, OUT_MAX))
            c->ending = true;
    }
}

static void on_readable(struct as_conn *c)
{
    struct as_edge *e = c->edge;
    int64_t n = as_sock_read(&c->sock, e->rx, AS_EDGE_RX);

    if (n == AS_EAGAIN)
        return;
    if (n < 0) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    as_count(&e->stat.bytes_in, (uint64_t)n);
    c->heard = as_loop_now(e->loop);
    feed(c, e->rx, (size_t)n);
    as_conn_touch(c);
}

static void on_event(struct as_sock *s, int events)
{
    struct as_conn *c = conn_of(s);

    if (events & UV_WRITABLE)
        as_conn_touch(c);
    if (events & UV_READABLE)
        on_readable(c);
}

void as_conn_accept(struct as_edge *e, int fd)
{
    struct as_conn *c = calloc(1, sizeof(*c));
    int one = 1;

    if (!c) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (as_h2_new(&c->h2, &e->conf.h2, &as_exchange_ops, c, as_loop_now(e->loop))) {
        close(fd);
        free(c);
        return;
    }
    if (as_sock_open(&c->sock, e->loop, fd, on_event)) {
        as_h2_free(c->h2);
        free(c);
        return;
    }
    c->edge = e;
    c->opened = c->active = c->heard = as_loop_now(e->loop);
    as_outq_init(&c->out);
    as_task_init(&c->flush, on_flush);
    as_list_push(&e->fresh, &c->node);
    e->n_conns++;
    as_count(&e->stat.accepted, 1);
    as_conn_touch(c); /* our SETTINGS */
}
