/* io/socket/rights.h — descriptors that travel with a datagram from one of our processes to
 * another.
 *
 * SCM_RIGHTS of unix(7) on a SOCK_SEQPACKET socket: bytes and descriptors of one datagram arrive
 * together, or not at all. Neither function blocks. Any thread: a datagram is sent, and taken,
 * whole.
 */
#ifndef AS_IO_SOCKET_RIGHTS_H
#define AS_IO_SOCKET_RIGHTS_H

#include "base/err.h"

#define AS_RIGHTS_MAX 32u /* descriptors of one datagram */

/* n > 0 bytes. The descriptors stay the caller's, who may close them as soon as they are sent.
 * 0; AS_EAGAIN: the socket, or the kernel, takes no more now; AS_EOF: nobody is at the other end.
 */
int as_rights_send(int sock, const void *p, size_t n, const int *fds, uint32_t n_fds);

/* Bytes of the datagram, of which no more than `cap` are at p, and its descriptors (close-on-exec),
 * which are the caller's from here on. Fewer than were sent when this process has no room for more:
 * the kernel closes the rest, and *ret_lost says so. AS_EAGAIN: nothing is there; AS_EOF: and
 * nothing will be. */
int64_t as_rights_receive(int sock, void *p, size_t cap, int fds[AS_RIGHTS_MAX],
                          uint32_t *ret_n_fds, bool *ret_lost);

#endif
