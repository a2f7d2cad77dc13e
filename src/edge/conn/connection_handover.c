#include "edge/conn/connection_handover.h"

#include "base/err.h"
#include "edge/edge_internal.h"
#include "io/socket/rights.h"

#include <errno.h>
#include <unistd.h>

/* How far a connection was: the byte that goes with its descriptor. */
#define ASKED 'a' /* HTTP/1.1, and requests have come on it */
#define FRESH 'f' /* nothing has come on it */

#define RETRY (5 * AS_MS)

void as_relay_close(struct as_relay *r)
{
    if (r->out >= 0)
        close(r->out);
    r->out = -1;
    if (!r->in.closing)
        as_sock_close(&r->in, NULL);
    as_timer_close(&r->retry, NULL);
}

/* --- to the next dispatcher --- */

/* It is gone: from here on this is an end as any other. */
static void disinherit(struct as_relay *r)
{
    struct as_edge *e = r->edge;
    struct as_list *lists[] = {&e->fresh, &e->conns};
    bool final = e->drain_final == AS_NEVER;

    close(r->out);
    r->out = -1;
    as_log_event(e->log, AS_LOG_WARN, "relay_lost", "connections=%u", e->n_conns);
    for (size_t i = 0; i < AS_COUNT(lists); i++) {
        AS_LIST_EACH(n, lists[i])
        {
            struct as_conn *c = AS_LIST_ENTRY(n, struct as_conn, node);

            if (!c->h2)
                as_conn_drain(c, final);
        }
    }
}

/* 0: they are theirs. AS_EAGAIN: all are ours still. AS_EOF: and will be. */
static int pass(struct as_relay *r, struct as_conn *const *conns, uint32_t n)
{
    char how[AS_RIGHTS_MAX] = {0};
    int fds[AS_RIGHTS_MAX] = {0}, err;

    for (uint32_t i = 0; i < n; i++) {
        how[i] = conns[i]->h1 ? ASKED : FRESH;
        fds[i] = conns[i]->sock.fd;
    }
    err = as_rights_send(r->out, how, n, fds, n);
    for (uint32_t i = 0; i < n && !err; i++)
        as_conn_close(conns[i], AS_CLOSE_MOVED);
    if (err == AS_EAGAIN)
        as_timer_set(&r->retry, as_loop_now(r->edge->loop) + RETRY);
    return err;
}

static int pass_list(struct as_relay *r, struct as_list *list)
{
    struct as_conn *some[AS_RIGHTS_MAX];
    uint32_t n = 0;
    int err = 0;

    AS_LIST_EACH(node, list)
    {
        struct as_conn *c = AS_LIST_ENTRY(node, struct as_conn, node);

        if (!as_conn_rests(c))
            continue;
        some[n++] = c;
        if (n < AS_RIGHTS_MAX)
            continue;
        err = pass(r, some, n);
        n = 0;
        if (err)
            break;
    }
    return n ? pass(r, some, n) : err;
}

static void pass_all(struct as_relay *r)
{
    int err = pass_list(r, &r->edge->fresh);

    if (!err)
        err = pass_list(r, &r->edge->conns);
    if (err == AS_EOF)
        disinherit(r);
}

static void on_retry(struct as_timer *t)
{
    struct as_relay *r = AS_CONTAINER(t, struct as_relay, retry);

    if (r->out >= 0)
        pass_all(r);
}

void as_relay_begin(struct as_relay *r, int fd)
{
    if (fd < 0)
        return;
    r->out = fd;
    pass_all(r);
}

bool as_relay_pass(struct as_relay *r, struct as_conn *c)
{
    int err;

    if (r->out < 0 || !as_conn_rests(c))
        return false;
    err = pass(r, &c, 1);
    if (err == AS_EOF)
        disinherit(r);
    else if (err == AS_EAGAIN && r->edge->drain_final == AS_NEVER)
        as_conn_drain(c, true);
    return !err;
}

/* --- from the former one --- */

static void adopt(struct as_edge *e, int fd, char how)
{
    struct as_conn *c = as_edge_admit(e, fd);

    if (c && how == ASKED && as_conn_h1_resume(c))
        as_conn_close(c, AS_CLOSE_CLIENT);
}

/* One datagram. False: none is there. */
static bool take(struct as_relay *r)
{
    char how[AS_RIGHTS_MAX];
    int fds[AS_RIGHTS_MAX];
    uint32_t n_fds = 0;
    bool lost = false;
    int64_t n = as_rights_receive(r->in.fd, how, sizeof(how), fds, &n_fds, &lost);

    if (n == AS_EAGAIN)
        return false;
    if (lost) /* their clients see the end of their connections */
        as_log_event(r->edge->log, AS_LOG_ERROR, "adopt_failed",
                     "reason=\"no descriptors left\" sent=%d adopted=%u", (int)n, n_fds);
    for (uint32_t i = 0; i < n_fds; i++) {
        if (i < n)
            adopt(r->edge, fds[i], how[i]);
        else
            close(fds[i]);
    }
    if (n == AS_EOF)
        as_sock_close(&r->in, NULL);
    return n != AS_EOF;
}

/* One per turn, so that requests are not starved, and other loops get their share. */
static void on_former(struct as_sock *s, int events AS_UNUSED)
{
    (void)take(AS_CONTAINER(s, struct as_relay, in));
}

void as_relay_end_adopting(struct as_relay *r)
{
    if (r->in.closing)
        return;
    while (take(r))
        ;
    if (!r->in.closing)
        as_sock_close(&r->in, NULL);
}

int as_relay_adopt(struct as_relay *r, int fd)
{
    return as_sock_open(&r->in, r->edge->loop, fd, on_former);
}

void as_relay_init(struct as_relay *r, struct as_edge *e)
{
    r->edge = e;
    r->in.closing = true; /* none is open */
    r->out = -1;
    as_timer_init(&r->retry, e->loop, on_retry);
}
