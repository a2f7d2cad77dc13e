/* io/loop/sock.h — a descriptor that a loop watches, read and written by plain system calls.
 *
 * It uses uv_poll_t with its own recvmsg and sendmsg, because a libuv stream can neither receive a
 * memfd nor write many frames without copying them. Level-triggered. Closing is asynchronous.
 */
#ifndef AS_IO_SOCK_H
#define AS_IO_SOCK_H

#include "base/memory/outq.h"
#include "io/loop/loop.h"

struct as_sock {
    uv_poll_t uv;
    struct as_loop *loop;
    int fd;
    int events; /* watched now: UV_READABLE | UV_WRITABLE, or 0 */
    bool closing;
    /* events: UV_READABLE, UV_WRITABLE; an error of the descriptor is reported as both */
    void (*on_event)(struct as_sock *s, int events);
    void (*on_closed)(struct as_sock *s);
};

/* Owns fd from here on, makes it non-blocking and watches UV_READABLE. 0; AS_EIO: fd is closed. */
int as_sock_open(struct as_sock *s, struct as_loop *l, int fd,
                 void (*on_event)(struct as_sock *s, int events));
void as_sock_watch(struct as_sock *s, int events); /* 0: none */
/* Closes the descriptor. Later the loop calls on_closed (or NULL), which may free the memory. */
void as_sock_close(struct as_sock *s, void (*on_closed)(struct as_sock *s));
/* The same, but returns the descriptor instead of closing it, to move it to another loop. */
int as_sock_detach(struct as_sock *s, void (*on_closed)(struct as_sock *s));

/* Did accept fail with this errno for lack of descriptors or memory? Then the listener must not be
 * watched for a while, or the loop would spin. */
bool as_sock_is_starved(int e);
#define AS_SOCK_STARVED_LOG_INTERVAL                                                               \
    (60 * AS_SEC) /* between two lines of the log about it: it may last                            \
                   */

/* >0 bytes; AS_EAGAIN; AS_EOF; AS_EIO. */
int64_t as_sock_read(struct as_sock *s, void *p, size_t n);
/* Into n pieces. ret_fd: also receives one descriptor that was sent with the bytes (-1: there is
 * none); NULL: none is accepted. */
int64_t as_sock_readv(struct as_sock *s, const struct iovec *iov, int n, int *ret_fd);
/* Writes as much of q as the descriptor takes now, and watches UV_WRITABLE while bytes are left. 0;
 * AS_EIO, or AS_ENOMEM when q is broken: the connection must be closed. */
int as_sock_flush(struct as_sock *s, struct as_outq *q);
/* The same; pass: a descriptor that is sent with the first bytes; -1: none. */
int as_sock_flush_with_fd(struct as_sock *s, struct as_outq *q, int pass);

#endif
