/* io/socket/peer.h — which user of this machine is at the other end of a connected socket.
 *
 * By a unix socket the kernel says who connected. Over TCP it says, for a loopback address, who
 * owns the socket at the other end (NETLINK_SOCK_DIAG, which any user may ask). Nothing blocks. Any
 * thread.
 */
#ifndef AS_IO_SOCKET_PEER_H
#define AS_IO_SOCKET_PEER_H

#include "base/err.h"

#include <sys/socket.h>

/* 0 with the user of the process that made the socket. AS_EDENIED: the peer's address is none of
 * loopback's. AS_EIO: it is here, but nobody can say whose it is: its process has closed it, or the
 * kernel does not answer. */
int as_peer_user(int fd, uid_t *ret_uid);

/* 127.0.0.0/8, ::1, or the former as an address of IPv6. */
bool as_peer_is_loopback(const struct sockaddr *a);

#endif
