/* bench/load_loop.c — see the header. */
#include "io/loop/clock.h"

#include "load_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64

/* Blocking, before anything is measured. A server that is not there ends the run: half a load would
 * be a wrong figure. */
static int connect_to(const char *host, const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, host, &addr.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        fprintf(stderr, "load: cannot connect to %s:%s: %s\n", host, port, strerror(errno));
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* Level-triggered; EPOLLOUT only while output waits, or the loop would spin. */
static void set_interest(struct as_load_loop *l, struct as_load_conn *c, int op)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

    if (as_load_conn_is_blocked(c))
        ev.events |= EPOLLOUT;
    epoll_ctl(l->epoll, op, as_load_conn_fd(c), &ev);
}

/* A connection that breaks is taken out; its calls count as failed (load_h2.c). */
static void turn(struct as_load_loop *l, struct as_load_conn *c, uint32_t events)
{
    bool was_blocked = as_load_conn_is_blocked(c);

    if (!as_load_conn_turn(c, events & (EPOLLIN | EPOLLHUP | EPOLLERR), &l->now)) {
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, as_load_conn_fd(c), NULL);
        l->n_open--;
    } else if (as_load_conn_is_blocked(c) != was_blocked) {
        set_interest(l, c, EPOLL_CTL_MOD);
    }
}

void as_load_loop_init(struct as_load_loop *l, const char *host, const char *port,
                       uint32_t connections, const struct as_load_shape *shape,
                       struct as_load_tally *t)
{
    *l = (struct as_load_loop){
        .epoll = epoll_create1(EPOLL_CLOEXEC), .n = connections, .n_open = connections, .tally = t};
    l->conns = as_xalloc(connections * sizeof(*l->conns));
    for (uint32_t i = 0; i < connections; i++) {
        l->conns[i] = as_load_conn_new(connect_to(host, port), shape, t);
        set_interest(l, l->conns[i], EPOLL_CTL_ADD);
    }
    l->now = as_clock_now();
}

void as_load_loop_fini(struct as_load_loop *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        as_load_conn_free(l->conns[i]);
    close(l->epoll);
    free(l->conns);
}

static void take_events(struct as_load_loop *l, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(l->epoll, events, EVENTS, timeout_ms);

    l->now = as_clock_now();
    for (int i = 0; i < n; i++)
        turn(l, events[i].data.ptr, events[i].events);
}

void as_load_loop_run(struct as_load_loop *l, as_ns end, uint64_t finished)
{
    while (l->n_open && l->now < end && l->tally->finished < finished)
        take_events(l, 1000);
}

/* --- open loop ----------------------------------------------------------------------------- */

/* On the next connection in turn that has a stream free. */
static bool start_somewhere(struct as_load_loop *l, struct as_load_schedule *s)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct as_load_conn *c = l->conns[s->conn];

        s->conn = (s->conn + 1) % l->n;
        if (as_load_conn_start(c, s->due))
            return true;
    }
    return false;
}

static void start_due(struct as_load_loop *l, struct as_load_schedule *s, as_ns end)
{
    while (s->due <= l->now && s->due < end && start_somewhere(l, s)) {
        if (s->due >= l->tally->count_from)
            as_loghist_add(&s->late, l->now - s->due);
        s->due = as_arrival_schedule_next(&s->times);
    }
    for (uint32_t i = 0; i < l->n; i++)
        if (as_load_conn_has_queue(l->conns[i]) && !as_load_conn_is_blocked(l->conns[i]))
            turn(l, l->conns[i], 0);
}

void as_load_loop_run_open(struct as_load_loop *l, struct as_load_schedule *s, as_ns end)
{
    while (l->n_open && l->now < end) {
        start_due(l, s, end);
        take_events(l, 0);
    }
}

uint64_t as_load_loop_catch_up(struct as_load_loop *l, struct as_load_schedule *s, as_ns end,
                               as_ns give_up)
{
    uint64_t left_out = 0;

    while (l->n_open && s->due < end && l->now < give_up) {
        start_due(l, s, end);
        take_events(l, 0);
    }
    for (; s->due < end; s->due = as_arrival_schedule_next(&s->times))
        left_out++;
    return left_out;
}
