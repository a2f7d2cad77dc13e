/* io/socket/rights.h — datagrams with descriptors, from one of our processes to another.
 *
 * SCM_RIGHTS of unix(7) on a SOCK_SEQPACKET socket: the bytes and descriptors of a datagram arrive
 * together or not at all. Does not block. Any thread, since a datagram is sent and received as a
 * whole.
 */
#ifndef AS_IO_RIGHTS_H
#define AS_IO_RIGHTS_H

#include "base/err.h"

#define AS_RIGHTS_MAX 32u /* descriptors of one datagram */

/* Sends n > 0 bytes. The caller still owns the descriptors and may close them afterwards. 0;
 * AS_EAGAIN: the socket or the kernel accepts no more now; AS_EOF: the other end is closed. */
int as_rights_send(int sock, const void *p, size_t n, const int *fds, uint32_t n_fds);

/* Receives a datagram. Returns its size, which may be above `cap`; the rest of its bytes is lost
 * then. The caller owns its descriptors, which are close-on-exec. *ret_lost: this process had no
 * room for all descriptors, and the kernel has closed the rest. AS_EAGAIN: there is no datagram;
 * AS_EOF: the other end is closed. */
int64_t as_rights_receive(int sock, void *p, size_t cap, int fds[AS_RIGHTS_MAX],
                          uint32_t *ret_n_fds, bool *ret_lost);

#endif
