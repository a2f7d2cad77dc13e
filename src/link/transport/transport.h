/* link/transport/transport.h — what carries the bytes of a native link, at either end of it.
 *
 * A table of operations and the descriptor that is polled. Today there is the unix socket, at the
 * dispatcher's end watched by a loop (loop_socket.h), at the worker's by its epoll set
 * (link/worker/worker_socket). Rings in shared memory and TCP with TLS get tables of their own: a
 * ring copies from the queue of `flush` and polls its doorbell; where no descriptor can be sent,
 * `read` gives -1 for it. Each operation is called once for many frames. Thread: that of its end.
 */
#ifndef AS_LINK_TRANSPORT_H
#define AS_LINK_TRANSPORT_H

#include "base/memory/outq.h"

struct as_transport;

struct as_transport_ops {
    /* Reads into n pieces (1 or 2). >0 bytes; AS_EAGAIN; AS_EOF; AS_EIO: errno says why. ret_fd:
     * also takes a descriptor that was sent with the bytes (-1: none), which is then the caller's;
     * NULL: none is accepted. */
    int64_t (*read)(struct as_transport *t, const struct iovec *iov, int n, int *ret_fd);
    /* Writes as much of q as there is room for, and drops that from it. When some is left, the end
     * is told of room as it is told of bytes to read. pass: a descriptor that goes with the first
     * bytes; -1: none. 0; AS_EIO, or AS_ENOMEM when q is broken: the link must end. */
    int (*flush)(struct as_transport *t, struct as_outq *q, int pass);
    size_t (*readable)(const struct as_transport *t); /* bytes that can be read now */
    /* Watches for bytes to read, and for room to write if `room`. */
    void (*watch)(struct as_transport *t, bool room);
    void (*close)(struct as_transport *t); /* it must be open */
};

struct as_transport {
    const struct as_transport_ops *ops;
    int fd; /* to poll; -1: not open */
};

static inline bool as_transport_is_open(const struct as_transport *t)
{
    return t->fd >= 0;
}

#endif
