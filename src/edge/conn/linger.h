/* edge/conn/linger.h — lets clients read what was sent last before a socket is closed.
 *
 * If a socket is closed while its client is still sending, the kernel answers with a reset, and the
 * client loses what it has not read yet: the GOAWAY with the reason, or the end of an answer. So
 * the server shuts down its side, and discards input until the client closes, or --linger-timeout
 * has passed, or AS_LINGER_BYTES have been received. If there are more than --max-lingering
 * sockets, the oldest is closed. RFC 9112 §9.6 asks for the same in HTTP/1.1. The connection itself
 * is freed before: only the socket is kept.
 *
 * All sockets are read every AS_LINGER_TICK and together get AS_LINGER_SHARE bytes, so a client
 * that floods is slowed down by its full TCP window and does not keep the loop busy. Thread: the
 * edge's loop.
 */
#ifndef AS_EDGE_LINGER_H
#define AS_EDGE_LINGER_H

#include "io/loop/loop.h"

/* Bytes that a client may still send. A client that sends more does not react to the close. */
#define AS_LINGER_BYTES (4u << 20)
/* Together 100 MiB/s of discarded input: a few percent of a loop's time. */
#define AS_LINGER_TICK  (5 * AS_MS)
#define AS_LINGER_SHARE (512u << 10)

struct as_linger {
    struct as_loop *loop;
    uint8_t *rx; /* the loop's read buffer */
    size_t n_rx;
    as_ns timeout; /* 0: sockets are closed at once */
    uint32_t max;
    struct as_list socks; /* oldest first */
    uint32_t n;
    struct as_timer timer; /* set while there are sockets */
};

/* max: sockets, at least 1. */
void as_linger_init(struct as_linger *l, struct as_loop *loop, uint8_t *rx, size_t n_rx,
                    as_ns timeout, uint32_t max);
/* Takes ownership of fd; nothing more is sent on it. */
void as_linger_add(struct as_linger *l, int fd);
void as_linger_close(struct as_linger *l); /* closes all at once; asynchronous: run the loop */

#endif
