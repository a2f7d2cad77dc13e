/* wire/ws/ws.h — one websocket after its handshake, the server's side: bytes in, messages out
 * (RFC 6455 §5–7).
 *
 *   OPEN ──as_ws_close, or a fault──► CLOSING ──the client's close──► CLOSED
 *     └────────────the client's close, which is answered────────────────┘
 *
 * wslay decodes frames. Fragments are put together; a ping is answered; masks, reserved bits,
 * opcodes, lengths, UTF-8 and close codes are checked, and what is wrong ends the websocket with
 * 1002, 1007 or 1009. A head that is wrong may be found with the first byte of its payload only. A
 * message is collected in a blob (a small one: in a slab), which is charged to the account; one for
 * which there is no room ends it with 1013. What the server sends is never masked and never
 * fragmented. The bytes are untrusted. Thread: that of the connection. No callback may free the
 * websocket.
 */
#ifndef AS_WIRE_WS_H
#define AS_WIRE_WS_H

#include "base/memory/blob.h"
#include "wire/frame/frame_http.h"

#define AS_WS_HEAD     10u  /* most bytes before the payload of a frame that the server sends */
#define AS_WS_CONTROL  127u /* most bytes of a control frame that the server sends */
#define AS_WS_NO_CODE  1005u
#define AS_WS_ABNORMAL 1006u

struct as_ws;

struct as_ws_conf {
    uint64_t max_message;   /* bytes of the payload of a message; above it: 1009 */
    uint32_t max_fragments; /* frames of a message; above it: 1009 */
};

struct as_ws_message {
    enum as_ws_opcode opcode; /* TEXT, which is UTF-8; BINARY */
    const uint8_t *p;
    size_t n;
    struct as_blob *blob; /* holds p, for who refers to it; NULL if n is 0 */
};

struct as_ws_ops {
    /* A whole message. May call as_ws_pause and as_ws_close. */
    void (*on_message)(void *owner, const struct as_ws_message *m);
    /* The websocket ends: no on_message comes any more. Called once, unless the owner closed it
     * first. `code` and `reason` are the client's (AS_WS_NO_CODE: it sent none), or, if `fault` is
     * not NULL, those that the client is being sent. */
    void (*on_close)(void *owner, uint32_t code, struct as_str reason, const char *fault);
    /* One whole frame for the client, at most AS_WS_CONTROL bytes: a pong, ping or close. */
    void (*send)(void *owner, const uint8_t *p, size_t n);
};

/* 0, AS_ENOMEM. account: charged for messages that are collected, or NULL. */
int as_ws_new(struct as_ws **ret_w, const struct as_ws_conf *conf, const struct as_ws_ops *ops,
              void *owner, struct as_account *account);
void as_ws_free(struct as_ws *w); /* NULL is fine */

/* Reads bytes of the client. Returns how many: fewer than n only while it is paused; then pass the
 * rest, which may be none, once it is not. Behind the client's close bytes are read and dropped. */
size_t as_ws_recv(struct as_ws *w, const uint8_t *p, size_t n);
/* While it is paused, and is not closing, no message is passed on. */
void as_ws_pause(struct as_ws *w, bool paused);
/* Sends a close, once; a code that may not be sent (RFC 6455 §7.4.1) becomes 1011, except
 * AS_WS_NO_CODE, which sends none; the reason is cut to AS_WS_REASON bytes. A message of the client
 * that is incomplete is dropped. */
void as_ws_close(struct as_ws *w, uint32_t code, struct as_str reason);
/* A close of this code may be sent. */
bool as_ws_is_close_code(uint32_t code);
/* Sends a ping, unless it is closing. */
void as_ws_ping(struct as_ws *w);

/* No message may be sent any more: a close was sent. */
bool as_ws_is_closing(const struct as_ws *w);
/* Both sides have said close, or a fault has ended it: end the connection once all is sent. */
bool as_ws_is_closed(const struct as_ws *w);

/* Writes what comes before the n bytes of payload of a message to the client. Returns its bytes. */
size_t as_ws_put_head(uint8_t ret_head[AS_WS_HEAD], uint32_t opcode, uint64_t n);

#endif
