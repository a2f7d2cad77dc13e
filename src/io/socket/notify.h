/* io/socket/notify.h — what a service manager is told: sd_notify(3)'s protocol, without its
 * library.
 *
 * One datagram of "NAME=value" lines to the unix socket that $NOTIFY_SOCKET names. Never blocks; a
 * message for which the socket has no room is lost, as it would be for the library.
 */
#ifndef AS_IO_SOCKET_NOTIFY_H
#define AS_IO_SOCKET_NOTIFY_H

#include "base/err.h"
#include "base/str.h"

#include <sys/socket.h>
#include <sys/un.h>

struct as_notify {
    struct sockaddr_un addr;
    socklen_t n;          /* bytes of addr; 0: nobody listens */
    uint64_t watchdog_us; /* it expects WATCHDOG=1 at least so often; 0: it does not */
};

/* Takes the address out of the environment: children that speak to the manager would be taken for
 * the service. Before there are threads. 0, also when no manager asked; AS_EINVALID: $NOTIFY_SOCKET
 * is neither an absolute path nor "@name", or too long; then nobody is told anything. */
int as_notify_init(struct as_notify *n);

/* As well $WATCHDOG_USEC and $WATCHDOG_PID (sd_watchdog_enabled(3)): those of another process count
 * as none. After _take. AS_EINVALID: one of them is no number, or more
 * than as_ns holds; then there is no watchdog. */
int as_notify_init_watchdog(struct as_notify *n);
/* Into the environment, for the image that is executed next, which takes it out again; and out of
 * it, when that was not executed. One thread. AS_EIO: the next image is not told. */
int as_notify_export_watchdog(const struct as_notify *n);
void as_notify_unset_watchdog(void);

/* `state`: lines, "READY=1\nSTATUS=4 replicas". 0, also when nobody listens, or has an abstract
 * name any more; AS_EIO: it could not be sent. */
int as_notify_send(const struct as_notify *n, const char *state);

#endif
