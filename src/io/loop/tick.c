#include "io/loop/tick.h"

#include "base/err.h"

#include <sys/timerfd.h>
#include <unistd.h>

static void on_event(struct as_sock *s, int events AS_UNUSED)
{
    struct as_tick *t = AS_CONTAINER(s, struct as_tick, sock);
    uint64_t times;

    if (read(s->fd, &times, sizeof(times)) == sizeof(times)) /* else it was set again meanwhile */
        t->fire(t);
}

int as_tick_open(struct as_tick *t, struct as_loop *l, void (*fire)(struct as_tick *t))
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    t->fire = fire;
    t->closed = NULL;
    return fd < 0 ? AS_EIO : as_sock_open(&t->sock, l, fd, on_event);
}

void as_tick_set(struct as_tick *t, as_ns at)
{
    struct itimerspec v = {{0}, {0}};

    if (at == 0)
        at = 1; /* a zero would stop the timer */
    if (at != AS_NEVER) {
        v.it_value.tv_sec = (time_t)(at / AS_SEC);
        v.it_value.tv_nsec = (long)(at % AS_SEC);
    }
    timerfd_settime(t->sock.fd, TFD_TIMER_ABSTIME, &v, NULL);
}

static void on_closed(struct as_sock *s)
{
    struct as_tick *t = AS_CONTAINER(s, struct as_tick, sock);

    if (t->closed)
        t->closed(t);
}

void as_tick_close(struct as_tick *t, void (*closed)(struct as_tick *t))
{
    t->closed = closed;
    as_sock_close(&t->sock, on_closed);
}
