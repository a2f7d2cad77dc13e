/* edge/grpc/stream.h — one streaming gRPC call: messages in both directions, with flow control.
 *
 *   client ──DATA──► unread ──► message being read ──► on_message ──► owner
 *   client ◄─DATA── HTTP/2 (unsent) ◄── send ◄───────────────────── owner
 *
 * In: a message is charged as it is received, inflated if it is compressed, and passed to the owner
 * with its memory. While the owner has paused the stream, or a message is being inflated, received
 * bytes are stored unread and not returned to the client's window: at most --stream-window bytes,
 * charged as well. Out: the owner sends while as_stream_has_room; once that is false it stops and
 * continues at on_room. So a client that does not read costs AS_STREAM_HIGH_WATER bytes and one
 * message.
 *
 * Either side may end the call; the owner is notified exactly once, by on_close. No callback is
 * called from inside of open, send, or finish. Thread: the loop's.
 *
 * The owner of a call that passes messages to workers (edge/infer/infer_stream.c) makes an exchange
 * for each message, with the message's memory as its body, pauses the stream at its limit of
 * requests, and sends the answers in pieces that refer to the workers' blobs.
 */
#ifndef AS_EDGE_STREAM_H
#define AS_EDGE_STREAM_H

#include "edge/exchange/exchange.h"

#define AS_STREAM_HIGH_WATER    (256u << 10) /* unsent bytes from which on there is no room */
#define AS_STREAM_TURN_MESSAGES 64u          /* most messages read of one stream per turn */

struct as_stream;

/* A whole message. on_message takes ownership: it frees it, or keeps the blob. */
struct as_stream_message {
    const uint8_t *p;
    size_t n;
    struct as_blob *blob; /* one reference; holds p; charged */
};
void as_stream_message_free(struct as_stream_message *m);

struct as_stream_ops {
    void (*on_message)(struct as_stream *s, struct as_stream_message *m);
    /* The client has sent its last message. Not called after the stream was finished. */
    void (*on_end)(struct as_stream *s);
    void (*on_room)(struct as_stream *s); /* after as_stream_has_room was false; may be NULL */
    /* Models, their readiness, or the state of the server have changed. May be NULL. */
    void (*on_change)(struct as_stream *s);
    /* The server shuts down: finish soon, since the drain waits for it. NULL: the stream is failed
     * with UNAVAILABLE. */
    void (*on_drain)(struct as_stream *s);
    /* The client has gone, or has its whole answer. Free `owner`. The last callback. */
    void (*on_close)(struct as_stream *s);
};

struct as_stream {
    struct as_exchange *x;
    const struct as_stream_ops *ops;
    void *owner;
    uint64_t max_message; /* bytes of one message of this RPC, also after inflating;
                             --max-message-bytes applies as well */
    struct as_list node;  /* in as_edge.streams */
    struct as_buf unread; /* bytes received while reading was paused, from unread_at on */
    size_t unread_at;
    uint32_t in_turn;               /* messages read in this turn */
    bool paused;                    /* by the owner */
    bool reading;                   /* inside of the reading loop */
    bool half_closed;               /* the client has ended its side */
    bool end_reported;              /* on_end was called */
    bool wants_room;                /* has_room was false: on_room is due */
    uint64_t checked_message, mark; /* the message in progress at the last check, and the bytes
                                   received until then; edge/exchange/client_timeouts.h */
    as_ns checked_at;
};

/* Makes x a streaming call. False: out of memory; the call was failed and `owner` is not used. */
bool as_stream_open(struct as_exchange *x, const struct as_stream_ops *ops, void *owner,
                    uint64_t max_message);

bool as_stream_has_room(struct as_stream *s);
/* Sends a small message, copied. Without memory the call is failed. A no-op after the end of the
 * call, as all of these. */
void as_stream_send(struct as_stream *s, const struct as_buf *message);
/* Sends whole messages that have their prefixes. */
void as_stream_send_framed(struct as_stream *s, const struct as_http_piece *pieces, uint32_t n);
/* Ends the call with OK. With an error: as_exchange_fail or as_exchange_fail_status of s->x. */
void as_stream_finish(struct as_stream *s);

void as_stream_pause(struct as_stream *s);  /* no on_message until resume */
void as_stream_resume(struct as_stream *s); /* may call on_message and on_end before it returns */

/* For the edge: all streams of the loop. */
void as_stream_init_all(struct as_edge *e);
void as_stream_fini_all(struct as_edge *e); /* no stream is left */
void as_stream_notify_all(struct as_edge *e);
void as_stream_drain_all(struct as_edge *e);
/* Fails calls past their deadline, and calls with a message that is received too slowly. Clients
 * end their calls by their own clock; this is for those that do not, so a check at every sweep is
 * enough. */
void as_stream_expire_all(struct as_edge *e, as_ns now);

#endif
