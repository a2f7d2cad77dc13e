/* edge/conn/linger.h — sockets whose connection is over, kept until the client has heard so.
 *
 * A socket that is closed while its client goes on sending answers with a reset, and a reset takes
 * back what the client has not read yet: the GOAWAY that says why. So our side of the socket ends,
 * and what still comes is thrown away, until the client ends its side, or the time is over
 * (--linger-timeout), or AS_LINGER_BYTES have come. The oldest goes when there are too many
 * (--max-lingering). RFC 9112 §9.6 has the same for HTTP/1.1. The connection itself is gone by
 * then: none of its memory is held.
 *
 * Nobody is in a hurry to read what such a client says. So the sockets are looked at every
 * AS_LINGER_TICK, and all of them together get AS_LINGER_SHARE bytes of it; a client that floods is
 * slowed down by its full window, instead of keeping the loop busy. Thread: the edge's loop.
 */
#ifndef AS_EDGE_LINGER_H
#define AS_EDGE_LINGER_H

#include "io/loop/loop.h"

/* What a client may have under way when it is told: more is none that listens. */
#define AS_LINGER_BYTES (4u << 20)
/* 100 MiB/s of all that is thrown away: a loop does that in a few percent of its time. */
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
    struct as_timer timer; /* the next look; set while there are any */
};

/* max: sockets, at least 1. */
void as_linger_init(struct as_linger *l, struct as_loop *loop, uint8_t *rx, size_t n_rx,
                    as_ns timeout, uint32_t max);
/* Takes fd; nothing more is sent. */
void as_linger_add(struct as_linger *l, int fd);
void as_linger_close(struct as_linger *l); /* all of them, at once; the loop then runs to its end */

#endif
