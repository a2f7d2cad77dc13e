/* tool/call/client_connection.h — a TCP connection to a server, for HTTP/2 or HTTP/1.1, in clear
 * text or by TLS.
 *
 * Connects a socket on an event loop with wire/h2/h2_client or wire/h1/h1_client. Output that
 * callbacks queue is written at the end of the loop's turn; with TLS not before the handshake is
 * done. Thread: the loop's.
 */
#ifndef AS_TOOL_CLIENT_CONNECTION_H
#define AS_TOOL_CLIENT_CONNECTION_H

#include "io/loop/sock.h"
#include "io/tls/tls_session.h"
#include "wire/h1/h1_client.h"
#include "wire/h2/h2_client.h"

#define AS_CLIENT_CONNECTION_READ 262144u
/* What an owner says that has waited too long for a handshake; seconds. */
#define AS_CLIENT_CONNECTION_SILENT                                                                \
    "no TLS handshake within %.6g s (--connect-timeout); the port may not speak TLS"

struct as_client_connection {
    struct as_loop *loop;
    struct as_sock sock;
    struct as_h2_client *h2; /* either h2 or h1 is set */
    struct as_h1_client *h1;
    struct as_outq out;
    struct as_task flush;
    struct as_tls *tls;  /* NULL: clear text */
    struct as_task more; /* due while bytes wait that polling the socket does not report */
    bool handshaking;    /* by TLS: no request has been sent yet */
    bool ended;          /* the connection has ended; open calls got on_close with CANCEL */
    bool closed;         /* the struct may be freed, or opened again */
    char why[128];       /* why it has ended */
    as_ns read_at;       /* CLOCK_MONOTONIC after the last read */
    void (*on_handshake)(
        struct as_client_connection *p); /* called once, when TLS is agreed; may be NULL */
    void (*on_end)(
        struct as_client_connection *p); /* called once, if it ends by itself; may be NULL */
    void (*on_closed)(
        struct as_client_connection *p); /* called once, when `closed` is set; may be NULL */
    uint8_t in[AS_CLIENT_CONNECTION_READ];
};

/* Opens a connection on fd, which is non-blocking, and connected or connecting. tls: a session of a
 * client on fd; NULL: clear text. Owns both from then on. http1: HTTP/1.1, else HTTP/2. ops and
 * conn are those of wire/http/http_client.h. 0, AS_ENOMEM, AS_EIO. */
int as_client_connection_open(struct as_client_connection *p, struct as_loop *l, int fd,
                              struct as_tls *tls, bool http1, const struct as_http_client_ops *ops,
                              void *conn);
/* as_h2_client_request or as_h1_client_request; also AS_EUNAVAILABLE, when the connection has
 * ended.
 */
int as_client_connection_request(struct as_client_connection *p,
                                 const struct as_http_client_request *r, void *call,
                                 uint32_t *ret_stream);
/* Cancels a request; with HTTP/1.1 this also closes the connection. Its on_close follows. */
void as_client_connection_reset(struct as_client_connection *p, uint32_t stream);
/* How the server violated the protocol, as an error text; NULL: not known. */
const char *as_client_connection_fault(const struct as_client_connection *p);
/* Closes the connection; open calls get on_close with CANCEL. The struct may be freed when `closed`
 * is set, at the latest after the loop was freed. */
void as_client_connection_close(struct as_client_connection *p);

#endif
