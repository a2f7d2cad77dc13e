#include "edge/conn/linger.h"

#include "base/counter.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct lingering {
    struct as_list node;
    int fd;
    as_ns until;
    size_t left; /* bytes that may still be received */
};

static void close_lingering(struct as_linger *l, struct lingering *s)
{
    as_list_remove(&s->node);
    l->n--;
    close(s->fd);
    free(s);
}

static struct lingering *oldest(struct as_linger *l)
{
    return as_list_empty(&l->socks) ? NULL : AS_LIST_ENTRY(l->socks.next, struct lingering, node);
}

/* Discards up to `share` bytes of input, without copying them (MSG_TRUNC, tcp(7)). False: the
 * client has closed, or has sent too much. */
static bool discard_input(struct as_linger *l, struct lingering *s, size_t share)
{
    while (share) {
        size_t most = AS_MIN(share, l->n_rx);
        ssize_t n = recv(s->fd, l->rx, most, MSG_DONTWAIT | MSG_TRUNC);

        as_counter_add(&l->loop->stat.reads, 1);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0 || (size_t)n >= s->left)
            return false;
        s->left -= (size_t)n;
        share -= (size_t)n;
        if ((size_t)n < most)
            return true;
    }
    return true;
}

static void on_tick(struct as_timer *t)
{
    struct as_linger *l = AS_CONTAINER(t, struct as_linger, timer);
    as_ns now = as_loop_now(l->loop);
    size_t share = l->n ? AS_LINGER_SHARE / l->n : 0;

    AS_LIST_EACH_ENTRY(s, struct lingering, node, &l->socks) {
        if (s->until <= now || !discard_input(l, s, share))
            close_lingering(l, s);
    }
    if (l->n)
        as_timer_set(t, now + AS_LINGER_TICK);
}

void as_linger_init(struct as_linger *l, struct as_loop *loop, uint8_t *rx, size_t n_rx,
                    as_ns timeout, uint32_t max)
{
    *l = (struct as_linger){.loop = loop, .rx = rx, .n_rx = n_rx, .timeout = timeout, .max = max};
    as_list_init(&l->socks);
    as_timer_init(&l->timer, loop, on_tick);
}

void as_linger_add(struct as_linger *l, int fd)
{
    struct lingering *s = l->timeout ? calloc(1, sizeof(*s)) : NULL;

    if (!s) { /* the client may lose what was sent last */
        close(fd);
        return;
    }
    shutdown(fd, SHUT_WR);
    *s = (struct lingering){
        .fd = fd, .until = as_loop_now(l->loop) + l->timeout, .left = AS_LINGER_BYTES};
    if (l->n == l->max)
        close_lingering(l, oldest(l));
    as_list_push(&l->socks, &s->node);
    if (l->n++ == 0)
        as_timer_set(&l->timer, as_loop_now(l->loop) + AS_LINGER_TICK);
}

void as_linger_close(struct as_linger *l)
{
    struct as_list *n;

    while ((n = as_list_pop(&l->socks)))
        close_lingering(l, AS_LIST_ENTRY(n, struct lingering, node));
    as_timer_close(&l->timer, NULL);
}
