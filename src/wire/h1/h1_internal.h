/* wire/h1/h1_internal.h — shared by the files of the HTTP/1.1 server connection; private to them.
 *
 * h1.c: the connection, its states and bodies; h1_head.c: request lines and fields; h1_send.c:
 * answers. Reading and answering have a state each, since an answer may come before its request is
 * complete:
 *
 *   reading:  LINE ─► FIELDS ─┬─► BODY ───────────────────────┬─► WAIT ─► LINE (next request)
 *              ▲              ├─► CHUNK ──────► TRAILER ──────┤
 *              │              │    ▲└─► DATA ─┐               │      any ─► OVER: nothing more
 *              │              │    └──────────┘               │             is read
 *              │              └─ no body ─────────────────────┘
 *   answer:   NONE ─► OPEN ─► COMPLETE ─► SENT   (NONE ─► COMPLETE if it is given as a whole)
 *
 * WAIT becomes LINE when the answer is SENT: as_h1_send has handed out all of it. An answer 101
 * makes it TUNNEL, where all bytes are the owner's; TUNNEL becomes OVER. The buffers of a
 * request are part of the connection and are used again for the next request.
 */
#ifndef AS_WIRE_H1_INTERNAL_H
#define AS_WIRE_H1_INTERNAL_H

#include "wire/h1/h1.h"
#include "wire/h1/h1_syntax.h"
#include "wire/http/pieces.h"

#define AS_H1_INLINE_IN     2048 /* bytes of a head that need no allocation */
#define AS_H1_INLINE_OUT    512
#define AS_H1_INLINE_REST   24
#define AS_H1_INLINE_PIECES 8
/* An unwanted rest of a body is read and dropped, to keep the connection, up to this many bytes. */
#define AS_H1_DISCARD_MAX 65536u

enum as_h1_state {
    AS_H1_LINE,
    AS_H1_FIELDS,
    AS_H1_BODY,  /* its length is known */
    AS_H1_CHUNK, /* what is between the data of chunks: h1_syntax.h */
    AS_H1_DATA,
    AS_H1_TRAILER,
    AS_H1_TUNNEL, /* behind an answer 101 */
    AS_H1_WAIT,
    AS_H1_OVER
};

enum as_h1_answer_state {
    AS_H1_ANSWER_NONE,
    AS_H1_ANSWER_OPEN,
    AS_H1_ANSWER_COMPLETE,
    AS_H1_ANSWER_SENT
};

/* A buffer: first a block inside the connection, then one on the heap when that is too small. */
struct as_h1_bytes {
    uint8_t *p;
    size_t n, cap;
};

#define AS_H1_NAMED_MAX 4u

/* The request that is read or answered; cleared for the next one. */
struct as_h1_request {
    void *req;                      /* the owner's pointer; NULL: there is none, or it was closed */
    enum as_h1_answer_state answer; /* the state of its answer */
    bool is_http10;                 /* the request is HTTP/1.0 */
    bool is_head;                   /* its method is HEAD */
    bool has_host, has_length, chunked;
    bool expects;            /* 100-continue, and it was not sent yet */
    bool bad_expect;         /* its expect is something else */
    bool says_upgrade;       /* a field connection names upgrade */
    bool upgrades_websocket; /* a field upgrade names websocket */
    bool is_absolute;        /* the target is an absolute URL; its authority is in `authority` */
    bool streamed;           /* the answer comes over time, and its pieces hold references */
    bool in_chunks, no_body; /* how its answer is sent */
    bool is_sized;           /* the answer comes over time, with a length */
    bool is_cut;             /* as_h1_cut: the last chunk is not sent */
    bool drained_due;        /* on_drained must be called */
    /* values of fields connection that name other fields, which are not shown to the owner */
    struct as_str named[AS_H1_NAMED_MAX];
    uint32_t n_named;
    uint32_t n_fields; /* fields, or trailers */
    size_t list_size;
    struct as_str authority;
    uint64_t left; /* bytes that are missing of the body, or of its chunk */
    struct as_h1_chunk chunk;
    size_t unread;        /* bytes that the owner got and has not consumed */
    uint8_t *body_buffer; /* where the next bytes of the body go; NULL: anywhere */
    size_t body_buffer_n;
    size_t unsent; /* bytes of the answer's pieces */
};

struct as_h1 {
    struct as_h1_conf conf;
    const struct as_http_ops *ops;
    void *conn;
    enum as_h1_state state;
    bool got_request;
    bool closing;      /* no further request is read */
    bool closing_next; /* the same, when the next request has begun */
    bool reset;        /* the owner has reset the request; the next as_h1_send does it */
    bool aborted;      /* the connection ended in the middle of an answer */
    const char *breach;
    as_ns now, head_since;
    uint32_t stream; /* number of the current or last request */
    uint64_t sent;   /* for as_h1_bytes_sent */
    struct as_h1_request rq;
    struct as_http_head head;
    struct as_h1_bytes in;      /* the bytes of the head; slices of `head` point here */
    size_t line;                /* the offset of its last line */
    struct as_h1_bytes trailer; /* one line of a trailer */
    struct as_h1_bytes text;    /* heads of answers that are not handed out yet */
    struct as_http_header *rest;
    uint32_t rest_cap;
    struct as_http_pieces pieces; /* of the answer */
    struct as_http_header inline_rest[AS_H1_INLINE_REST];
    struct as_http_piece inline_pieces[AS_H1_INLINE_PIECES];
    uint8_t inline_in[AS_H1_INLINE_IN];
    uint8_t inline_out[AS_H1_INLINE_OUT];
};

/* h1_head.c. Reads bytes of the request line, of fields or of trailers, and may change the state.
 * Returns the number of bytes consumed. */
size_t as_h1_read_line(struct as_h1 *h, const uint8_t *p, size_t n);

/* h1.c. The head is complete and valid: calls on_request and goes on to the body. */
void as_h1_start_request(struct as_h1 *h);
/* The body is complete: calls on_end. */
void as_h1_end_body(struct as_h1 *h);
/* The message is malformed: answers with an error if that is still possible, and reads nothing
 * more. The error text names `where` and, unless it is 0, `index` (where == NULL: neither). */
void as_h1_fail(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                const char *what);
void as_h1_next_request(struct as_h1 *h); /* if the current one is done */
/* Calls on_close for the open request, if there is one. */
void as_h1_close_request(struct as_h1 *h, uint32_t code);

/* h1_send.c. An error answer of this module, as JSON, with `connection: close`. */
void as_h1_put_error(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                     const char *what);
void as_h1_put_continue(struct as_h1 *h);
void as_h1_drop_pieces(struct as_h1 *h);

/* Makes room for n more bytes; false: out of memory. `first`: the inline block, never freed. */
bool as_h1_reserve(struct as_h1_bytes *b, size_t n, const uint8_t *first);

#endif
