/* A connection with HTTP/1.1: pipelining, and noticing clients that have gone.
 *
 * While a request waits for its answer, the socket is still read, one read's worth into
 * `pipelined`, so that the client's close is noticed. Once something is stored there, the socket is
 * only watched for a close; the close of a client that has filled the kernel's receive buffer is
 * seen after the current answer. If there is no memory for pipelined bytes, the connection closes
 * after the current answer; the client then knows that nothing else was read (RFC 9112, 9.3.2).
 *
 * A client that shuts down its side while a handler works on its request counts as gone, as with
 * HTTP/2. If a part of the answer is already being sent, it gets the whole answer first.
 */
#include "base/err.h"
#include "base/memory/slab.h"
#include "edge/edge_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define PROBES 2 /* unanswered keepalive probes before a connection is closed */

/* HTTP/1.1 has no ping: TCP keepalive detects clients that vanished. */
static void set_keepalive(struct as_conn *c)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    int on = 1, probes = PROBES, fd = c->sock.fd;
    int idle = (int)AS_MAX(conf->keepalive_time / AS_SEC, (as_ns)1);
    int gap = (int)AS_MAX(conf->keepalive_timeout / AS_SEC / PROBES, (as_ns)1);

    if (!conf->keepalive_time)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap, sizeof(gap));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

int as_conn_h1_open(struct as_conn *c)
{
    int err = as_h1_new(&c->h1, &c->edge->conf.h1, &as_exchange_ops, c);

    if (!err)
        set_keepalive(c);
    return err;
}

int as_conn_h1_resume(struct as_conn *c)
{
    int err = as_conn_h1_open(c);

    if (err)
        return err;
    as_h1_resume(c->h1);
    as_list_remove(&c->node);
    as_list_push(&c->edge->conns, &c->node);
    return 0;
}

static void stop_reading(struct as_conn *c)
{
    c->reading_stopped = true;
    if (as_h1_wants_read(c->h1))
        as_h1_refuse(c->h1, 503, "no room for pipelined requests (--max-inflight-bytes)");
    else
        as_h1_shutdown_final(c->h1);
}

static void store_pipelined(struct as_conn *c, const uint8_t *p, size_t n)
{
    AS_ASSERT(!c->pipelined_n && n <= AS_EDGE_RX);
    if (!as_account_try_charge(c->requests, n)) {
        stop_reading(c);
        return;
    }
    c->pipelined = as_slab_get(n);
    if (!c->pipelined) {
        as_account_uncharge(c->requests, n);
        stop_reading(c);
        return;
    }
    memcpy(c->pipelined, p, n);
    c->pipelined_at = 0;
    c->pipelined_n = n;
}

void as_conn_free_pipelined(struct as_conn *c)
{
    as_account_uncharge(c->requests, c->pipelined_n);
    as_slab_put(c->pipelined);
    c->pipelined = NULL;
    c->pipelined_at = c->pipelined_n = 0;
}

/* Parses requests until one has to wait; answers go to c->out. Returns the bytes used. */
static size_t parse_bytes(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && c->out.bytes < AS_CONN_OUT && as_h1_wants_read(c->h1)) {
        size_t taken;

        if (as_h1_recv(c->h1, p + at, n - at, c->last_received, &taken))
            return n; /* the rest is ignored */
        at += taken;
        if (at < n && as_h1_send(c->h1, &c->out, AS_CONN_OUT))
            return n; /* the next write reports it again */
    }
    return at;
}

void as_conn_h1_feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = parse_bytes(c, p, n);

    if (at < n)
        store_pipelined(c, p + at, n - at);
}

bool as_conn_h1_send(struct as_conn *c)
{
    int err = as_h1_send(c->h1, &c->out, AS_CONN_OUT);

    while (!err && c->pipelined_n && c->out.bytes < AS_CONN_OUT && as_h1_wants_read(c->h1)) {
        size_t n = parse_bytes(c, c->pipelined + c->pipelined_at, c->pipelined_n - c->pipelined_at);

        c->pipelined_at += n;
        if (c->pipelined_at == c->pipelined_n)
            as_conn_free_pipelined(c);
        err = as_h1_send(c->h1, &c->out, AS_CONN_OUT);
    }
    if (!err)
        return true;
    as_conn_abort(c);
    return false;
}

void as_conn_h1_update_events(struct as_conn *c)
{
    int events = c->sock.events & UV_WRITABLE;

    if (c->eof)
        ;
    else if (c->pipelined_n || c->reading_stopped || c->out.bytes >= AS_CONN_OUT)
        events |= UV_DISCONNECT;
    else
        events |= UV_READABLE;
    as_sock_watch(&c->sock, events);
}

/* The client has shut down its side. */
static void on_client_eof(struct as_conn *c)
{
    if (!c->out.bytes && !as_h1_wants_write(c->h1)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    c->eof = true;
    as_h1_shutdown_final(c->h1);
    as_conn_schedule_flush(c);
}

static void read_bytes(struct as_conn *c)
{
    uint8_t *rx = c->edge->rx, *p = rx;
    size_t room = AS_EDGE_RX;
    bool direct = !c->pipelined_n && as_h1_body_buffer(c->h1, &p, &room);
    int64_t n = as_sock_read(&c->sock, p, room);

    if (n == AS_EAGAIN)
        return;
    if (n == AS_EOF) {
        on_client_eof(c);
        return;
    }
    if (n < 0) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    as_conn_received(c, (size_t)n);
    if (direct)
        as_h1_body_received(c->h1, (size_t)n, c->last_received);
    else
        as_conn_h1_feed(c, rx, (size_t)n);
    if (!c->sock.closing)
        as_conn_schedule_flush(c);
}

void as_conn_h1_on_event(struct as_conn *c, int events)
{
    if (c->eof) /* the next write shows whether it still reads */
        return;
    if (events & UV_DISCONNECT)
        on_client_eof(c);
    else if (events & UV_READABLE && c->sock.events & UV_READABLE)
        read_bytes(c);
    else if (events & UV_READABLE) /* not watched for: an error */
        as_conn_close(c, AS_CLOSE_CLIENT);
}

void as_conn_h1_sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns since = as_h1_head_since(c->h1);

    if (since == AS_NEVER && !as_h1_got_request(c->h1) && !as_h1_breach(c->h1))
        since = c->opened;
    if (since != AS_NEVER && now - since >= conf->header_timeout) {
        c->close_reason = AS_CLOSE_HEADER_TIMEOUT;
        as_h1_refuse(c->h1, 408, "the head of the request is incomplete (--header-timeout)");
        as_conn_schedule_flush(c);
    } else if (as_conn_close_if_stuck(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->last_active >= conf->idle_timeout) {
        c->close_reason = AS_CLOSE_IDLE;
        as_h1_shutdown_final(c->h1);
        as_conn_schedule_flush(c);
    }
}
