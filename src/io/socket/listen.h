/* io/socket/listen.h — listening sockets.
 *
 * All are non-blocking and close-on-exec, with the kernel's longest backlog; the caller owns them.
 * The name lookup blocks: for start-up only.
 */
#ifndef AS_IO_LISTEN_H
#define AS_IO_LISTEN_H

#include "base/err.h"

/* Listens on all addresses of `host` (localhost has two), at most `cap`, with the same port; port
 * 0: any free one. Returns how many sockets were bound; AS_EEXISTS: the port is in use; AS_EDENIED:
 * it needs privileges; AS_EINVALID: this machine does not have the address; AS_EIO: any other
 * error. *ret_errno has the reason; 0: the name lookup failed. */
int as_listen_tcp(const char *host, uint16_t port, int *ret_fds, uint32_t cap, uint16_t *ret_port,
                  int *ret_errno);

#define AS_LISTEN_HOST_MAX 256u /* bytes, with the NUL */
/* Splits "127.0.0.1:9000", "localhost:0" or "[::1]:9000" into host and port. 0 or AS_EINVALID. */
int as_listen_parse_address(const char *text, char ret_host[AS_LISTEN_HOST_MAX],
                            uint16_t *ret_port);

/* A unix stream socket that only our own user may connect to (0600); replaces a file at `path`. 0
 * or an error as above. */
int as_listen_unix(const char *path, int *ret_fd, int *ret_errno);

#endif
