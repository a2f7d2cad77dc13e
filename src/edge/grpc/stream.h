/* edge/grpc/stream.h — one streaming call of a client: messages in and out over time, at the pace
 * of the slower side.
 *
 *   client ──DATA──► unread ──► message being read ──► on_message ──► owner
 *   client ◄─DATA── HTTP/2 (unsent) ◄── send ◄──────────────────── owner
 *
 * Inwards: a message is charged as it comes, inflated when it came compressed, and handed over with
 * its memory. While the owner has paused the stream, or a message is being inflated, what comes in
 * is unread unread and not given back to the client's window, so that at most --stream-window bytes
 * of it are unread, charged as well. Outwards: the owner sends while as_stream_has_room; once that
 * is false it stops producing and goes on at on_room. So a client that does not read costs
 * AS_STREAM_HIGH_WATER bytes and one message. Either side may end the call; the owner is told of
 * the end exactly once, by on_close. Thread: the loop's. No callback comes from inside of open,
 * send, or finish.
 *
 * An RPC that hands each message to a worker (many requests on one stream) makes an exchange of its
 * own for each, with the message's memory as its body, pauses the stream at its limit of requests
 * under way, and sends what comes back, in pieces that refer to the answer's blob.
 */
#ifndef AS_EDGE_STREAM_H
#define AS_EDGE_STREAM_H

#include "edge/exchange/exchange.h"

#define AS_STREAM_HIGH_WATER                                                                       \
    (256u << 10) /* bytes that wait for the client before there is no room */
#define AS_STREAM_TURN_MESSAGES                                                                    \
    64u /* messages of one stream per turn: others get theirs as well                              \
         */

struct as_stream;

/* A whole message. The receiver of on_message owns it: as_stream_message_free, or keeps the blob.
 */
struct as_stream_message {
    const uint8_t *p;
    size_t n;
    struct as_blob *blob; /* one reference; holds p, and is charged */
};
void as_stream_message_free(struct as_stream_message *m);

struct as_stream_ops {
    void (*on_message)(struct as_stream *s, struct as_stream_message *m);
    /* The client sends nothing more. Not when the stream was finished before. */
    void (*on_end)(struct as_stream *s);
    void (*on_room)(struct as_stream *s); /* after as_stream_has_room was false; may be NULL */
    /* Something that the owner may watch has changed: models, their readiness, the server is
     * draining. May be NULL. */
    void (*on_change)(struct as_stream *s);
    /* The server ends: finish soon, or the connection holds up the drain. May be NULL: the stream
     * is finished with UNAVAILABLE. */
    void (*on_drain)(struct as_stream *s);
    /* The client has gone or has its answer; `owner` is to be freed. The last call. */
    void (*on_close)(struct as_stream *s);
};

struct as_stream {
    struct as_exchange *x;
    const struct as_stream_ops *ops;
    void *owner;
    uint64_t max_message; /* bytes of one message of this RPC, inflated too; --max-message-bytes
                             holds as well */
    struct as_list node;  /* in as_edge.streams */
    struct as_buf unread; /* bytes that came while nobody read: from unread_at on */
    size_t unread_at;
    uint32_t in_turn;  /* messages read in this turn of the loop */
    bool headers_sent; /* headers are out */
    bool paused;       /* by the owner */
    bool reading;      /* inside of the reading loop */
    bool half_closed;  /* the client has ended its side */
    bool end_reported; /* and on_end was called */
    bool wants_room;   /* has_room has said no */
    uint64_t checked_message,
        mark; /* the message under way at the last look, and bytes that had come */
    as_ns checked_at;
};

/* Makes a streaming call of x. False: out of memory, the call is failed and owner is not taken. */
bool as_stream_open(struct as_exchange *x, const struct as_stream_ops *ops, void *owner,
                    uint64_t max_message);

bool as_stream_has_room(struct as_stream *s);
/* One message. pieces[0] starts with room for the prefix (AS_GRPC_PREFIX bytes), which is written
 * here; every piece has an owner. Nothing happens after the end. */
void as_stream_send_pieces(struct as_stream *s, const struct as_http_piece *pieces, uint32_t n);
/* The same for a small message, copied. Without memory the call is failed. */
void as_stream_send(struct as_stream *s, const struct as_buf *message);
/* Bytes of whole messages, with their prefixes. */
void as_stream_send_framed(struct as_stream *s, const struct as_http_piece *pieces, uint32_t n);
/* The end. By error: as_exchange_fail and as_exchange_fail_status of s->x. */
void as_stream_finish(struct as_stream *s);

void as_stream_pause(struct as_stream *s);  /* no on_message until resume */
void as_stream_resume(struct as_stream *s); /* may call on_message and on_end before it returns */

/* For the exchange. */
bool as_stream_has_begun(const struct as_stream *s);
void as_stream_receive(struct as_stream *s, const uint8_t *p, size_t n);
void as_stream_half_close(struct as_stream *s);
void as_stream_drained(struct as_stream *s);
void as_stream_closed(struct as_stream *s);
/* For the edge: all streams of the loop. */
void as_stream_init_all(struct as_edge *e);
void as_stream_fini_all(struct as_edge *e); /* no stream is left */
void as_stream_notify_all(struct as_edge *e);
void as_stream_drain_all(struct as_edge *e);
/* Those past their deadline, and those in the middle of a message that does not move on. A client
 * ends its call by its own clock; this is for those that do not, so a look at every sweep is
 * enough. */
void as_stream_expire_all(struct as_edge *e, as_ns now);

#endif
