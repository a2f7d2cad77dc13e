/* edge/conn/connection_handover.h — passes idle connections to the next dispatcher in an upgrade.
 *
 * A server that closes an idle HTTP/1.1 connection may lose a request that is on its way. So in an
 * upgrade idle connections are not closed: the socket is sent to the next dispatcher, and bytes
 * that arrive meanwhile wait in it. Connections on which no byte was received yet are passed on as
 * well. HTTP/2 connections have state that cannot be passed on; they end with GOAWAY, which loses
 * nothing (RFC 9113 §6.8).
 *
 * Each loop of either dispatcher has a duplicate of its end of one SOCK_SEQPACKET socket. A
 * datagram has one byte per connection and its descriptor. Connections that do not fit into the
 * socket stay here, are served, and are sent later; connections that the receiver cannot take, or
 * whose byte it does not know, are closed there. Thread: the edge's loop.
 */
#ifndef AS_EDGE_CONNECTION_HANDOVER_H
#define AS_EDGE_CONNECTION_HANDOVER_H

#include "io/loop/loop.h"
#include "io/loop/sock.h"

struct as_conn;
struct as_edge;

struct as_connection_handover {
    struct as_edge *edge;
    struct as_sock in; /* from the previous dispatcher */
    int out;           /* to the next dispatcher; -1: none, or it has gone */
    struct as_timer retry;
};

void as_connection_handover_init(struct as_connection_handover *r, struct as_edge *e);
void as_connection_handover_close(
    struct as_connection_handover *r); /* asynchronous: run the loop */

/* Receives connections from fd, which it owns from here on. At most once. 0, AS_EIO. */
int as_connection_handover_adopt(struct as_connection_handover *r, int fd);
/* Receives what was sent so far, then closes the socket. */
void as_connection_handover_stop_adopting(struct as_connection_handover *r);
/* The edge drains: sends all idle connections by fd, which it owns from here on; the others follow
 * when they become idle (as_connection_handover_send). fd -1: there is no next dispatcher. */
void as_connection_handover_start(struct as_connection_handover *r, int fd);
/* True: it was sent, and closed here. False: it is not idle, or cannot be sent now. */
bool as_connection_handover_send(struct as_connection_handover *r, struct as_conn *c);
static inline bool as_connection_handover_is_open(const struct as_connection_handover *r)
{
    return r->out >= 0;
}

#endif
