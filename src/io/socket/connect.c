#include "io/socket/connect.h"

#include "io/loop/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Waits until a non-blocking connect is done: 0 or an errno. */
static int wait_connected(int fd, as_ns timeout)
{
    as_ns end = as_clock_now() + timeout, now;
    socklen_t n = sizeof(int);
    int e = 0;

    while ((now = as_clock_now()) < end) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        uint64_t ms = (end - now + AS_MS - 1) / AS_MS;
        int rc = poll(&p, 1, (int)AS_MIN(ms, (uint64_t)INT32_MAX));

        if (rc > 0)
            return getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n) == 0 ? e : errno;
        if (rc < 0 && errno != EINTR)
            return errno;
    }
    return ETIMEDOUT;
}

/* A connected descriptor, or a negative errno. */
static int try_address(const struct addrinfo *a, as_ns timeout)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), e = 0, one = 1;

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        e = errno == EINPROGRESS ? wait_connected(fd, timeout) : errno;
    if (e) {
        close(fd);
        return -e;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

int as_connect_tcp(const char *host, uint16_t port, as_ns timeout, int *ret_fd, char *why,
                   size_t cap)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *all = NULL;
    char service[8];
    int fd = -ENOENT, rc;

    snprintf(service, sizeof(service), "%u", port);
    rc = getaddrinfo(host, service, &hints, &all);
    if (rc != 0) {
        snprintf(why, cap, "%s", rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return AS_ENOTFOUND;
    }
    for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
        fd = try_address(a, timeout);
    freeaddrinfo(all);
    if (fd < 0) {
        snprintf(why, cap, "%s", strerror(-fd));
        return fd == -ETIMEDOUT ? AS_EDEADLINE : AS_EUNAVAILABLE;
    }
    *ret_fd = fd;
    return 0;
}

void as_connect_addr_of(int fd, struct as_connect_addr *ret_a)
{
    ret_a->n = sizeof(ret_a->addr);
    if (getpeername(fd, (struct sockaddr *)&ret_a->addr, &ret_a->n) != 0 ||
        (ret_a->addr.ss_family != AF_INET && ret_a->addr.ss_family != AF_INET6))
        ret_a->n = 0;
}

int as_connect_start(const struct as_connect_addr *a, int *ret_fd)
{
    int fd = socket(a->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0)
        return AS_EIO;
    if (connect(fd, (const struct sockaddr *)&a->addr, a->n) < 0 && errno != EINPROGRESS) {
        close(fd);
        return AS_EIO;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    *ret_fd = fd;
    return 0;
}
