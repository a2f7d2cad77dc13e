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
#include "edge/conn/conn_tls.h"

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

/* In an upgrade it goes to the next dispatcher when it becomes idle. A session of TLS cannot. */
static bool is_handed_over(const struct as_conn *c)
{
    return !c->tls && as_connection_handover_is_open(&c->edge->handover);
}

static int open_session(struct as_conn *c)
{
    struct as_h1 *h;
    int err = as_h1_new(&h, &c->edge->conf.h1, &as_exchange_ops, c);

    if (err)
        return err;
    c->protocol = &as_conn_h1;
    memset(&c->h1, 0, sizeof(c->h1));
    c->h1.session = h;
    set_keepalive(c);
    if (c->edge->conf.one_request || (c->edge->draining && !is_handed_over(c)))
        as_h1_shutdown_notice(h);
    return 0;
}

int as_conn_h1_resume(struct as_conn *c)
{
    int err = open_session(c);

    if (err)
        return err;
    as_h1_resume(c->h1.session);
    as_list_remove(&c->node);
    as_list_push(&c->edge->conns, &c->node);
    return 0;
}

static void stop_reading(struct as_conn *c)
{
    c->h1.reading_stopped = true;
    if (as_h1_wants_read(c->h1.session))
        as_h1_refuse(c->h1.session, 503, "no room for pipelined requests (--max-inflight-bytes)");
    else
        as_h1_shutdown_final(c->h1.session);
}

static void store_pipelined(struct as_conn *c, const uint8_t *p, size_t n)
{
    AS_ASSERT(!c->h1.pipelined_n && n <= AS_EDGE_RX);
    if (!as_account_try_charge(c->requests, n)) {
        stop_reading(c);
        return;
    }
    c->h1.pipelined = as_slab_get(n);
    if (!c->h1.pipelined) {
        as_account_uncharge(c->requests, n);
        stop_reading(c);
        return;
    }
    memcpy(c->h1.pipelined, p, n);
    c->h1.pipelined_at = 0;
    c->h1.pipelined_n = n;
}

static void free_pipelined(struct as_conn *c)
{
    as_account_uncharge(c->requests, c->h1.pipelined_n);
    as_slab_put(c->h1.pipelined);
    c->h1.pipelined = NULL;
    c->h1.pipelined_at = c->h1.pipelined_n = 0;
}

static void free_session(struct as_conn *c)
{
    as_h1_free(c->h1.session);
    free_pipelined(c);
}

/* Parses requests until one has to wait; answers go to c->out. Returns the bytes used. */
static size_t parse_bytes(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = 0;

    while (at < n && c->out.bytes < AS_CONN_OUT && as_h1_wants_read(c->h1.session)) {
        size_t taken;

        if (as_h1_recv(c->h1.session, p + at, n - at, c->last_received, &taken))
            return n; /* the rest is ignored */
        at += taken;
        if (at < n && as_h1_send(c->h1.session, &c->out, AS_CONN_OUT))
            return n; /* the next write reports it again */
    }
    return at;
}

static void feed(struct as_conn *c, const uint8_t *p, size_t n)
{
    size_t at = parse_bytes(c, p, n);

    if (at < n)
        store_pipelined(c, p + at, n - at);
}

static bool send_output(struct as_conn *c)
{
    int err = as_h1_send(c->h1.session, &c->out, AS_CONN_OUT);

    while (!err && c->h1.pipelined_n && c->out.bytes < AS_CONN_OUT &&
           as_h1_wants_read(c->h1.session)) {
        size_t n = parse_bytes(c, c->h1.pipelined + c->h1.pipelined_at,
                               c->h1.pipelined_n - c->h1.pipelined_at);

        c->h1.pipelined_at += n;
        if (c->h1.pipelined_at == c->h1.pipelined_n)
            free_pipelined(c);
        err = as_h1_send(c->h1.session, &c->out, AS_CONN_OUT);
    }
    if (!err)
        return true;
    as_conn_abort(c);
    return false;
}

static void watch(struct as_conn *c)
{
    int events = c->sock.events & UV_WRITABLE;

    if (c->eof)
        ;
    else if (c->h1.pipelined_n || c->h1.reading_stopped || c->out.bytes >= AS_CONN_OUT)
        events |= UV_DISCONNECT;
    else
        events |= UV_READABLE;
    as_conn_watch(c, events);
}

/* The client has shut down its side. */
static void on_client_eof(struct as_conn *c)
{
    if (!c->out.bytes && !as_h1_wants_write(c->h1.session)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    c->eof = true;
    as_h1_shutdown_final(c->h1.session);
    as_conn_schedule_flush(c);
}

static void read_bytes(struct as_conn *c)
{
    uint8_t *rx = c->edge->rx, *p = rx;
    size_t room = AS_EDGE_RX;
    bool direct = !c->h1.pipelined_n && as_h1_body_buffer(c->h1.session, &p, &room);
    int64_t n = as_conn_read(c, p, room);

    if (n == AS_EAGAIN)
        return;
    if (n == AS_EOF) {
        on_client_eof(c);
        return;
    }
    if (n < 0) {
        as_conn_close(c, as_conn_read_failure(c));
        return;
    }
    as_conn_received(c, (size_t)n);
    if (direct)
        as_h1_body_received(c->h1.session, (size_t)n, c->last_received);
    else
        feed(c, rx, (size_t)n);
    if (!c->sock.closing)
        as_conn_schedule_flush(c);
}

static void on_event(struct as_conn *c, int events)
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

static void sweep(struct as_conn *c, as_ns now)
{
    const struct as_edge_conf *conf = &c->edge->conf;
    as_ns since = as_h1_head_since(c->h1.session);

    if (since == AS_NEVER && !as_h1_got_request(c->h1.session) && !as_h1_breach(c->h1.session))
        since = c->ready;
    if (since != AS_NEVER && now - since >= conf->header_timeout) {
        c->close_reason = AS_CLOSE_HEADER_TIMEOUT;
        as_h1_refuse(c->h1.session, 408,
                     "the head of the request is incomplete (--header-timeout)");
        as_conn_schedule_flush(c);
    } else if (as_conn_close_if_stuck(c, now)) {
        return;
    } else if (conf->idle_timeout && !c->n_open && now - c->last_active >= conf->idle_timeout) {
        c->close_reason = AS_CLOSE_IDLE;
        as_h1_shutdown_final(c->h1.session);
        as_conn_schedule_flush(c);
    }
}

static bool wants_write(const struct as_conn *c)
{
    return as_h1_wants_write(c->h1.session) ||
           (c->h1.pipelined_n && as_h1_wants_read(c->h1.session));
}

static bool is_done(const struct as_conn *c)
{
    return as_h1_done(c->h1.session);
}

static bool is_idle(const struct as_conn *c)
{
    return !c->h1.pipelined_n && as_h1_is_idle(c->h1.session);
}

static void drain(struct as_conn *c, bool final)
{
    /* If it could not be handed over so far, or if its client pipelines requests without end, it
     * ends here. */
    if (is_handed_over(c) && !(final && (c->h1.pipelined_n || as_conn_is_idle(c))))
        return;
    c->close_reason = AS_CLOSE_DRAIN;
    (final ? as_h1_shutdown_final : as_h1_shutdown_notice)(c->h1.session);
    as_conn_schedule_flush(c);
}

static uint32_t close_reason(const struct as_conn *c, const char **ret_detail)
{
    *ret_detail = as_h1_breach(c->h1.session);
    return *ret_detail && c->close_reason == AS_CLOSE_CLIENT ? (uint32_t)AS_CLOSE_BAD_REQUEST
                                                             : (uint32_t)c->close_reason;
}

static void answer(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    as_h1_answer(c->h1.session, stream, a);
}

static void begin(struct as_conn *c, uint32_t stream, const struct as_http_answer *a)
{
    as_h1_begin(c->h1.session, stream, a);
}

static void write_piece(struct as_conn *c, uint32_t stream, const struct as_http_piece *piece)
{
    as_h1_write(c->h1.session, stream, piece);
}

static void finish(struct as_conn *c, uint32_t stream,
                   const struct as_http_header *trailers AS_UNUSED, uint32_t n_trailers AS_UNUSED)
{
    as_h1_finish(c->h1.session, stream);
}

static void consume(struct as_conn *c, uint32_t stream, size_t n)
{
    as_h1_consume(c->h1.session, stream, n);
}

static void receive_into(struct as_conn *c, uint32_t stream, uint8_t *p, size_t n)
{
    as_h1_set_body_buffer(c->h1.session, stream, p, n);
}

static void reset(struct as_conn *c, uint32_t stream)
{
    as_h1_reset(c->h1.session, stream);
}

static size_t unsent(struct as_conn *c, uint32_t stream)
{
    return as_h1_bytes_unsent(c->h1.session, stream);
}

static uint64_t sent(struct as_conn *c, uint32_t stream AS_UNUSED)
{
    return as_h1_bytes_sent(c->h1.session);
}

static void cut(struct as_conn *c, uint32_t stream)
{
    as_h1_cut(c->h1.session, stream);
}

static uint8_t version(const struct as_conn *c)
{
    return as_h1_version(c->h1.session);
}

const struct as_conn_protocol as_conn_h1 = {
    .version = version,
    .cut = cut,
    .handover = 'a', /* it has had requests */
    .open = open_session,
    .free = free_session,
    .on_event = on_event,
    .feed = feed,
    .send = send_output,
    .wants_write = wants_write,
    .is_done = is_done,
    .is_idle = is_idle,
    .watch = watch,
    .sweep = sweep,
    .drain = drain,
    .close_reason = close_reason,
    .answer = answer,
    .begin = begin,
    .write = write_piece,
    .finish = finish,
    .consume = consume,
    .receive_into = receive_into,
    .reset = reset,
    .unsent = unsent,
    .sent = sent,
};
