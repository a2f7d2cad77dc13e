/* io/notify.h — what a service manager is told: sd_notify(3)'s protocol, without its library.
 *
 * One datagram of "NAME=value" lines to the unix socket that $NOTIFY_SOCKET names. Never blocks; a
 * message for which the socket has no room is lost, as it would be for the library.
 */
#ifndef AS_IO_NOTIFY_H
#define AS_IO_NOTIFY_H

#include "base/err.h"
#include "base/str.h"

#include <sys/socket.h>
#include <sys/un.h>

struct as_notify {
    struct sockaddr_un addr;
    socklen_t n; /* bytes of addr; 0: nobody listens */
};

/* Takes the address out of the environment: children that speak to the manager would be taken for
 * the service. Before there are threads. 0, also when no manager asked; AS_EINVALID: $NOTIFY_SOCKET
 * is neither an absolute path nor "@name", or too long; then nobody is told anything. */
int as_notify_take(struct as_notify *n);

/* `state`: lines, "READY=1\nSTATUS=4 replicas". 0, also when nobody listens, or has an abstract
 * name any more; AS_EIO: it could not be sent. */
int as_notify_say(const struct as_notify *n, const char *state);

#endif
