#include "ctl/channel.h"

#include <sys/socket.h>
#include <unistd.h>

struct as_channel {
    struct as_sock sock;
    struct as_buf wait; /* u16 length, datagram; again */
    struct as_channel_ops ops;
    void *ctx;
    bool closed;
    struct as_task end;
};

static void on_closed(struct as_sock *s)
{
    struct as_channel *c = AS_CONTAINER(s, struct as_channel, sock);

    as_buf_fini(&c->wait);
    free(c);
}

void as_channel_close(struct as_channel *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    as_task_cancel(&c->end);
    as_sock_close(&c->sock, on_closed);
}

/* Deferred, so that nobody's as_channel_say ends in a callback. */
static void on_end(struct as_task *t)
{
    struct as_channel *c = AS_CONTAINER(t, struct as_channel, end);
    struct as_channel_ops ops = c->ops;
    void *ctx = c->ctx;

    as_channel_close(c);
    ops.on_end(ctx);
}

static void end(struct as_channel *c)
{
    as_sock_watch(&c->sock, 0);
    as_loop_defer(c->sock.loop, &c->end);
}

static void receive(struct as_channel *c)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    for (;;) {
        struct as_ctl_message m;
        int rc = as_ctl_receive(c->sock.fd, buf, &m);

        if (rc == AS_EAGAIN)
            return;
        if (rc < 0) { /* a dispatcher that talks nonsense is as good as dead */
            end(c);
            return;
        }
        c->ops.on_message(c->ctx, &m);
        if (c->closed)
            return;
    }
}

static void flush(struct as_channel *c)
{
    size_t at = 0;
    int rc = 0;

    while (at < c->wait.n) {
        const uint8_t *p = c->wait.p + at;
        size_t n = (size_t)p[0] | (size_t)p[1] << 8;
        struct as_ctl_message m;

        AS_ASSERT(as_ctl_decode(p + 2, n, &m) == 0);
        rc = as_ctl_send(c->sock.fd, &m);
        if (rc < 0)
            break;
        at += 2 + n;
    }
    as_buf_drop(&c->wait, at);
    if (rc == AS_EOF)
        end(c);
    else
        as_sock_watch(&c->sock, UV_READABLE | (c->wait.n ? UV_WRITABLE : 0));
}

static void on_event(struct as_sock *s, int events)
{
    struct as_channel *c = AS_CONTAINER(s, struct as_channel, sock);

    if (events & UV_WRITABLE)
        flush(c);
    if (events & UV_READABLE)
        receive(c);
}

int as_channel_open(struct as_channel **ret_c, struct as_loop *loop,
                    const struct as_channel_ops *ops, void *ctx, int *ret_fd)
{
    struct as_channel *c = as_xalloc(sizeof(*c));
    int fd[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0) {
        free(c);
        return AS_EIO;
    }
    c->ops = *ops;
    c->ctx = ctx;
    as_task_init(&c->end, on_end);
    if (as_sock_open(&c->sock, loop, fd[0], on_event) < 0) {
        close(fd[1]);
        free(c);
        return AS_EIO;
    }
    *ret_c = c;
    *ret_fd = fd[1];
    return 0;
}

void as_channel_say(struct as_channel *c, const struct as_ctl_message *m)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX], len[2];
    size_t n;
    int rc = AS_EAGAIN;

    if (!c || c->closed)
        return;
    if (c->wait.n == 0)
        rc = as_ctl_send(c->sock.fd, m);
    if (rc == AS_EOF)
        end(c);
    if (rc != AS_EAGAIN)
        return;
    n = as_ctl_encode(m, buf);
    if (c->wait.n + n > AS_CHANNEL_QUEUE) {
        end(c);
        return;
    }
    len[0] = (uint8_t)n;
    len[1] = (uint8_t)(n >> 8);
    as_buf_add(&c->wait, len, sizeof(len));
    as_buf_add(&c->wait, buf, n);
    as_sock_watch(&c->sock, UV_READABLE | UV_WRITABLE);
}
