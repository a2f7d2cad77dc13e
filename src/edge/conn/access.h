/* edge/conn/access.h — who may come in by an edge's listeners, and what a call there must prove.
 *
 * The clients' door is open to all; what changes the server is not taken there from web pages of
 * other sites. gRPC needs no such look: a page can send application/grpc only after a preflight,
 * which nobody here answers with leave, and gRPC-Web is not spoken. The door of the management
 * service takes, by a unix socket, our own user and root only (the kernel says who it is), and,
 * over TCP, whoever says the token in every request. A browser is refused there: no page of
 * somebody else's may use what is stored in it. So it is at the door of the control API, but for
 * pages that came from there: Host must be an address, or a name that is ours, and Origin, where
 * there is one, the same. Thread: the loop's.
 */
#ifndef AS_EDGE_ACCESS_H
#define AS_EDGE_ACCESS_H

#include "edge/exchange/exchange.h"

/* A connection was accepted. False: it is to be closed (counted and logged). *ret_trusted: its
 * requests need no token. */
bool as_access_admit_connection(struct as_edge *e, int fd, bool *ret_trusted);

/* The head of a request has come over an untrusted connection. False: it was failed,
 * UNAUTHENTICATED or PERMISSION_DENIED. */
bool as_access_check_request(struct as_exchange *x);

/* The head of a request by the clients' door has come that would change something. False: a web
 * page of another site has sent it, or one that was loaded by a name that is not ours; it was
 * failed, PERMISSION_DENIED. */
bool as_access_check_change(struct as_exchange *x);

#endif
