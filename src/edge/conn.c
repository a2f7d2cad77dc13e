/* One client connection: bytes between the socket and its HTTP/2 session. */
#include "edge/edge_own.h"

#include "base/counter.h"
#include "base/err.h"

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

void as_conn_close(struct as_conn *c)
{
    struct as_edge *e = c->edge;

    if (c->sock.closing)
        return;
    as_task_cancel(&c->flush);
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

static void on_flush(struct as_task *t)
{
    struct as_conn *c = AS_CONTAINER(t, struct as_conn, flush);

    /* more than one round only for answers larger than OUT_MAX into a socket that takes them */
    do {
        size_t before;

        if (as_h2_send(c->h2, &c->out, OUT_MAX))
            c->ending = true;
        before = c->out.bytes;
        if (as_sock_flush(&c->sock, &c->out)) {
            as_conn_close(c);
            return;
        }
        as_count(&c->edge->stat.bytes_out, before - c->out.bytes);
    } while (!c->out.bytes && !c->ending && as_h2_wants_write(c->h2));
    if (!c->out.bytes && (c->ending || as_h2_done(c->h2)))
        as_conn_close(c);
}

static void on_readable(struct as_conn *c)
{
    struct as_edge *e = c->edge;
    int64_t n = as_sock_read(&c->sock, e->rx, AS_EDGE_RX);

    if (n == AS_EAGAIN)
        return;
    if (n < 0) {
        as_conn_close(c);
        return;
    }
    as_count(&e->stat.bytes_in, (uint64_t)n);
    if (c->ending)
        return; /* only what it still wants to hear counts */
    if (as_h2_recv(c->h2, e->rx, (size_t)n, as_loop_now(e->loop)))
        c->ending = true;
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
    struct as_conn *c = as_xalloc(sizeof(*c));
    int one = 1;

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
    c->opened = c->active = as_loop_now(e->loop);
    as_outq_init(&c->out);
    as_task_init(&c->flush, on_flush);
    as_list_push(&e->conns, &c->node);
    e->n_conns++;
    as_count(&e->stat.accepted, 1);
    as_conn_touch(c); /* our SETTINGS */
}
