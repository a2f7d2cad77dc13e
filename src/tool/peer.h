/* tool/peer.h — the small room of I/O: one TCP connection to a server that is called over HTTP/2.
 *
 * A descriptor watched by the loop, joined to wire/h2_client. What callbacks queue is written at
 * the end of the turn. Thread: the loop's.
 */
#ifndef AS_TOOL_PEER_H
#define AS_TOOL_PEER_H

#include "io/sock.h"
#include "wire/h2_client.h"

#define AS_PEER_READ 65536u

struct as_peer {
    struct as_loop *loop;
    struct as_sock sock;
    struct as_h2_client *h2; /* requests go here, then as_peer_touch */
    struct as_outq out;
    struct as_task flush;
    bool gone;     /* the connection has ended; open calls were closed with CANCEL */
    bool closed;   /* the memory may go */
    char why[128]; /* why it ended */
    as_ns read_at; /* CLOCK_MONOTONIC right behind the last read */
    void (*on_gone)(struct as_peer *p); /* once, when it ends by itself; may be NULL */
    uint8_t in[AS_PEER_READ];
};

/* Takes fd (connected, non-blocking). ops and conn as for as_h2_client_new. 0, AS_ENOMEM, AS_EIO.
 */
int as_peer_open(struct as_peer *p, struct as_loop *l, int fd, const struct as_http_client_ops *ops,
                 void *conn);
/* What was queued is written at the end of this turn. */
void as_peer_touch(struct as_peer *p);
/* Ends the connection; calls still open are closed with CANCEL. The memory may go when `closed` is
 * set, at the latest when the loop has been freed. */
void as_peer_close(struct as_peer *p);

as_ns as_peer_clock(void); /* CLOCK_MONOTONIC now, not this turn's */

#endif
