/* io/socket/listen.h — listening sockets.
 *
 * All are non-blocking and close-on-exec, with the kernel's longest backlog. Blocking name lookup:
 * for start-up only.
 */
#ifndef AS_IO_SOCKET_LISTEN_H
#define AS_IO_SOCKET_LISTEN_H

#include "base/err.h"

/* Every address that `host` names (localhost: two), at most `cap`, on one port; port 0 takes a free
 * one. Returns how many were bound; AS_EEXISTS: the port is busy; AS_EDENIED: it needs privileges;
 * AS_EINVALID: no such address here; AS_EIO: else. *ret_errno tells more (0: see getaddrinfo). */
int as_listen_tcp(const char *host, uint16_t port, int *ret_fds, uint32_t cap, uint16_t *ret_port,
                  int *ret_errno);

/* "127.0.0.1:9000", "localhost:0", "[::1]:9000" as a host and a port. 0 or AS_EINVALID. */
#define AS_LISTEN_HOST_MAX 256u /* with its NUL */
int as_listen_parse_address(const char *text, char ret_host[AS_LISTEN_HOST_MAX],
                            uint16_t *ret_port);

/* A unix stream socket that only we may connect to (0600); an old file at `path` is replaced. */
int as_listen_unix(const char *path, int *ret_fd, int *ret_errno);

#endif
