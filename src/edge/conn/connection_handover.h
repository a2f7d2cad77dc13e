/* edge/conn/connection_handover.h — clients that wait for nothing pass to the dispatcher that
 * relieves this one.
 *
 * A server that closes an idle connection of HTTP/1.1 cannot know whether a request is on its way:
 * it would be lost. So nothing is closed in an upgrade: between two requests there is nothing on
 * our side but the socket, which goes to the next dispatcher as it is, and bytes that come
 * meanwhile wait in it. So does one on which no byte has come, whatever it is going to speak.
 * Connections of HTTP/2 have a state; theirs is GOAWAY, which loses nothing (RFC 9113 §6.8).
 *
 * Each loop of either dispatcher has a duplicate of its end of one SOCK_SEQPACKET socket, as it has
 * of the listeners. A datagram is a byte for each connection and its descriptor. What the socket
 * does not take stays here, is served, and is offered again; what the other side does not take is
 * closed there. Thread: the edge's loop.
 */
#ifndef AS_EDGE_CONNECTION_HANDOVER_H
#define AS_EDGE_CONNECTION_HANDOVER_H

#include "io/loop/loop.h"
#include "io/loop/sock.h"

struct as_conn;
struct as_edge;

struct as_connection_handover {
    struct as_edge *edge;
    struct as_sock in; /* from the dispatcher that we relieve */
    int out;           /* to the one that relieves us; -1: none, or it is gone */
    struct as_timer retry;
};

void as_connection_handover_init(struct as_connection_handover *r, struct as_edge *e);
void as_connection_handover_close(
    struct as_connection_handover *r); /* asynchronous: the loop then runs to its end */

/* Connections come by fd, which is the relay's from here on. 0, AS_EIO. Once. */
int as_connection_handover_adopt(struct as_connection_handover *r, int fd);
/* No more of them than have been sent by now. */
void as_connection_handover_stop_adopting(struct as_connection_handover *r);
/* The edge drains: all that rest go by fd, which is the relay's from here on, now, and the others
 * as soon as they rest (as_connection_handover_send). -1: nobody takes them. */
void as_connection_handover_start(struct as_connection_handover *r, int fd);
/* True: it went, and the connection is closed here. False: it does not rest, or stays for now. */
bool as_connection_handover_send(struct as_connection_handover *r, struct as_conn *c);
static inline bool as_connection_handover_is_open(const struct as_connection_handover *r)
{
    return r->out >= 0;
}

#endif
