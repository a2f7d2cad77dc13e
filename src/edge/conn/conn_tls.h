/* edge/conn/conn_tls.h — the bytes of a connection, in clear text or by TLS.
 *
 * A connection that a TLS listener has accepted first has the protocol `as_conn_handshake`. Its
 * steps are taken at the end of the loop's turns, for at most AS_HANDSHAKE_SLICE a turn: a step may
 * need a millisecond (a signature with RSA), and requests must not wait for hundreds of them. When
 * it is done, ALPN has chosen the protocol, or the first bytes do, as for clear text.
 *
 * At most max_handshakes are in progress. A further client takes the place of the one that has been
 * silent longest, of those that have not said hello if there are any: so connections that say
 * nothing, however many, keep out no client that is far away. If the server itself is behind with
 * all of them, it is refused.
 *
 * Thread: the edge's loop.
 */
#ifndef AS_EDGE_CONN_TLS_H
#define AS_EDGE_CONN_TLS_H

#include "edge/conn/conn.h"
#include "io/tls/tls_session.h"

#define AS_HANDSHAKE_SLICE                                                                         \
    AS_MS /* time for handshakes in one turn of the loop; one step at least */

struct as_conn_tls {
    struct as_conn *conn;
    struct as_tls *session; /* NULL: nothing has come, and silent clients cost nothing */
    struct as_task more;    /* due while bytes wait that polling the socket does not report */
    struct as_list node;    /* during the handshake: of as_handshakes */
    size_t charged;         /* bytes of requests that wait in the session, charged to c->requests */
    bool handshaking;
};

/* Makes c speak TLS; call it before anything is read. False: c is closed, as too many handshakes
 * are in progress, no certificate is loaded or there is no memory; this is logged. */
bool as_conn_tls_start(struct as_conn *c);
void as_conn_tls_free(struct as_conn *c); /* without TLS a no-op */

/* As as_sock_read, as_sock_flush and as_sock_watch. */
int64_t as_conn_read(struct as_conn *c, void *p, size_t n);
uint32_t as_conn_read_failure(const struct as_conn *c); /* the as_close_reason of a failed read */
int as_conn_flush(struct as_conn *c);
void as_conn_watch(struct as_conn *c, int events);
size_t as_conn_kept_output(const struct as_conn *c); /* encrypted bytes that wait for the socket */

void as_handshakes_init(struct as_handshakes *h, struct as_edge *e);

#endif
