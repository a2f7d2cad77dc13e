/* io/socket/peer.h — finds the user of this machine at the other end of a connected socket.
 *
 * For a unix socket the kernel says who has connected. For a TCP connection on a loopback address
 * it says who owns the socket at the other end (NETLINK_SOCK_DIAG, which any user may ask). Does
 * not block. Any thread.
 */
#ifndef AS_IO_PEER_H
#define AS_IO_PEER_H

#include "base/err.h"

#include <sys/socket.h>

/* 0: *ret_uid is the user of the process that made the peer's socket. AS_EDENIED: the peer's
 * address is not a loopback address. AS_EIO: the peer is on this machine, but its user is unknown:
 * its process has closed the socket, or the kernel does not answer. */
int as_peer_user(int fd, uid_t *ret_uid);

/* 127.0.0.0/8, as an address of IPv4 or mapped into IPv6, or ::1. */
bool as_peer_is_loopback(const struct sockaddr *a);

/* Writes the address of a connected socket's peer, or its own, as "ADDRESS:PORT", an address of
 * IPv6 in brackets; empty: it has none, as a unix socket. */
void as_peer_address(int fd, bool peer, char *out, size_t cap);

#endif
