/* edge/door.h — who may come in by an edge's listeners, and what a call there must prove.
 *
 * The clients' door is open to all. That of the management service takes, by a unix socket, our own
 * user only (the kernel says who it is), and, over TCP, whoever says the token in every request. A
 * browser is refused there: no page of somebody else's may use what is stored in it. So it is at
 * the door of the control API, but for pages that came from there: Host must be an address, or a
 * name that is ours, and Origin, where there is one, the same. Thread: the loop's.
 */
#ifndef AS_EDGE_DOOR_H
#define AS_EDGE_DOOR_H

#include "edge/exchange.h"

/* A connection was accepted. False: it is to be closed (counted and logged). *ret_trusted: its
 * requests need no token. */
bool as_door_admits(struct as_edge *e, int fd, bool *ret_trusted);

/* The head of a request has come over an untrusted connection. False: it was failed,
 * UNAUTHENTICATED or PERMISSION_DENIED. */
bool as_door_opens(struct as_exchange *x);

#endif
