/* anyserve/websocket.h — websockets in a worker: a part of anyserve/worker.h, which includes it.
 *
 * A request of HTTP whose head has `websocket` (anyserve/http.h) opens one. The worker accepts it
 * by as_worker_http_answer with status 101 and without `last`; the field sec-websocket-protocol
 * names the subprotocol that it has chosen, one of those in the same field of the request. Any
 * other status denies it, as an ordinary answer. Once it is accepted, both sides send messages; the
 * handshake, frames, pings and limits are the server's.
 *
 * It ends by as_worker_ws_send of a close, or by as_worker_finish, which is a close with 1000, or
 * by as_worker_fail: a close with 1011. When the client closes or has gone, the last message of
 * as_worker_ws_read is a close.
 *
 * Threads: any, but not two at once for one request and one direction.
 */
#ifndef ANYSERVE_WEBSOCKET_H
#define ANYSERVE_WEBSOCKET_H

#ifdef __cplusplus
extern "C" {
#endif

enum as_worker_ws_opcode {
    AS_WORKER_WS_TEXT = 1, /* UTF-8 */
    AS_WORKER_WS_BINARY = 2,
    AS_WORKER_WS_CLOSE = 8,
};
#define AS_WORKER_WS_REASON 123u /* most bytes of the reason of a close */

struct as_worker_ws_message {
    enum as_worker_ws_opcode opcode;
    uint32_t code;       /* of a close; 0: it has none */
    struct as_str bytes; /* of a close: its reason */
};

/* The next message. 0: *ret_m, whose bytes are valid until as_worker_release_hold(*ret_hold);
 * AS_EAGAIN: none now (as_worker_want with AS_WANT_INPUT, as_worker_await_input); AS_EOF: the close
 * was the last one; AS_ECANCELLED: the client has gone, or the link has ended; AS_EINVALID: it is
 * no websocket that was accepted. */
int as_worker_ws_read(struct as_worker *w, struct as_worker_req *q,
                      struct as_worker_ws_message *ret_m, void **ret_hold);

/* Sends a message, which is copied. After a close, which needs no room, q is freed. AS_EAGAIN:
 * there is no room now (as_worker_want with AS_WANT_ROOM, as_worker_await_room); AS_ECANCELLED:
 * nobody gets it; AS_ETOOBIG: the reason of a close; AS_EINVALID as above. After an error q stays
 * the caller's. */
int as_worker_ws_send(struct as_worker *w, struct as_worker_req *q,
                      const struct as_worker_ws_message *m);

#ifdef __cplusplus
}
#endif

#endif
