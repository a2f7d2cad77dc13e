#include "io/socket/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE     "NOTIFY_SOCKET"
#define WATCHDOG     "WATCHDOG_USEC"
#define WATCHDOG_PID "WATCHDOG_PID"

static int parse_address(struct as_notify *n, const char *text)
{
    size_t len = strlen(text);

    if ((text[0] != '/' && text[0] != '@') || len < 2 || len >= sizeof(n->addr.sun_path))
        return AS_EINVALID;
    n->addr.sun_family = AF_UNIX;
    memcpy(n->addr.sun_path, text, len);
    if (text[0] == '@')
        n->addr.sun_path[0] = 0;
    /* an abstract name has no NUL at its end, so the length must be exact (unix(7)) */
    n->n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (text[0] == '/'));
    return 0;
}

int as_notify_init(struct as_notify *n)
{
    const char *text = getenv(VARIABLE);
    int rc = 0;

    *n = (struct as_notify){0};
    if (text && text[0])
        rc = parse_address(n, text);
    unsetenv(VARIABLE);
    return rc;
}

void as_notify_unset_watchdog(void)
{
    unsetenv(WATCHDOG);
    unsetenv(WATCHDOG_PID);
}

int as_notify_init_watchdog(struct as_notify *n)
{
    const char *usec = getenv(WATCHDOG), *pid = getenv(WATCHDOG_PID);
    uint64_t us = 0, whose = (uint64_t)getpid();
    int rc = 0;

    if (usec)
        rc = as_str_u64(as_str_of(usec), &us);
    if (rc == 0 && pid)
        rc = as_str_u64(as_str_of(pid), &whose);
    if (us > UINT64_MAX / AS_US)
        rc = AS_EINVALID;
    n->watchdog_us = rc == 0 && n->n && whose == (uint64_t)getpid() ? us : 0;
    as_notify_unset_watchdog();
    return rc < 0 ? AS_EINVALID : 0;
}

int as_notify_export_watchdog(const struct as_notify *n)
{
    char usec[24];

    snprintf(usec, sizeof(usec), "%" PRIu64, n->watchdog_us);
    return setenv(WATCHDOG, usec, 1) < 0 ? AS_EIO : 0;
}

int as_notify_send(const struct as_notify *n, const char *state)
{
    size_t len = strlen(state);
    bool sent;
    int fd;

    if (!n->n)
        return 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return AS_EIO;
    sent = sendto(fd, state, len, MSG_NOSIGNAL, (const struct sockaddr *)&n->addr, n->n) ==
           (ssize_t)len;
    /* an abstract socket vanishes with a process that only wanted to know of the start */
    sent = sent || (errno == ECONNREFUSED && n->addr.sun_path[0] == 0);
    close(fd);
    return sent ? 0 : AS_EIO;
}
