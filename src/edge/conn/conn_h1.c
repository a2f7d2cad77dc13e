/* A connection that speaks HTTP/1.1: what waits for the answer before it, and who is gone.
 *
 * While a request waits for its answer the socket is read on, into `kept`, so that the end of the
 * client is heard. When something is kept, one read's worth, only that end is watched for. What
 * there is no room for ends the connection behind the answer that is under way: its client knows
 * that nothing else was read (RFC 9112, 9.3.2). A client
 * that ends its side while a handler works on its request has gone, as with HTTP/2; one whose
 * answer, or a part of it, is on its way gets that first.
 */
#include "base/err.h"
#include "base/memory/slab.h"
#include "edge/edge_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define PROBES 2 /* unanswered ones end a silent connection */

/* HTTP/1.1 has no ping; TCP's own looks after clients that vanish. */
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

/* Nothing more is read of it. */
static void end_reading(struct as_conn *c)
{
    c->deaf = true;
    if (as_h1_wants_read(c->h1))
        as_h1_refuse(c->h1, 503, "no room for pipelined requests (--max-inflight-bytes)");
    else
        as_h1_shutdown_final(c->h1);
}

static void keep(struct as_conn *c, const uint8_t *p, size_t n)
{
    AS_ASSERT(!c->kept_n && n <= AS_EDGE_RX);
    if (!as_account_take(c->requests, n)) {
        end_reading(c);
        return;
    }
    c->kept = as_slab_get(n);
    if (!c->kept) {
        as_account_give(c->requests, n);
        end_reading(c);
        return;
    }
    memcpy(c->kept, p, n);
    c->kept_at = 0;
    c->kept_n = n;
}

void as_conn_drop_kept(struct as_conn *c)
{
    as_account_give(c->requests, c->kept_n);
    as_slab_put(c->kept);
    c->kept = NULL;
    c->kept_at = c->kept_n = 0;
}

/* As much as may be taken now; answers in between go to c->out. Returns how much it was. */
static size_t take(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && c->out.bytes < AS_CONN_OUT && as_h1_wants_read(c->h1)) {
        size_t taken;

        if (as_h1_recv(c->h1, p + at, n - at, c->heard, &taken))
            return n; /* nobody reads the rest */
        at += taken;
        if (at < n && as_h1_send(c->h1, &c->out, AS_CONN_OUT))
            return n; /* it says so again in the next write */
    }
    return at;
}

void as_conn_h1_feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = take(c, p, n);

    if (at < n)
        keep(c, p + at, n - at);
}

bool as_conn_h1_send(struct as_conn *c)
{
    int err = as_h1_send(c->h1, &c->out, AS_CONN_OUT);

    while (!err && c->kept_n && c->out.bytes < AS_CONN_OUT && as_h1_wants_read(c->h1)) {
        size_t n = take(c, c->kept + c->kept_at, c->kept_n - c->kept_at);

        c->kept_at += n;
        if (c->kept_at == c->kept_n)
            as_conn_drop_kept(c);
        err = as_h1_send(c->h1, &c->out, AS_CONN_OUT);
    }
    if (!err)
        return true;
    as_conn_abort(c);
    return false;
}

void as_conn_h1_watch(struct as_conn *c)
{
    int events = c->sock.events & UV_WRITABLE;

    if (c->eof)
        ;
    else if (c->kept_n || c->deaf || c->out.bytes >= AS_CONN_OUT)
        events |= UV_DISCONNECT;
    else
        events |= UV_READABLE;
    as_sock_watch(&c->sock, events);
}

/* The client has ended its side. */
static void end_of_client(struct as_conn *c)
{
    if (!c->out.bytes && !as_h1_wants_write(c->h1)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    c->eof = true;
    as_h1_shutdown_final(c->h1);
    as_conn_touch(c);
}

static void on_bytes(struct as_conn *c)
{
    uint8_t *rx = c->edge->rx, *p = rx;
    size_t room = AS_EDGE_RX;
    bool direct = !c->kept_n && as_h1_direct(c->h1, &p, &room);
    int64_t n = as_sock_read(&c->sock, p, room);

    if (n == AS_EAGAIN)
        return;
    if (n == AS_EOF) {
        end_of_client(c);
        return;
    }
    if (n < 0) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    as_conn_received(c, (size_t)n);
    if (direct)
        as_h1_landed(c->h1, (size_t)n, c->heard);
    else
        as_conn_h1_feed(c, rx, (size_t)n);
    if (!c->sock.closing)
        as_conn_touch(c);
}

void as_conn_h1_readable(struct as_conn *c, int events)
{
    if (c->eof) /* its end, or that of what it takes, shows with the next write */
        return;
    if (events & UV_DISCONNECT)
        end_of_client(c);
    else if (events & UV_READABLE && c->sock.events & UV_READABLE)
        on_bytes(c);
    else if (events & UV_READABLE) /* not asked for: an error */
        as_conn_close(c, AS_CLOSE_CLIENT);
}

void as_conn_h1_sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns since = as_h1_head_since(c->h1);

    if (since == AS_NEVER && !as_h1_greeted(c->h1) && !as_h1_breach(c->h1))
        since = c->opened;
    if (since != AS_NEVER && now - since >= conf->header_timeout) {
        c->why = AS_CLOSE_HEADER_TIMEOUT;
        as_h1_refuse(c->h1, 408, "the head of the request is incomplete (--header-timeout)");
        as_conn_touch(c);
    } else if (as_conn_is_stuck(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->active >= conf->idle_timeout) {
        c->why = AS_CLOSE_IDLE;
        as_h1_shutdown_final(c->h1);
        as_conn_touch(c);
    }
}
