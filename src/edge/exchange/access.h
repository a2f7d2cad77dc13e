/* edge/exchange/access.h — access control: which requests an interface accepts; which connections,
 * conn/conn.c checks.
 *
 * Clients: open to everyone, or with --api-keys to whoever has a key (edge/exchange/key_access.h);
 * but web pages of other sites may not change the server. gRPC needs no such check where the server
 * grants no CORS preflight, without which a page cannot send application/grpc; with --cors-origin
 * every gRPC call with an Origin is checked as a change (edge/exchange/cors.h). gRPC-Web is not
 * supported.
 *
 * Management: over a unix socket only the server's own user and root (SO_PEERCRED); over TCP every
 * request must carry the token. Requests of web pages are refused, whatever their origin: a page
 * must not use a token that a browser has stored.
 *
 * Status: open to everyone by a unix socket. Over TCP on loopback, Host must name this machine by a
 * name or an address of loopback, which no foreign domain can be (DNS rebinding), but for
 * /-/healthz. On another address (--status-host) it is open to whoever reaches it, by any name.
 *
 * Control: the same as management, but pages that the server itself has served are accepted. Host
 * must be an IP address or a name of the server, and Origin, if present, must match it. Thread: the
 * loop's.
 */
#ifndef AS_EDGE_ACCESS_H
#define AS_EDGE_ACCESS_H

#include "edge/exchange/exchange.h"

/* Checks the head of a request on an untrusted connection. False: it was failed with
 * UNAUTHENTICATED or PERMISSION_DENIED. */
bool as_access_check_request(struct as_exchange *x);

/* Checks the head of a request that changes the server, on the clients' interface. False: a web
 * page of another site sent it, or a page loaded by a name that is not the server's (DNS
 * rebinding); it was failed with PERMISSION_DENIED. */
bool as_access_check_change(struct as_exchange *x);

#endif
