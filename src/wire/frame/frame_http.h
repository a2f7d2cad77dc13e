/* wire/frame/frame_http.h — the frames of HTTP requests: OPEN and DATA of kind 2.
 *
 * docs/protocol/link.md, section 17, is the specification. OPEN has the head of a client's request
 * and the first bytes of its body; DATA|MSG has the head of the answer, or a message of a
 * websocket; DATA without MSG has further bytes of a body, in either direction, within the credit
 * of the stream. Decoders check lengths and counts; which fields, methods and statuses make sense
 * is for the receiver to decide. Pure; decoders return slices into the frame and allocate from an
 * arena only.
 */
#ifndef AS_WIRE_FRAME_HTTP_H
#define AS_WIRE_FRAME_HTTP_H

#include "wire/frame/frame.h"

#define AS_HTTP_F_WEBSOCKET 0x1u /* the request opens a websocket; it has no body */
#define AS_HTTP_F_BEYOND    0x2u /* start it although all slots execute */
#define AS_HTTP_F_WHOLE     0x4u /* the whole body is inside OPEN, which has END */
/* The bytes that each side may send on a stream before the first CREDIT of the other side. Bytes
 * inside OPEN and inside the head of the answer do not count. */
#define AS_HTTP_WINDOW (256u << 10)

/* OPEN: the request of a client. */
struct as_frame_http_open {
    uint8_t version;  /* of HTTP: 10, 11 or 20 */
    uint8_t priority; /* 0 is the most urgent */
    uint32_t target;  /* the number from REGISTERED */
    uint64_t timeout; /* ns that are left, 0: no deadline */
    uint32_t flags;   /* AS_HTTP_F_… */
    struct as_str id; /* the request id, UTF-8; may be empty */
    /* As the client sent them, without control characters; path and method are not empty. */
    struct as_str method, scheme, authority, path, query; /* path is not decoded; query: behind ? */
    struct as_str root_path;    /* of the route: its prefix without a final slash; may be empty */
    struct as_str peer, server; /* "ADDRESS:PORT" of the client, and where it connected */
    const struct as_meta *meta; /* the fields of the request, in order; names in lower case */
    uint32_t n_meta;
    uint64_t body_len; /* bytes of the body inside the frame, at most AS_FRAME_INLINE */
    const uint8_t *body;
};

/* DATA|MSG of type 1: the head of an answer, and the first bytes of its body. */
struct as_frame_http_head {
    uint16_t status;  /* 101 … 999 */
    uint64_t service; /* ns that the handler ran, 0: not measured */
    uint32_t ended;   /* as_frame_moment of the handler's end, 0: not measured, or it goes on */
    bool end;         /* the answer is complete: the frame has END */
    const struct as_meta *meta;
    uint32_t n_meta;
    uint64_t body_len; /* bytes of the body inside the frame, at most AS_FRAME_INLINE */
    const uint8_t *body;
};

/* DATA|MSG of type 2: a message of a websocket, in either direction. */
enum as_ws_opcode { AS_WS_TEXT = 1, AS_WS_BINARY = 2, AS_WS_CLOSE = 8 };
#define AS_WS_REASON 123u /* bytes of the reason of a close */
struct as_frame_ws_message {
    enum as_ws_opcode opcode;
    uint16_t code;       /* of a close; 0: it names none. Otherwise 0 */
    bool end;            /* the sender's last: always so for a close */
    uint64_t body_len;   /* of the message; up to AS_FRAME_INLINE it is inside the frame … */
    const uint8_t *body; /* … decoder: NULL if it follows in DATA frames; a text is not checked */
    uint64_t cost;       /* decoder: the bytes of credit that the message uses */
};
/* A message may begin while credit is above 0, so that it falls below 0 by one message at most. */
#define AS_WS_COST(body_len) (AS_FRAME_ALIGN + (uint64_t)(body_len))

enum as_http_message { AS_HTTP_HEAD = 1, AS_HTTP_WS_MESSAGE = 2 };
/* The type of a DATA|MSG of kind 2: of enum as_http_message, or a number that is refused. */
static inline unsigned as_frame_http_type(const struct as_frame *f)
{
    return f->n < 2 ? 0 : f->p[1];
}

/* Decodes an OPEN of kind 2. Checks the fixed part, the whole table, that an inline body fills the
 * frame, and that no text has a control character. 0; AS_EPROTO with a reason in *ret_why (static
 * text); AS_ENOMEM. */
int as_frame_get_http_open(const struct as_frame *f, struct as_arena *a,
                           struct as_frame_http_open *ret_o, const char **ret_why);
/* Whether as_frame_put_http_open accepts it, apart from its body. */
bool as_frame_http_open_fits(const struct as_frame_http_open *o);
/* Bodies of more than AS_COPY_MAX bytes are referenced if `owner` is given (they lie in
 * owner->data), and copied otherwise. 0; AS_ETOOBIG with nothing written: the table, a count or the
 * body is above its limit. What the decoder refuses otherwise is not to be given. */
int as_frame_put_http_open(struct as_outq *q, uint64_t stream, const struct as_frame_http_open *o,
                           struct as_blob *owner);

/* The same for the head of an answer. Its fields may have any bytes: see wire/http/http_field.h. */
int as_frame_get_http_head(const struct as_frame *f, struct as_arena *a,
                           struct as_frame_http_head *ret_h, const char **ret_why);
int as_frame_put_http_head(struct as_outq *q, uint64_t stream, const struct as_frame_http_head *h,
                           struct as_blob *owner);

/* The same for a message of a websocket; nothing is allocated. A body above AS_FRAME_INLINE is
 * written as DATA frames behind the message, the last with END if `end` is set. AS_ETOOBIG: above
 * 2^40 bytes, or of a close above AS_WS_REASON. */
int as_frame_get_ws_message(const struct as_frame *f, struct as_frame_ws_message *ret_m,
                            const char **ret_why);
int as_frame_put_ws_message(struct as_outq *q, uint64_t stream, const struct as_frame_ws_message *m,
                            struct as_blob *owner);

/* Further bytes of a body, in as many DATA frames as needed; `end`: the last one has END, and is
 * empty if n is 0. They use n bytes of credit. Referenced or copied as above. */
void as_frame_put_http_data(struct as_outq *q, uint64_t stream, const uint8_t *p, size_t n,
                            bool end, struct as_blob *owner);

#endif
