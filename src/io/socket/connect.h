/* io/socket/connect.h — a TCP connection to a server by name, for commands; another one to the same
 * place.
 */
#ifndef AS_IO_SOCKET_CONNECT_H
#define AS_IO_SOCKET_CONNECT_H

#include "base/err.h"

#include <sys/socket.h>

/* Blocking, name lookup included: for start-up only, never inside a running loop.
 * Tries the addresses of `host` one after the other, each at most `timeout`. 0: *ret_fd is
 * connected, non-blocking, close-on-exec and without Nagle's delay; the caller owns it.
 * AS_ENOTFOUND: no such host; AS_EDEADLINE: nobody answered in time; AS_EUNAVAILABLE: refused or
 * not to be reached. `why` gets one phrase ("Connection refused"), NUL at the end. */
int as_connect_tcp(const char *host, uint16_t port, as_ns timeout, int *ret_fd, char *why,
                   size_t cap);

struct as_connect_addr {
    struct sockaddr_storage addr;
    socklen_t n; /* 0: not known */
};
/* Where a connected TCP descriptor leads; n is 0 for anything else. */
void as_connect_addr_of(int fd, struct as_connect_addr *ret_a);
/* Begins another connection there, without waiting: what is written before it is there waits
 * (EAGAIN), a failure shows at the first use. 0: *ret_fd is the caller's, as above; AS_EIO. */
int as_connect_start(const struct as_connect_addr *a, int *ret_fd);

#endif
