#include "io/loop/sock.h"

#include "base/counter.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* segments of one system call; more are written by the next one */
#define FLUSH_IOVS 64

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct as_sock *s = h->data;

    s->on_event(s, status < 0 ? UV_READABLE | UV_WRITABLE : events);
    /* libuv stops watching at an error, but bytes that came before it may still have to be read */
    if (status < 0 && !s->closing && s->events)
        uv_poll_start(h, s->events, on_poll);
}

int as_sock_open(struct as_sock *s, struct as_loop *l, int fd,
                 void (*on_event)(struct as_sock *s, int events))
{
    int flags = fcntl(fd, F_GETFL);

    s->loop = l;
    s->fd = fd;
    s->events = 0;
    s->closing = false;
    s->on_event = on_event;
    s->on_closed = NULL;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        uv_poll_init(&l->uv, &s->uv, fd)) {
        close(fd);
        s->fd = -1;
        s->closing = true; /* there is no handle to close */
        return AS_EIO;
    }
    s->uv.data = s;
    as_sock_watch(s, UV_READABLE);
    return 0;
}

void as_sock_watch(struct as_sock *s, int events)
{
    if (s->closing || events == s->events)
        return;
    s->events = events;
    if (events)
        uv_poll_start(&s->uv, events, on_poll);
    else
        uv_poll_stop(&s->uv);
}

static void on_uv_closed(uv_handle_t *h)
{
    struct as_sock *s = h->data;

    if (s->on_closed)
        s->on_closed(s);
}

int as_sock_detach(struct as_sock *s, void (*on_closed)(struct as_sock *s))
{
    int fd = s->fd;

    AS_ASSERT(!s->closing);
    uv_poll_stop(&s->uv);
    s->closing = true;
    s->events = 0;
    s->fd = -1;
    s->on_closed = on_closed;
    uv_close((uv_handle_t *)&s->uv, on_uv_closed);
    return fd;
}

void as_sock_close(struct as_sock *s, void (*on_closed)(struct as_sock *s))
{
    int fd = as_sock_detach(s, on_closed);

    close(fd);
}

bool as_sock_is_starved(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM;
}

static int64_t io_result(ssize_t k)
{
    if (k > 0)
        return k;
    if (k == 0)
        return AS_EOF;
    return errno == EAGAIN || errno == EINTR ? AS_EAGAIN : AS_EIO;
}

int64_t as_sock_read(struct as_sock *s, void *p, size_t n)
{
    as_counter_add(&s->loop->stat.reads, 1);
    return io_result(recv(s->fd, p, n, 0));
}

size_t as_sock_readable_bytes(const struct as_sock *s)
{
    int n = 0;

    return ioctl(s->fd, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

int64_t as_sock_readv(struct as_sock *s, const struct iovec *iov, int n)
{
    as_counter_add(&s->loop->stat.reads, 1);
    return io_result(readv(s->fd, iov, n));
}

int64_t as_sock_read_fd(struct as_sock *s, void *p, size_t n, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct iovec iov = {p, n};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.buf,
                       .msg_controllen = sizeof(control.buf)};
    ssize_t k;

    *ret_fd = -1;
    as_counter_add(&s->loop->stat.reads, 1);
    k = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC);
    if (k < 0)
        return io_result(k);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        size_t count;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) { /* keeps the first one; a peer may send more */
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (*ret_fd < 0)
                *ret_fd = fd;
            else
                close(fd);
        }
    }
    return io_result(k);
}

int as_sock_flush(struct as_sock *s, struct as_outq *q)
{
    if (q->broken)
        return AS_ENOMEM;
    while (q->bytes) {
        struct iovec iov[FLUSH_IOVS];
        struct msghdr m = {.msg_iov = iov};
        ssize_t k;

        m.msg_iovlen = (size_t)as_outq_iov(q, iov, FLUSH_IOVS);
        as_counter_add(&s->loop->stat.writes, 1);
        k = m.msg_iovlen == 1 /* by far the most frequent case, where send is cheaper */
                ? send(s->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL)
                : sendmsg(s->fd, &m, MSG_NOSIGNAL);
        if (k < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                return AS_EIO;
            as_sock_watch(s, s->events | UV_WRITABLE);
            return 0;
        }
        as_outq_drop(q, (size_t)k);
    }
    as_sock_watch(s, s->events & ~UV_WRITABLE);
    return 0;
}
