/* io/connect.h — a TCP connection to a server by name, for commands.
 *
 * Blocking, name lookup included: for start-up only, never inside a running loop.
 */
#ifndef AS_IO_CONNECT_H
#define AS_IO_CONNECT_H

#include "base/err.h"

/* Tries the addresses of `host` one after the other, each at most `timeout`. 0: *ret_fd is
 * connected, non-blocking, close-on-exec and without Nagle's delay; the caller owns it.
 * AS_ENOTFOUND: no such host; AS_EDEADLINE: nobody answered in time; AS_EUNAVAILABLE: refused or
 * not to be reached. `why` gets one phrase ("Connection refused"), NUL at the end. */
int as_connect_tcp(const char *host, uint16_t port, as_ns timeout, int *ret_fd, char *why,
                   size_t cap);

#endif
