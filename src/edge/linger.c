#include "edge/linger.h"

#include "base/err.h"

#include <sys/socket.h>

struct lingering {
    struct as_sock sock;
    struct as_linger *of;
    struct as_list node;
    as_ns until;
    size_t left; /* bytes that may still come */
};

static void on_closed(struct as_sock *s)
{
    free(AS_CONTAINER(s, struct lingering, sock));
}

static void drop(struct lingering *s)
{
    as_list_remove(&s->node);
    s->of->n--;
    as_sock_close(&s->sock, on_closed);
}

static struct lingering *oldest(struct as_linger *l)
{
    return as_list_empty(&l->socks) ? NULL : AS_LIST_ENTRY(l->socks.next, struct lingering, node);
}

static void on_time(struct as_timer *t)
{
    struct as_linger *l = AS_CONTAINER(t, struct as_linger, timer);
    as_ns now = as_loop_now(l->loop);
    struct lingering *s;

    while ((s = oldest(l)) && s->until <= now)
        drop(s);
    if (s)
        as_timer_set(t, s->until);
}

static void on_readable(struct as_sock *sock, int events AS_UNUSED)
{
    struct lingering *s = AS_CONTAINER(sock, struct lingering, sock);
    int64_t n = as_sock_read(sock, s->of->rx, s->of->n_rx);

    if (n == AS_EAGAIN)
        return;
    if (n < 0 || (size_t)n >= s->left)
        drop(s);
    else
        s->left -= (size_t)n;
}

void as_linger_init(struct as_linger *l, struct as_loop *loop, uint8_t *rx, size_t n_rx)
{
    *l = (struct as_linger){.loop = loop, .rx = rx, .n_rx = n_rx};
    as_list_init(&l->socks);
    as_timer_init(&l->timer, loop, on_time);
}

void as_linger_add(struct as_linger *l, int fd)
{
    struct lingering *s = calloc(1, sizeof(*s));

    if (!s) { /* the client may not hear why */
        close(fd);
        return;
    }
    shutdown(fd, SHUT_WR);
    s->of = l;
    s->until = as_loop_now(l->loop) + AS_LINGER_TIME;
    s->left = AS_LINGER_BYTES;
    if (as_sock_open(&s->sock, l->loop, fd, on_readable)) {
        free(s);
        return;
    }
    if (l->n == AS_LINGER_MAX)
        drop(oldest(l));
    as_list_push(&l->socks, &s->node);
    l->n++;
    as_timer_set(&l->timer, oldest(l)->until);
}

void as_linger_close(struct as_linger *l)
{
    struct lingering *s;

    while ((s = oldest(l)))
        drop(s);
    as_timer_close(&l->timer, NULL);
}
