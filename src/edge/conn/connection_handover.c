#include "edge/conn/connection_handover.h"

#include "base/err.h"
#include "edge/conn/conn.h"
#include "io/socket/rights.h"

#include <errno.h>
#include <unistd.h>

#define RETRY (5 * AS_MS)

void as_connection_handover_close(struct as_connection_handover *r)
{
    if (r->out >= 0)
        close(r->out);
    r->out = -1;
    if (!r->in.closing)
        as_sock_close(&r->in, NULL);
    as_timer_close(&r->retry, NULL);
}

/* --- to the next dispatcher --- */

/* The next dispatcher has gone: drain as if there had been none. */
static void on_successor_lost(struct as_connection_handover *r)
{
    struct as_edge *e = r->edge;
    struct as_list *lists[] = {&e->new_conns, &e->conns};
    bool final = e->drain_final == AS_NEVER;

    close(r->out);
    r->out = -1;
    as_log_event(e->log, AS_LOG_WARN, "relay_lost", "connections=%u", e->n_conns);
    for (size_t i = 0; i < AS_COUNT(lists); i++) {
        AS_LIST_EACH_ENTRY(c, struct as_conn, node, lists[i]) {
            if (c->protocol->handover)
                as_conn_drain(c, final);
        }
    }
}

/* 0: all were sent. AS_EAGAIN: none; try later. AS_EOF: none; the next dispatcher has gone. */
static int send_conns(struct as_connection_handover *r, struct as_conn *const *conns, uint32_t n)
{
    char states[AS_RIGHTS_MAX] = {0};
    int fds[AS_RIGHTS_MAX] = {0}, err;

    for (uint32_t i = 0; i < n; i++) {
        states[i] = conns[i]->protocol->handover;
        fds[i] = conns[i]->sock.fd;
    }
    err = as_rights_send(r->out, states, n, fds, n);
    for (uint32_t i = 0; i < n && !err; i++)
        as_conn_close(conns[i], AS_CLOSE_MOVED);
    if (err == AS_EAGAIN)
        as_timer_set(&r->retry, as_loop_now(r->edge->loop) + RETRY);
    return err;
}

static int send_idle_conns(struct as_connection_handover *r, struct as_list *list)
{
    struct as_conn *some[AS_RIGHTS_MAX];
    uint32_t n = 0;
    int err = 0;

    AS_LIST_EACH_ENTRY(c, struct as_conn, node, list) {
        if (!as_conn_is_idle(c))
            continue;
        some[n++] = c;
        if (n < AS_RIGHTS_MAX)
            continue;
        err = send_conns(r, some, n);
        n = 0;
        if (err)
            break;
    }
    return n ? send_conns(r, some, n) : err;
}

static void send_all_idle(struct as_connection_handover *r)
{
    int err = send_idle_conns(r, &r->edge->new_conns);

    if (!err)
        err = send_idle_conns(r, &r->edge->conns);
    if (err == AS_EOF)
        on_successor_lost(r);
}

static void on_retry(struct as_timer *t)
{
    struct as_connection_handover *r = AS_CONTAINER(t, struct as_connection_handover, retry);

    if (r->out >= 0)
        send_all_idle(r);
}

void as_connection_handover_start(struct as_connection_handover *r, int fd)
{
    if (fd < 0)
        return;
    r->out = fd;
    send_all_idle(r);
}

bool as_connection_handover_send(struct as_connection_handover *r, struct as_conn *c)
{
    int err;

    if (r->out < 0 || !as_conn_is_idle(c))
        return false;
    err = send_conns(r, &c, 1);
    if (err == AS_EOF)
        on_successor_lost(r);
    else if (err == AS_EAGAIN && r->edge->drain_final == AS_NEVER)
        as_conn_drain(c, true);
    return !err;
}

/* --- from the previous dispatcher --- */

/* False: its state is of another version, which this one cannot go on with. */
static bool adopt_conn(struct as_edge *e, int fd, char state)
{
    struct as_conn *c;

    if (state != as_conn_detect.handover && state != as_conn_h1.handover) {
        close(fd);
        return false;
    }
    c = as_edge_admit(e, fd, false);
    if (c && state == as_conn_h1.handover && as_conn_h1_resume(c))
        as_conn_close(c, AS_CLOSE_CLIENT);
    return true;
}

/* Receives one datagram. False: there is none. */
static bool receive_conns(struct as_connection_handover *r)
{
    char states[AS_RIGHTS_MAX];
    int fds[AS_RIGHTS_MAX];
    uint32_t n_fds = 0, unknown = 0;
    bool lost = false;
    int64_t n = as_rights_receive(r->in.fd, states, sizeof(states), fds, &n_fds, &lost);

    if (n == AS_EAGAIN)
        return false;
    if (lost) /* the kernel has closed those that it could not install here */
        as_log_event(r->edge->log, AS_LOG_ERROR, "adopt_failed",
                     "reason=\"no descriptors left\" sent=%d adopted=%u", (int)n, n_fds);
    for (uint32_t i = 0; i < n_fds; i++) {
        if (i < n)
            unknown += !adopt_conn(r->edge, fds[i], states[i]);
        else
            close(fds[i]);
    }
    if (unknown)
        as_log_event(r->edge->log, AS_LOG_ERROR, "adopt_failed",
                     "reason=\"connections of an unknown kind\" sent=%d adopted=%u", (int)n,
                     n_fds - unknown);
    if (n == AS_EOF)
        as_sock_close(&r->in, NULL);
    return n != AS_EOF;
}

/* One datagram per turn, so that requests are not delayed and other loops get their share. */
static void on_predecessor(struct as_sock *s, int events AS_UNUSED)
{
    (void)receive_conns(AS_CONTAINER(s, struct as_connection_handover, in));
}

void as_connection_handover_stop_adopting(struct as_connection_handover *r)
{
    if (r->in.closing)
        return;
    while (receive_conns(r))
        ;
    if (!r->in.closing)
        as_sock_close(&r->in, NULL);
}

int as_connection_handover_adopt(struct as_connection_handover *r, int fd)
{
    return as_sock_open(&r->in, r->edge->loop, fd, on_predecessor);
}

void as_connection_handover_init(struct as_connection_handover *r, struct as_edge *e)
{
    r->edge = e;
    r->in.closing = true; /* not open */
    r->out = -1;
    as_timer_init(&r->retry, e->loop, on_retry);
}
