/* io/loop/sock.h — a descriptor watched by a loop, with plain system calls for its bytes.
 *
 * uv_poll_t with own recvmsg/sendmsg, because a libuv stream can neither receive a memfd nor write
 * many frames from where they lie. Level-triggered. Closing is asynchronous.
 */
#ifndef AS_IO_LOOP_SOCK_H
#define AS_IO_LOOP_SOCK_H

#include "base/memory/outq.h"
#include "io/loop/loop.h"

struct as_sock {
    uv_poll_t uv;
    struct as_loop *loop;
    int fd;
    int events; /* UV_READABLE | UV_WRITABLE now watched */
    bool closing;
    /* events: UV_READABLE, UV_WRITABLE; an error of the descriptor shows as both */
    void (*on_event)(struct as_sock *s, int events);
    void (*on_closed)(struct as_sock *s);
};

/* Takes fd (made non-blocking); on failure fd is closed. Watches UV_READABLE. */
int as_sock_open(struct as_sock *s, struct as_loop *l, int fd,
                 void (*on_event)(struct as_sock *s, int events));
void as_sock_watch(struct as_sock *s, int events); /* 0: rest */
/* The descriptor is closed, then on_closed(s) from the loop; then the memory may go. */
void as_sock_close(struct as_sock *s, void (*on_closed)(struct as_sock *s));
/* Gives the descriptor back instead of closing it (to move it to another loop). */
int as_sock_detach(struct as_sock *s, void (*on_closed)(struct as_sock *s));

/* Did accept fail for want of descriptors or memory? Then the listener must rest for a while, or
 * the loop would spin. */
bool as_sock_is_starved(int e);
#define AS_SOCK_STARVED_LOG_INTERVAL                                                               \
    (60 * AS_SEC) /* between two lines of the log about it: it may last                            \
                   */

/* >0 bytes; AS_EAGAIN; AS_EOF; AS_EIO. */
int64_t as_sock_read(struct as_sock *s, void *p, size_t n);
size_t as_sock_readable_bytes(const struct as_sock *s); /* bytes that can be read now */
int64_t as_sock_readv(struct as_sock *s, const struct iovec *iov, int n);
/* Also takes one descriptor that travels along: -1 when none. */
int64_t as_sock_read_fd(struct as_sock *s, void *p, size_t n, int *ret_fd);
/* Writes as much of q as goes; watches for writability while something is left. 0, AS_EIO, or
 * AS_ENOMEM when q is broken: the connection must end. */
int as_sock_flush(struct as_sock *s, struct as_outq *q);

#endif
