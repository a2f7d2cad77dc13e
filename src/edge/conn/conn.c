/* One client connection: moves bytes between the socket and the protocol. */
#include "edge/conn/conn.h"

#include "base/counter.h"
#include "base/err.h"
#include "edge/conn/conn_tls.h"
#include "io/socket/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static struct as_conn *conn_of(struct as_sock *s)
{
    return AS_CONTAINER(s, struct as_conn, sock);
}

static void on_closed(struct as_sock *s)
{
    struct as_conn *c = conn_of(s);

    free(c->addresses);
    free(c);
}

/* Charges the memory of what the client has not taken. Most of the time there is nothing. */
static void charge_output(struct as_conn *c)
{
    size_t n = (c->out.bytes ? as_outq_memory(&c->out) : 0) + as_conn_kept_output(c);

    as_account_set(c->answers, &c->charged, n);
}

/* Logs closes that the client caused. */
static void log_close(struct as_conn *c, uint32_t why)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);
    char host[INET6_ADDRSTRLEN] = "unknown";
    const char *detail = NULL;
    uint64_t skipped;

    if (why < AS_CLOSE_EVICTED || why == AS_CLOSE_HANDSHAKE_REFUSED ||
        !as_edge_may_log(c->edge, why, &skipped))
        return;
    (void)c->protocol->close_reason(c, &detail);
    if (getpeername(c->sock.fd, (struct sockaddr *)&peer, &len) == 0)
        getnameinfo((struct sockaddr *)&peer, len, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
    as_log_event(c->edge->log, AS_LOG_WARN, "client_closed",
                 "reason=%s client=%s requests=%lu open=%u age_ms=%lu skipped=%lu%s%s%s",
                 as_close_reason_name(why), host, c->n_requests, c->n_open,
                 (as_loop_now(c->edge->loop) - c->opened) / AS_MS, skipped,
                 detail ? " detail=\"" : "", detail ? detail : "", detail ? "\"" : "");
}

/* Makes close() send a reset: the client notices it, and loses what it has not read. */
static void set_reset(struct as_conn *c)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};

    setsockopt(c->sock.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void as_conn_close(struct as_conn *c, uint32_t why)
{
    struct as_edge *e = c->edge;

    if (c->sock.closing)
        return;
    log_close(c, why);
    as_counter_add(&e->stat.closed_for[why], 1);
    as_task_cancel(&c->flush);
    /* Otherwise the kernel would keep retransmitting unread output for minutes. */
    if (why == AS_CLOSE_SEND_TIMEOUT)
        set_reset(c);
    as_sock_close(&c->sock, on_closed);
    if (c->protocol->free)
        c->protocol->free(c);
    c->protocol = &as_conn_detect;
    as_conn_tls_free(c);
    as_outq_fini(&c->out);
    charge_output(c);
    as_account_unref(c->requests);
    as_account_unref(c->answers);
    as_list_remove(&c->node);
    as_edge_conn_closed(e);
}

void as_conn_schedule_flush(struct as_conn *c)
{
    as_loop_defer(c->edge->loop, &c->flush);
}

static uint32_t close_reason_of(const struct as_conn *c)
{
    const char *detail;

    return c->protocol->close_reason(c, &detail);
}

void as_conn_abort(struct as_conn *c)
{
    set_reset(c);
    as_conn_close(c, close_reason_of(c));
}

/* Closes a connection whose last output was written, and lets its socket linger. */
static void close_with_linger(struct as_conn *c)
{
    struct as_linger *linger = &c->edge->linger;
    int fd = c->eof ? -1 : fcntl(c->sock.fd, F_DUPFD_CLOEXEC, 0);

    if (c->tls && c->tls->session)
        as_tls_close_notify(c->tls->session);
    as_conn_close(c, close_reason_of(c)); /* first: after shutdown() getpeername() may fail */
    if (fd >= 0)                          /* else the client may lose what was sent last */
        as_linger_add(linger, fd);
}

/* Updates when the client last took output. */
static void update_output_timer(struct as_conn *c, bool waited, size_t written)
{
    charge_output(c);
    c->output_taken += written;
    if (!waited || c->output_taken >= c->edge->conf.min_progress) {
        c->output_since = as_loop_now(c->edge->loop);
        c->output_taken = 0;
    }
}

static void on_flush(struct as_task *t)
{
    struct as_conn *c = AS_CONTAINER(t, struct as_conn, flush);
    bool waited = c->sock.events & UV_WRITABLE;
    size_t before, written = 0;

    /* several rounds only if an answer is larger than AS_CONN_OUT and the socket has room for it */
    do {
        if (!c->protocol->send(c))
            return;
        before = c->out.bytes;
        if (as_conn_flush(c)) {
            as_conn_close(c, c->ending ? close_reason_of(c) : (uint32_t)AS_CLOSE_CLIENT);
            return;
        }
        written += before - c->out.bytes;
    } while (!c->out.bytes && !c->ending && c->protocol->wants_write(c));
    as_counter_add(&c->edge->stat.bytes_out, written);
    if (c->ending) {
        close_with_linger(c);
        return;
    }
    if (c->out.bytes || as_conn_kept_output(c) || waited)
        update_output_timer(c, waited, written);
    if (!c->out.bytes && c->protocol->is_done(c))
        close_with_linger(c); /* lingers: a client that sent GOAWAY may still send a PING */
    else if (c->eof && !c->out.bytes && !c->protocol->wants_write(c))
        as_conn_close(c, AS_CLOSE_CLIENT); /* the last answer was sent */
    else if (!(c->edge->draining && as_connection_handover_send(&c->edge->handover, c)) &&
             c->protocol->watch)
        c->protocol->watch(c);
}

void as_conn_end(struct as_conn *c, enum as_close_reason why, bool calm)
{
    c->close_reason = why;
    if (c->protocol->end)
        c->protocol->end(c, calm);
    c->ending = true;
    as_task_cancel(&c->flush);
    on_flush(&c->flush);
}

bool as_conn_is_idle(const struct as_conn *c)
{
    return !c->sock.closing && !c->tls && !c->ending && !c->eof && !c->n_open && !c->out.bytes &&
           c->protocol->is_idle(c);
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
    c->last_active = as_loop_now(c->edge->loop);
    as_list_remove(&c->node);
    as_list_push(&c->edge->conns, &c->node);
}

as_ns as_conn_output_timeout(const struct as_conn *c)
{
    as_ns timeout = c->edge->conf.send_timeout;

    return c->edge->short_of_answers && timeout && as_account_is_greedy(c->answers)
               ? AS_MIN(timeout, AS_EDGE_FIRST_CHECK)
               : timeout;
}

bool as_conn_close_if_stuck(struct as_conn *c, as_ns now)
{
    as_ns timeout = as_conn_output_timeout(c);

    bool has_output = c->out.bytes || as_conn_kept_output(c);

    if (!has_output || !timeout || now - c->output_since < timeout)
        return false;
    c->close_reason = AS_CLOSE_SEND_TIMEOUT; /* its requests say so in the log */
    as_conn_close(c, AS_CLOSE_SEND_TIMEOUT);
    return true;
}

void as_conn_sweep(struct as_conn *c, as_ns now)
{
    if (!c->sock.closing)
        c->protocol->sweep(c, now);
}

void as_conn_received(struct as_conn *c, size_t n)
{
    as_counter_add(&c->edge->stat.bytes_in, n);
    c->last_received = as_loop_now(c->edge->loop);
}

void as_conn_on_event(struct as_conn *c, int events)
{
    struct as_edge *e = c->edge;
    int64_t n;

    if (!(events & UV_READABLE))
        return;
    n = as_conn_read(c, e->rx, AS_EDGE_RX);
    if (n == AS_EAGAIN)
        return;
    if (n < 0) {
        as_conn_close(c, as_conn_read_failure(c));
        return;
    }
    as_conn_received(c, (size_t)n);
    c->protocol->feed(c, e->rx, (size_t)n);
    if (!c->sock.closing)
        as_conn_schedule_flush(c);
}

static void on_event(struct as_sock *s, int events)
{
    struct as_conn *c = conn_of(s);

    if (events & UV_WRITABLE)
        as_conn_schedule_flush(c);
    c->protocol->on_event(c, events);
}

static void free_conn(struct as_conn *c)
{
    if (!c)
        return;
    as_account_unref(c->requests);
    as_account_unref(c->answers);
    free(c->addresses);
    free(c);
}

const struct as_conn_addresses *as_conn_addresses(struct as_conn *c)
{
    if (!c->addresses)
        c->addresses = calloc(1, sizeof(*c->addresses));
    else
        return c->addresses;
    if (c->addresses) {
        as_peer_address(c->sock.fd, true, c->addresses->peer, sizeof(c->addresses->peer));
        as_peer_address(c->sock.fd, false, c->addresses->local, sizeof(c->addresses->local));
    }
    return c->addresses;
}

static struct as_conn *new_conn(struct as_edge *e)
{
    struct as_conn *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->requests = as_account_new(&e->budgets->requests);
    c->answers = as_account_new(&e->budgets->answers);
    if (c->requests && c->answers)
        return c;
    free_conn(c);
    return NULL;
}

static bool is_unix(int fd)
{
    int domain = 0;
    socklen_t n = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

/* Checks an accepted connection: a unix socket takes those of the server's own user and root.
 * False: close it; the refusal was counted and logged. *ret_trusted: its requests need no token. */
static bool admit(struct as_edge *e, int fd, bool *ret_trusted)
{
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t n = sizeof(who);
    uint64_t skipped;

    *ret_trusted = e->conf.interface == AS_INTERFACE_CLIENTS ||
                   (e->conf.interface == AS_INTERFACE_STATUS && is_unix(fd));
    if (*ret_trusted || !is_unix(fd))
        return true;
    *ret_trusted = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 &&
                   (who.uid == geteuid() || who.uid == 0);
    if (*ret_trusted)
        return true;
    as_counter_add(&e->stat.other_users, 1);
    if (as_edge_may_log(e, AS_EDGE_LOG_OTHER_USER, &skipped))
        as_log_event(e->log, AS_LOG_WARN, as_edge_refusal_event(e),
                     "reason=\"another user\" uid=%u pid=%d skipped=%lu", (unsigned)who.uid,
                     (int)who.pid, skipped);
    if (e->conf.on_refused)
        e->conf.on_refused(e->conf.refused_ctx);
    return false;
}

struct as_conn *as_conn_accept(struct as_edge *e, int fd, bool tls)
{
    struct as_conn *c = new_conn(e);
    bool trusted = false;
    int one = 1;

    if (!c || !admit(e, fd, &trusted)) {
        free_conn(c);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (as_sock_open(&c->sock, e->loop, fd, on_event)) {
        free_conn(c);
        return NULL;
    }
    c->edge = e;
    c->protocol = &as_conn_detect;
    c->trusted = trusted;
    c->opened = c->ready = c->last_active = c->last_received = as_loop_now(e->loop);
    as_outq_init(&c->out);
    as_task_init(&c->flush, on_flush);
    as_list_push(&e->new_conns, &c->node);
    e->n_conns++;
    as_counter_add(&e->stat.accepted, 1);
    if (tls && !as_conn_tls_start(c))
        return NULL;
    return c;
}
