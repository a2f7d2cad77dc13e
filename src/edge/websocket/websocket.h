/* edge/websocket/websocket.h — a client's websocket, from the moment a worker has accepted it.
 *
 *   client ──frames──► wire/ws ──message──► input of the call ──► worker
 *   client ◄─frames── as_conn ◄── parts of the call's answer ◄─── worker
 *
 * The request that opens it is an ordinary one of HTTP: routed, queued, sent to a worker. When the
 * worker's answer has the status 101, as_websocket_accept takes over the exchange and its call: the
 * worker's slot is taken until the worker has ended its answer, and neither a deadline nor a
 * timeout of requests applies. In: one message is under way to the fleet at a time, and within
 * the worker's credit; meanwhile the client's bytes are not read. Out: the worker's credit is
 * returned while less than AS_WEBSOCKET_HIGH_WATER bytes are unsent.
 *
 * How it ends, for the client and for the worker, which gets a close as its last message:
 *
 *   the client closes                   answered with its code     its code and reason
 *   the client has gone                                            1006
 *   the client breaks a rule            1002, 1007, 1009, 1013     the same
 *   it does not answer a ping           1011                       1006
 *   its API key is revoked, or expires  1008                       the same
 *   the worker closes                   the worker's code
 *   the worker ends without a close     1000
 *   the worker fails, or dies           1011
 *   its replica is to end: an update,   1012                       1012
 *   fewer replicas, a worker's DRAIN
 *   the server shuts down; in an        1012                       1012
 *   upgrade: at its drain timeout
 *
 * A client has ping_timeout to answer a close. websocket_handshake.c: the head of the request and
 * of the answer. Thread: the edge's loop.
 */
#ifndef AS_EDGE_WEBSOCKET_H
#define AS_EDGE_WEBSOCKET_H

#include "edge/exchange/exchange.h"

#define AS_WEBSOCKET_HIGH_WATER (256u << 10)
#define AS_WEBSOCKET_EXTRA      1u /* fields that as_websocket_accept adds, at most */

/* A request that wants a websocket: false, and it is answered, if its handshake is not correct. */
bool as_websocket_check(struct as_exchange *x);

/* The worker accepts: sends the answer and takes over x, whose call is in the fleet and has a
 * stream. fields: those of the answer, checked; what the handler may not set is left out. Instead
 * of the callbacks of x and of its call its own are called; `gone` and on_release of x are called
 * behind them. False: the request was failed, since the worker chose a subprotocol that was not
 * offered, or memory is short; cancel the call. */
bool as_websocket_accept(struct as_exchange *x, const struct as_http_header *fields,
                         uint32_t n_fields);

/* For the edge: pings, clients that do not answer, and keys that are not valid any more; every
 * sweep.
 */
void as_websocket_sweep_all(struct as_edge *e, as_ns now);
/* Closes all with 1012, and from now on each new one at once. */
void as_websocket_drain_all(struct as_edge *e);

/* --- between the files of this room --- */

/* Puts the fields of the handler's answer behind the *ret_n in h, without those that it may not
 * set. False: it has chosen a subprotocol that the client has not offered. */
bool as_websocket_put_fields(const struct as_exchange *x, const struct as_http_header *fields,
                             uint32_t n_fields, struct as_http_header *h, uint32_t *ret_n);

#endif
