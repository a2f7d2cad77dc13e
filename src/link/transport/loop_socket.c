#include "link/transport/loop_socket.h"

#include "io/loop/fd_io.h"

static struct as_loop_socket *socket_of(struct as_transport *t)
{
    return AS_CONTAINER(t, struct as_loop_socket, transport);
}

static int64_t op_read(struct as_transport *t, const struct iovec *iov, int n, int *ret_fd)
{
    return as_sock_readv(&socket_of(t)->sock, iov, n, ret_fd);
}

static int op_flush(struct as_transport *t, struct as_outq *q, int pass)
{
    return as_sock_flush_with_fd(&socket_of(t)->sock, q, pass);
}

static size_t op_readable(const struct as_transport *t)
{
    return as_fd_io_readable(t->fd);
}

static void op_watch(struct as_transport *t, bool room)
{
    as_sock_watch(&socket_of(t)->sock, room ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void on_closed(struct as_sock *sock)
{
    struct as_loop_socket *s = AS_CONTAINER(sock, struct as_loop_socket, sock);

    s->on_closed(s);
}

static void op_close(struct as_transport *t)
{
    t->fd = -1;
    as_sock_close(&socket_of(t)->sock, on_closed);
}

static void on_event(struct as_sock *sock, int events)
{
    struct as_loop_socket *s = AS_CONTAINER(sock, struct as_loop_socket, sock);

    s->on_event(s, events);
}

static const struct as_transport_ops ops = {
    .read = op_read,
    .flush = op_flush,
    .readable = op_readable,
    .watch = op_watch,
    .close = op_close,
};

int as_loop_socket_open(struct as_loop_socket *s, struct as_loop *l, int fd,
                        void (*event)(struct as_loop_socket *s, int events),
                        void (*closed)(struct as_loop_socket *s))
{
    int err = as_sock_open(&s->sock, l, fd, on_event);

    s->transport.ops = &ops;
    s->transport.fd = err ? -1 : fd;
    s->on_event = event;
    s->on_closed = closed;
    return err;
}
