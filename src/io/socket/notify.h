/* io/socket/notify.h — messages to the service manager, by the protocol of sd_notify(3), without
 * its library.
 *
 * A message is one datagram of "NAME=value" lines to the unix socket in $NOTIFY_SOCKET. Never
 * blocks: a message for which the socket has no room is lost, as it is with the library. The
 * environment is read and changed before there are threads.
 */
#ifndef AS_IO_NOTIFY_H
#define AS_IO_NOTIFY_H

#include "base/err.h"
#include "base/str.h"

#include <sys/socket.h>
#include <sys/un.h>

struct as_notify {
    struct sockaddr_un addr;
    socklen_t n;          /* bytes of addr; 0: there is no manager */
    uint64_t watchdog_us; /* the manager expects WATCHDOG=1 at least this often; 0: never */
};

/* Reads $NOTIFY_SOCKET and removes it from the environment: the manager would take a message of a
 * child for one of the service. 0, also when it is not set; AS_EINVALID: it is neither an absolute
 * path nor "@name", or too long; then no messages are sent. */
int as_notify_init(struct as_notify *n);

/* The same for $WATCHDOG_USEC and $WATCHDOG_PID (sd_watchdog_enabled(3)), after as_notify_init.
 * They are ignored when they are for another process. AS_EINVALID: one of them is not a number, or
 * is too large; then there is no watchdog. */
int as_notify_init_watchdog(struct as_notify *n);
/* Sets $WATCHDOG_USEC for the program that this process executes next; _unset removes it, when
 * exec has failed. One thread. AS_EIO: it could not be set. */
int as_notify_export_watchdog(const struct as_notify *n);
void as_notify_unset_watchdog(void);

/* Sends `state`, lines as "READY=1\nSTATUS=4 replicas". 0, also when there is no manager, or when
 * one with an abstract socket has gone; AS_EIO: it could not be sent. */
int as_notify_send(const struct as_notify *n, const char *state);

#endif
