#include "io/socket/listen.h"

#include "base/str.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Errors that a user can correct have their own codes. */
static int err_of_errno(int e)
{
    switch (e) {
    case EADDRINUSE:
        return AS_EEXISTS;
    case EACCES:
    case EPERM:
        return AS_EDENIED;
    case EADDRNOTAVAIL:
        return AS_EINVALID;
    default:
        return AS_EIO;
    }
}

static void set_port(struct sockaddr *sa, uint16_t port)
{
    if (sa->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_in6 sa = {0}; /* room for IPv4, too, which has the port at the same offset */
    socklen_t n = sizeof(sa);

    return getsockname(fd, (struct sockaddr *)&sa, &n) < 0 ? 0 : ntohs(sa.sin6_port);
}

/* A listener on one address, or -1 with errno. */
static int listen_on(const struct addrinfo *ai, bool only_v6)
{
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    int v6 = only_v6 ? 1 : 0, e;

    if (fd < 0)
        return -1;
    /* without it, a restart fails while connections of the old server are in TIME_WAIT */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6, sizeof(v6));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    e = errno;
    close(fd);
    errno = e;
    return -1;
}

int as_listen_tcp(const char *host, uint16_t port, int *ret_fds, uint32_t cap, uint16_t *ret_port,
                  int *ret_errno)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    uint32_t n = 0;

    *ret_errno = 0;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return AS_EINVALID;
    for (struct addrinfo *ai = list; ai && n < cap; ai = ai->ai_next) {
        int fd;

        if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
            continue;
        set_port(ai->ai_addr, port);
        /* "::" alone takes IPv4 too; beside another address it must not */
        fd = listen_on(ai, list->ai_next != NULL);
        if (fd < 0) {
            *ret_errno = errno;
            /* a name with an address of a family that this machine lacks is served on the rest */
            if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)
                continue;
            break;
        }
        ret_fds[n++] = fd;
        if (port == 0)
            port = bound_port(fd);
    }
    freeaddrinfo(list);
    if (n > 0 && (*ret_errno == 0 || *ret_errno == EADDRNOTAVAIL || *ret_errno == EAFNOSUPPORT)) {
        *ret_port = port;
        return (int)n;
    }
    while (n > 0)
        close(ret_fds[--n]);
    return err_of_errno(*ret_errno);
}

int as_listen_parse_address(const char *text, char ret_host[AS_LISTEN_HOST_MAX], uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    uint64_t port;

    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    } else if (memchr(host, ':', n)) {
        return AS_EINVALID; /* an IPv6 address without brackets, where the port is ambiguous */
    }
    if (!n || n >= AS_LISTEN_HOST_MAX || as_str_u64(as_str_of(colon + 1), &port) < 0 ||
        port > UINT16_MAX)
        return AS_EINVALID;
    memcpy(ret_host, host, n);
    ret_host[n] = 0;
    *ret_port = (uint16_t)port;
    return 0;
}

int as_listen_unix(const char *path, int *ret_fd, int *ret_errno)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd;

    *ret_errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof(sa.sun_path))
        return AS_EINVALID;
    memcpy(sa.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || chmod(path, 0600) < 0 ||
        listen(fd, SOMAXCONN) < 0) {
        *ret_errno = errno;
        if (fd >= 0)
            close(fd);
        return err_of_errno(*ret_errno);
    }
    *ret_fd = fd;
    return 0;
}
