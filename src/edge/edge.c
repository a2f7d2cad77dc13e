#include "edge/edge.h"

#include "base/counter.h"
#include "base/err.h"
#include "edge/edge_own.h"
#include "edge/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SWEEP   AS_SEC
#define ACCEPTS 64 /* per turn, so that requests are not starved */

/* Out of descriptors: the listeners rest until the next sweep, or they would spin. */
static void rest(struct as_edge *e, int events)
{
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_watch(&e->listeners[i], events);
}

/* Connections that never asked, have been idle too long, or must hear of the end. */
static void on_sweep(struct as_timer *t)
{
    struct as_edge *e = AS_CONTAINER(t, struct as_edge, sweep);
    as_ns now = as_loop_now(e->loop);
    bool final = e->draining && now >= e->drain_final;

    if (final)
        e->drain_final = AS_NEVER;
    AS_LIST_EACH(n, &e->conns)
    {
        struct as_conn *c = AS_LIST_ENTRY(n, struct as_conn, node);

        if (!c->greeted && now - c->opened >= e->conf.header_timeout) {
            as_conn_close(c);
        } else if (final || (e->conf.idle_timeout && !c->n_open && c->greeted &&
                             now - c->active >= e->conf.idle_timeout)) {
            as_h2_shutdown_final(c->h2);
            as_conn_touch(c);
        }
    }
    if (!e->draining)
        rest(e, UV_READABLE);
    if (e->n_conns)
        as_timer_set(&e->sweep, AS_MIN(now + SWEEP, e->drain_final));
}

void as_edge_conn_gone(struct as_edge *e)
{
    e->n_conns--;
    as_count(&e->stat.closed, 1);
    if (e->n_conns == 0) {
        as_timer_set(&e->sweep, AS_NEVER);
        if (e->draining && e->drained)
            e->drained(e->drained_arg);
    }
}

static void on_listener(struct as_sock *s, int events AS_UNUSED)
{
    struct as_edge *e = s->uv.loop->data;

    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            as_log_event(e->log, AS_LOG_ERROR, "accept_failed", "reason=\"out of descriptors\"");
            rest(e, 0);
            as_timer_set(&e->sweep, as_loop_now(e->loop) + SWEEP);
        }
        if (fd < 0)
            return;
        if (e->n_conns >= e->conf.max_connections) {
            as_count(&e->stat.refused, 1);
            close(fd);
            continue;
        }
        as_conn_accept(e, fd);
        if (e->sweep.at == AS_NEVER)
            as_timer_set(&e->sweep, as_loop_now(e->loop) + SWEEP);
    }
}

int as_edge_listen(struct as_edge *e, int fd)
{
    int own, err;

    AS_ASSERT(e->n_listeners < AS_EDGE_LISTENERS);
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return AS_EIO;
    err = as_sock_open(&e->listeners[e->n_listeners], e->loop, own, on_listener);
    if (!err)
        e->n_listeners++;
    return err;
}

int as_edge_new(struct as_edge **ret_e, struct as_loop *loop, struct as_fleet *fleet,
                const struct as_edge_conf *conf, struct as_budget *budget, const struct as_log *log)
{
    struct as_edge *e = as_xalloc(sizeof(*e));
    int err;

    e->loop = loop;
    e->conf = *conf;
    e->budget = budget;
    e->log = log;
    e->drain_final = AS_NEVER;
    e->rx = as_xalloc(AS_EDGE_RX);
    loop->uv.data = e;
    as_list_init(&e->conns);
    as_timer_init(&e->sweep, loop, on_sweep);
    err = as_client_open(&e->client, fleet, loop);
    AS_ASSERT(!err);
    *ret_e = e;
    return 0;
}

void as_edge_drain(struct as_edge *e, void (*drained)(void *arg), void *arg)
{
    e->draining = true;
    e->drained = drained;
    e->drained_arg = arg;
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_close(&e->listeners[i], NULL);
    e->n_listeners = 0;
    if (!e->n_conns) {
        drained(arg);
        return;
    }
    AS_LIST_EACH(n, &e->conns)
    {
        struct as_conn *c = AS_LIST_ENTRY(n, struct as_conn, node);

        as_h2_shutdown_notice(c->h2);
        as_conn_touch(c);
    }
    e->drain_final = as_loop_now(e->loop) + e->conf.goaway_grace;
    as_timer_set(&e->sweep, e->drain_final);
}

void as_edge_stop(struct as_edge *e)
{
    e->draining = true;
    e->drained = NULL;
    for (uint32_t i = 0; i < e->n_listeners; i++)
        as_sock_close(&e->listeners[i], NULL);
    e->n_listeners = 0;
    AS_LIST_EACH(n, &e->conns) as_conn_close(AS_LIST_ENTRY(n, struct as_conn, node));
}

void as_edge_close(struct as_edge *e)
{
    AS_ASSERT(e->n_conns == 0 && e->stat.exchanges == 0);
    as_client_close(&e->client);
    as_timer_close(&e->sweep, NULL);
}

void as_edge_free(struct as_edge *e)
{
    if (!e)
        return;
    as_exchange_pool_free(e);
    free(e->rx);
    free(e);
}

uint32_t as_edge_held(const struct as_edge *e)
{
    return (uint32_t)e->stat.exchanges;
}

struct as_mbox *as_edge_box(struct as_edge *e)
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
