/* bench/baselines/b0_echo.c — B0: the bare nghttp2 gRPC echo on epoll.  b0_echo PORT */
#include "echo_core.h"

#include <signal.h>
#include <sys/epoll.h>

#define EVENTS 64

/* Level-triggered, EPOLLOUT only while output waits: as libuv does for uv_echo. */
static void set_interest(int epoll, struct as_echo *e, int op)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = e};

    if (as_echo_is_blocked(e))
        ev.events |= EPOLLOUT;
    epoll_ctl(epoll, op, as_echo_fd(e), &ev);
}

static void take(int epoll, int listener)
{
    struct as_echo *e = as_echo_new(listener);

    if (!e)
        return;
    /* our SETTINGS go out before the client has said anything */
    as_echo_turn(e, false);
    set_interest(epoll, e, EPOLL_CTL_ADD);
}

static void turn(int epoll, struct as_echo *e, uint32_t events)
{
    bool was_blocked = as_echo_is_blocked(e);

    if (!as_echo_turn(e, events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        as_echo_free(e);
    else if (as_echo_is_blocked(e) != was_blocked)
        set_interest(epoll, e, EPOLL_CTL_MOD);
}

static void stop(int signal AS_UNUSED)
{
    _Exit(0);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS] = {{.events = EPOLLIN}};
    int epoll = epoll_create1(0);
    int listener = as_echo_listen(argc > 1 ? argv[1] : "0");

    signal(SIGTERM, stop);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &events[0]);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            /* the listener's entry has NULL */
            if (events[i].data.ptr)
                turn(epoll, events[i].data.ptr, events[i].events);
            else
                take(epoll, listener);
        }
    }
}
