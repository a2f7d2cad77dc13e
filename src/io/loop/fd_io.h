/* io/loop/fd_io.h — reading from and writing to a non-blocking stream socket, gathered.
 *
 * The system calls of as_sock and of the worker library, which has no loop of ours. A call that a
 * signal interrupts is repeated. Thread: that of the descriptor.
 */
#ifndef AS_IO_FD_IO_H
#define AS_IO_FD_IO_H

#include "base/memory/outq.h"

/* Reads into n pieces (at least 1) with one system call. >0 bytes; AS_EAGAIN; AS_EOF; AS_EIO: errno
 * says why. ret_fd: also receives one descriptor that was sent with the bytes (-1: none), and
 * closes further ones; NULL: the kernel drops descriptors. */
int64_t as_fd_io_read(int fd, const struct iovec *iov, int n, int *ret_fd);
/* Writes as much of q as the socket takes. 0: all; AS_EAGAIN: some is left; AS_EIO; AS_ENOMEM: q is
 * broken. pass: a descriptor that is sent with the first bytes; -1: none. Adds the number of system
 * calls to *calls. */
int as_fd_io_flush(int fd, struct as_outq *q, int pass, uint64_t *calls);
size_t as_fd_io_readable(int fd); /* bytes that can be read now */

/* The descriptors that came with a message, which the caller owns: at most `cap`, which is all that
 * the message's control buffer has room for. */
struct msghdr;
uint32_t as_fd_io_descriptors(struct msghdr *m, int *fds, uint32_t cap);

#endif
