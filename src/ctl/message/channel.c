#include "ctl/message/channel.h"

#include "ctl/message/outbox.h"
#include "io/socket/rights.h"

#include <sys/socket.h>
#include <unistd.h>

/* Freed in on_closed: libuv uses the socket until then. */
struct as_channel {
    struct as_sock sock;
    struct as_outbox out;
    struct as_channel_ops ops;
    void *ctx;
    bool closed;
    struct as_task end_task;
};

static void on_closed(struct as_sock *s)
{
    struct as_channel *c = AS_CONTAINER(s, struct as_channel, sock);

    as_outbox_fini(&c->out);
    free(c);
}

void as_channel_close(struct as_channel *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    as_task_cancel(&c->end_task);
    as_sock_close(&c->sock, on_closed);
}

/* Deferred, so that as_channel_send never calls back. */
static void on_end_task(struct as_task *t)
{
    struct as_channel *c = AS_CONTAINER(t, struct as_channel, end_task);
    struct as_channel_ops ops = c->ops;
    void *ctx = c->ctx;

    as_channel_close(c);
    ops.on_end(ctx);
}

static void schedule_end(struct as_channel *c)
{
    as_sock_watch(&c->sock, 0);
    as_loop_defer(c->sock.loop, &c->end_task);
}

static void receive_messages(struct as_channel *c)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    for (;;) {
        struct as_ctl_message m;
        int rc = as_ctl_receive(c->sock.fd, buf, &m);

        if (rc == AS_EAGAIN)
            return;
        if (rc == AS_EUNIMPLEMENTED) /* of a later version */
            continue;
        if (rc < 0) { /* the peer is gone, or sends invalid messages */
            schedule_end(c);
            return;
        }
        c->ops.on_message(c->ctx, &m);
        if (c->closed)
            return;
    }
}

static void update_watch(struct as_channel *c)
{
    as_sock_watch(&c->sock, UV_READABLE | (as_outbox_has_pending(&c->out) ? UV_WRITABLE : 0));
}

static void on_event(struct as_sock *s, int events)
{
    struct as_channel *c = AS_CONTAINER(s, struct as_channel, sock);

    if (events & UV_WRITABLE) {
        if (as_outbox_flush(&c->out, s->fd) < 0)
            schedule_end(c);
        else
            update_watch(c);
    }
    if (events & UV_READABLE)
        /* also when the channel ends: the last messages of a dead process count */
        receive_messages(c);
}

int as_channel_attach(struct as_channel **ret_c, struct as_loop *loop, int fd,
                      const struct as_channel_ops *ops, void *ctx)
{
    struct as_channel *c = as_xalloc(sizeof(*c));

    c->ops = *ops;
    c->ctx = ctx;
    as_task_init(&c->end_task, on_end_task);
    as_outbox_init(&c->out, AS_OUTBOX_LIMIT);
    if (as_sock_open(&c->sock, loop, fd, on_event) < 0) {
        free(c);
        return AS_EIO;
    }
    *ret_c = c;
    return 0;
}

int as_channel_open(struct as_channel **ret_c, struct as_loop *loop,
                    const struct as_channel_ops *ops, void *ctx, int *ret_fd)
{
    int fd[2], rc;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
        return AS_EIO;
    rc = as_channel_attach(ret_c, loop, fd[0], ops, ctx);
    if (rc < 0)
        close(fd[1]);
    else
        *ret_fd = fd[1];
    return rc;
}

void as_channel_send(struct as_channel *c, const struct as_ctl_message *m)
{
    if (!c || c->closed)
        return;
    if (as_outbox_send(&c->out, c->sock.fd, m) < 0)
        schedule_end(c);
    else
        update_watch(c);
}

void as_channel_send_fd(struct as_channel *c, const struct as_ctl_message *m, int fd)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    if (fd < 0 || !c || c->closed || as_outbox_has_pending(&c->out) ||
        as_rights_send(c->sock.fd, buf, as_outbox_encode(&c->out, m, buf), &fd, 1) < 0)
        as_channel_send(c, m);
}

uint32_t as_channel_format(const struct as_channel *c)
{
    return c->out.format;
}

void as_channel_set_format(struct as_channel *c, uint32_t format)
{
    c->out.format = format;
}

bool as_channel_is_idle(const struct as_channel *c)
{
    return !c->closed && !as_outbox_has_pending(&c->out) && !as_task_is_pending(&c->end_task);
}

int as_channel_fd(const struct as_channel *c)
{
    return c->sock.fd;
}
