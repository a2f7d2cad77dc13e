/* The unix socket of a link as a transport: watched by the worker's epoll set. */
#include "io/loop/fd_io.h"
#include "link/worker/worker_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_BYTES (4 << 20) /* requested; the kernel limits it to net.core.wmem_max */

static struct as_worker_socket *socket_of(struct as_transport *t)
{
    return AS_CONTAINER(t, struct as_worker_socket, transport);
}

static int64_t op_read(struct as_transport *t, const struct iovec *iov, int n, int *ret_fd)
{
    socket_of(t)->worker->stat.reads++;
    return as_fd_io_read(t->fd, iov, n, ret_fd);
}

static void op_watch(struct as_transport *t, bool room)
{
    struct as_worker_socket *s = socket_of(t);
    struct epoll_event ev = {.events = room ? EPOLLIN | EPOLLOUT : EPOLLIN};

    if (s->want_write == room)
        return;
    s->want_write = room;
    s->worker->stat.others++;
    (void)epoll_ctl(s->worker->ep_fd, EPOLL_CTL_MOD, t->fd, &ev);
}

/* Without an event loop the runner or the guard polls, and looks at the output itself. */
static int op_flush(struct as_transport *t, struct as_outq *q, int pass)
{
    struct as_worker *w = socket_of(t)->worker;
    uint64_t calls = 0;
    int err = as_fd_io_flush(t->fd, q, pass, &calls);

    w->stat.writes += calls;
    if (err && err != AS_EAGAIN)
        return err;
    if (w->event_loop)
        op_watch(t, err == AS_EAGAIN);
    return 0;
}

static size_t op_readable(const struct as_transport *t)
{
    return as_fd_io_readable(t->fd);
}

static void op_close(struct as_transport *t)
{
    close(t->fd); /* this also removes it from the epoll set */
    t->fd = -1;
}

void as_worker_socket_init(struct as_worker_socket *s, struct as_worker *w)
{
    static const struct as_transport_ops ops = {
        .read = op_read,
        .flush = op_flush,
        .readable = op_readable,
        .watch = op_watch,
        .close = op_close,
    };

    *s = (struct as_worker_socket){.transport = {&ops, -1}, .worker = w};
}

int as_worker_socket_open(struct as_worker_socket *s, const char *path)
{
    struct as_worker *w = s->worker;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    int bytes = SOCKET_BYTES;
    struct epoll_event ev = {.events = EPOLLIN};
    int fd;

    if (n >= sizeof(to.sun_path)) {
        as_worker_set_error(w, AS_STR("the path of the dispatcher's socket is too long"));
        return AS_EINVALID;
    }
    memcpy(to.sun_path, path, n + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        as_worker_set_error(w, as_str_of(strerror(errno)));
        return AS_EIO;
    }
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
        int err = errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EUNAVAILABLE;

        snprintf(w->error, sizeof(w->error), "cannot connect to %s: %s", path, strerror(errno));
        close(fd);
        return err;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    if (epoll_ctl(w->ep_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        close(fd);
        return AS_EIO;
    }
    s->want_write = false;
    s->transport.fd = fd;
    return 0;
}
