/* wire/ws/ws_handshake.h — the opening handshake of a websocket, the server's part.
 *
 * RFC 6455 §4.2 over HTTP/1.1; RFC 8441 over HTTP/2, where the key and its answer do not exist. The
 * version of HTTP has found out that the client wants a websocket (head->wants_websocket); here is
 * checked whether the request is a correct one. Extensions are never accepted. Pure; the head is
 * untrusted.
 */
#ifndef AS_WIRE_WS_HANDSHAKE_H
#define AS_WIRE_WS_HANDSHAKE_H

#include "wire/http/http.h"

#define AS_WS_ACCEPT 28u /* characters of Sec-WebSocket-Accept */

/* 0; or the status to refuse with, and *ret_why: 400: malformed; 426: another version than 13, to
 * be answered with the field sec-websocket-version: 13. */
uint32_t as_ws_handshake_check(const struct as_http_head *head, const char **ret_why);

/* Sec-WebSocket-Accept for the request's key; false: HTTP/2, which has none. For a head that
 * as_ws_handshake_check accepted. */
bool as_ws_handshake_accept(const struct as_http_head *head, char ret_text[AS_WS_ACCEPT]);

/* The client has offered this subprotocol. */
bool as_ws_handshake_offers(const struct as_http_head *head, struct as_str protocol);

/* A field that a handler may not set in the answer: the server sets it, or it would name an
 * extension. */
bool as_ws_handshake_is_own_field(struct as_str name);

#endif
