/* tool/call/client_connection.h — the small room of I/O: one TCP connection to a server, over
 * HTTP/2 or HTTP/1.1.
 *
 * A descriptor watched by the loop, joined to wire/h2/h2_client or wire/h1/h1_client. What
 * callbacks queue is written at the end of the turn. Thread: the loop's.
 */
#ifndef AS_TOOL_PEER_H
#define AS_TOOL_PEER_H

#include "io/loop/sock.h"
#include "wire/h1/h1_client.h"
#include "wire/h2/h2_client.h"

#define AS_CLIENT_CONNECTION_READ 65536u

struct as_client_connection {
    struct as_loop *loop;
    struct as_sock sock;
    struct as_h2_client *h2; /* one of the two */
    struct as_h1_client *h1;
    struct as_outq out;
    struct as_task flush;
    bool ended;    /* the connection has ended; open calls were closed with CANCEL */
    bool closed;   /* the memory may go, or be opened again */
    char why[128]; /* why it ended */
    as_ns read_at; /* CLOCK_MONOTONIC right behind the last read */
    void (*on_end)(struct as_client_connection *p); /* once, when it ends by itself; may be NULL */
    void (*on_closed)(struct as_client_connection *p); /* once, behind `closed`; may be NULL */
    uint8_t in[AS_CLIENT_CONNECTION_READ];
};

/* Takes fd (connected or about to be, non-blocking). old: HTTP/1.1. ops and conn as in
 * wire/http/http_client.h. 0, AS_ENOMEM, AS_EIO. */
int as_client_connection_open(struct as_client_connection *p, struct as_loop *l, int fd, bool http1,
                              const struct as_http_client_ops *ops, void *conn);
/* As as_h2_client_request and as_h1_client_request; AS_EUNAVAILABLE too when it is gone. What is
 * queued is written at the end of this turn. */
int as_client_connection_request(struct as_client_connection *p,
                                 const struct as_http_client_request *r, void *call,
                                 uint32_t *ret_stream);
/* Gives a request up; over HTTP/1.1 the connection with it. Its on_close follows. */
void as_client_connection_reset(struct as_client_connection *p, uint32_t stream);
/* The rule that the server broke, for the calls that end with it; NULL: none that is known. */
const char *as_client_connection_fault(const struct as_client_connection *p);
/* Ends the connection; calls still open are closed with CANCEL. The memory may go when `closed` is
 * set, at the latest when the loop has been freed. */
void as_client_connection_close(struct as_client_connection *p);

as_ns as_client_connection_clock(void); /* CLOCK_MONOTONIC now, not this turn's */

#endif
