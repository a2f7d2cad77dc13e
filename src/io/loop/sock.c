#include "io/loop/sock.h"

#include "base/counter.h"
#include "base/err.h"
#include "io/loop/fd_io.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

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

int64_t as_sock_read(struct as_sock *s, void *p, size_t n)
{
    return as_sock_readv(s, &(struct iovec){p, n}, 1, NULL);
}

int64_t as_sock_readv(struct as_sock *s, const struct iovec *iov, int n, int *ret_fd)
{
    as_counter_add(&s->loop->stat.reads, 1);
    return as_fd_io_read(s->fd, iov, n, ret_fd);
}

int as_sock_flush_with_fd(struct as_sock *s, struct as_outq *q, int pass)
{
    uint64_t calls = 0;
    int err = as_fd_io_flush(s->fd, q, pass, &calls);

    as_counter_add(&s->loop->stat.writes, calls);
    if (err && err != AS_EAGAIN)
        return err;
    as_sock_watch(s, err ? s->events | UV_WRITABLE : s->events & ~UV_WRITABLE);
    return 0;
}

int as_sock_flush(struct as_sock *s, struct as_outq *q)
{
    return as_sock_flush_with_fd(s, q, -1);
}
