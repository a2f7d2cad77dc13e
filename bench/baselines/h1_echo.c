/* bench/baselines/h1_echo.c — what HTTP/1.1 costs at the least: an echo on epoll.  h1_echo PORT
 *
 * Any request is answered with the body it brought, one read and one write per loop turn. The head
 * is searched for its end and its content-length and for nothing else: no limits, no routing, no
 * chunked bodies, no pipelining. Not for hostile peers.
 */
#include "base/buf.h"
#include "echo_core.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define EVENTS 64
#define READ   131072u

struct conn {
    int fd;
    struct as_buf in;
    size_t head, length; /* of the request; head 0: not whole yet */
    char answer[128];
    size_t answer_n, sent; /* of head and body together; answer_n 0: none under way */
};

static void close_conn(struct conn *c)
{
    close(c->fd);
    as_buf_fini(&c->in);
    free(c);
}

/* The whole request is in c->in. */
static bool is_whole(struct conn *c)
{
    static const char name[] = "\ncontent-length:";

    if (!c->head) {
        const char *start = (const char *)c->in.p;
        const char *end = memmem(start, c->in.n, "\r\n\r\n", 4);

        if (!end)
            return false;
        c->head = (size_t)(end + 4 - start);
        c->length = 0;
        for (const char *p = start; p < end; p++) {
            if (*p == '\n' && strncasecmp(p, name, sizeof(name) - 1) == 0)
                c->length = strtoul(p + sizeof(name) - 1, NULL, 10);
        }
    }
    return c->in.n >= c->head + c->length;
}

static void begin_answer(struct conn *c)
{
    c->answer_n = (size_t)snprintf(c->answer, sizeof(c->answer),
                                   "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n"
                                   "content-length: %zu\r\n\r\n",
                                   c->length);
    c->sent = 0;
}

/* False: the connection is over. */
static bool give(struct conn *c)
{
    size_t at = c->sent > c->answer_n ? c->sent - c->answer_n : 0;
    size_t head = c->sent < c->answer_n ? c->answer_n - c->sent : 0;
    struct iovec v[2] = {{c->answer + c->answer_n - head, head},
                         {c->in.p + c->head + at, c->length - at}};
    ssize_t k = writev(c->fd, v, 2);

    if (k < 0)
        return errno == EAGAIN;
    c->sent += (size_t)k;
    if (c->sent == c->answer_n + c->length) {
        as_buf_drop(&c->in, c->head + c->length);
        c->head = c->answer_n = 0;
    }
    return true;
}

static bool turn(struct conn *c, uint32_t events)
{
    if (!c->answer_n && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        size_t left = c->head ? c->head + c->length - c->in.n : 0;
        size_t room = AS_MAX(left, (size_t)READ);
        ssize_t k = read(c->fd, as_buf_reserve(&c->in, room), room);

        if (k == 0 || (k < 0 && errno != EAGAIN))
            return false;
        c->in.n += k > 0 ? (size_t)k : 0;
        if (is_whole(c))
            begin_answer(c);
    }
    return !c->answer_n || give(c);
}

static void take(int epoll, int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct conn *c;

    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c = as_xalloc(sizeof(*c));
    c->fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c});
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
    signal(SIGPIPE, SIG_IGN);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &events[0]);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr; /* the listener's entry has NULL */
            bool was_blocked = c && c->answer_n;

            if (!c) {
                take(epoll, listener);
                continue;
            }
            if (!turn(c, events[i].events)) {
                close_conn(c);
                continue;
            }
            if (was_blocked != (c->answer_n > 0)) {
                events[i].events = c->answer_n ? EPOLLOUT : EPOLLIN;
                epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &events[i]);
            }
        }
    }
}
