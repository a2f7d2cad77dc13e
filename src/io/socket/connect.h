/* io/socket/connect.h — TCP connections of commands: to a server by name, and more to the same
 * address. Any thread.
 */
#ifndef AS_IO_CONNECT_H
#define AS_IO_CONNECT_H

#include "base/err.h"

#include <sys/socket.h>

/* Tries the addresses of `host` one after the other, each for at most `timeout`. Blocks, also for
 * the name lookup: only for start-up, never in a running loop. 0: *ret_fd is connected,
 * non-blocking, close-on-exec and without Nagle's delay; the caller owns it. AS_ENOTFOUND: no such
 * host; AS_EDEADLINE: no answer in time; AS_EUNAVAILABLE: refused or not reachable. `why` gets one
 * phrase ("Connection refused") with a NUL at its end. */
int as_connect_tcp(const char *host, uint16_t port, as_ns timeout, int *ret_fd, char *why,
                   size_t cap);

struct as_connect_addr {
    struct sockaddr_storage addr;
    socklen_t n; /* bytes of addr; 0: unknown */
};
/* The peer's address of a connected TCP descriptor; n is 0 for any other descriptor. */
void as_connect_addr_of(int fd, struct as_connect_addr *ret_a);
/* Starts another connection to this address, without blocking: until it is connected a write fails
 * with EAGAIN, and an error is reported by the first use. 0: *ret_fd as above; AS_EIO. */
int as_connect_start(const struct as_connect_addr *a, int *ret_fd);

#endif
