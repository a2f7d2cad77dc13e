/* wire/h1/h1_internal.h — what the files of the HTTP/1.1 connection share; nobody else includes it.
 *
 * h1.c: the connection, its states and bodies; h1_head.c: request lines and fields; h1_send.c:
 * answers. One direction each has its state, since an answer may come before its request is whole:
 *
 *   reading:  LINE ─► FIELDS ─┬─► BODY ───────────────────────────┬─► WAIT ─► LINE (next request)
 *              ▲              ├─► SIZE ─► EXT ─► LF ─┬─► TRAILER ─┤
 *              │              │    ▲                 ▼            │
 *              │              │    └─ DATA_LF ◄ DATA_CR ◄ DATA    │     any ─► OVER: nothing more
 *              │              └─ no body ─────────────────────────┘            is read
 *   answer:   NONE ─► OPEN ─► GIVEN ─► OUT       NONE ─► GIVEN for one that is whole
 *
 * WAIT becomes LINE when the answer is OUT: all of it was taken by as_h1_send. What a request needs
 * lies in the connection and is used again for the next.
 */
#ifndef AS_WIRE_H1_PRIV_H
#define AS_WIRE_H1_PRIV_H

#include "wire/h1/h1.h"

#define AS_H1_INLINE_IN     2048 /* bytes of a head that take nothing from the heap */
#define AS_H1_INLINE_OUT    512
#define AS_H1_INLINE_REST   24
#define AS_H1_INLINE_PIECES 8
/* What is left of a body that nobody wants is read, to keep the connection, up to so many bytes. */
#define AS_H1_DISCARD_MAX 65536u

enum as_h1_state {
    AS_H1_LINE,
    AS_H1_FIELDS,
    AS_H1_BODY, /* of known length */
    AS_H1_SIZE, /* of a chunk */
    AS_H1_EXT,
    AS_H1_LF,
    AS_H1_DATA,
    AS_H1_DATA_CR,
    AS_H1_DATA_LF,
    AS_H1_TRAILER,
    AS_H1_WAIT,
    AS_H1_OVER
};

enum as_h1_answer_state {
    AS_H1_ANSWER_NONE,
    AS_H1_ANSWER_OPEN,
    AS_H1_ANSWER_COMPLETE,
    AS_H1_ANSWER_SENT
};

/* Bytes in a first block of the connection's, or on the heap when that is too small. */
struct as_h1_bytes {
    uint8_t *p;
    size_t n, cap;
};

/* What is known of the request that is read or answered; cleared for the next one. */
struct as_h1_request {
    void *req;                      /* the owner's pointer; NULL: none, or it was closed */
    enum as_h1_answer_state answer; /* of its answer */
    bool is_http10;                 /* HTTP/1.0 */
    bool is_head;                   /* its method */
    bool has_host, has_length, chunked;
    bool expects;            /* 100 Continue, which was not sent yet */
    bool bad_expect;         /* something else */
    bool is_absolute;        /* the target was; its authority is in `authority` */
    bool streamed;           /* an answer over time: its pieces are ours */
    bool in_chunks, no_body; /* how its answer goes out */
    bool drained_due;        /* on_drained is due */
    uint32_t n_fields;       /* or trailers */
    size_t list_size;
    struct as_str authority;
    uint64_t left;          /* of the body, or of its chunk */
    uint32_t n_size_digits; /* of the chunk's size */
    uint64_t n_chunks;
    size_t ext_bytes;     /* bytes of the chunk's extensions */
    size_t unread;        /* given to the owner, and not consumed */
    uint8_t *body_buffer; /* where the next bytes go; NULL: anywhere */
    size_t body_buffer_n;
    uint32_t piece, n_pieces; /* of the answer: [piece … n_pieces) wait */
    size_t piece_offset;      /* bytes of the first one that are out */
    size_t unsent;            /* bytes of all */
};

struct as_h1 {
    struct as_h1_conf conf;
    const struct as_http_ops *ops;
    void *conn;
    enum as_h1_state state;
    bool greeted;
    bool closing; /* no request is read behind this one */
    bool reset;   /* by the owner, to be carried out by the next as_h1_send */
    bool aborted; /* in the middle of an answer */
    const char *breach;
    as_ns now, head_since;
    uint32_t stream; /* number of the last request */
    uint64_t sent;   /* as_h1_bytes_sent */
    struct as_h1_request rq;
    struct as_http_head head;
    struct as_h1_bytes in;      /* the head; slices of `head` point here */
    size_t line;                /* where its last line begins */
    struct as_h1_bytes trailer; /* one line */
    struct as_h1_bytes text;    /* heads of answers that are not given out */
    struct as_http_header *rest;
    uint32_t rest_cap;
    struct as_http_piece *pieces;
    uint32_t pieces_cap;
    struct as_http_header inline_rest[AS_H1_INLINE_REST];
    struct as_http_piece inline_pieces[AS_H1_INLINE_PIECES];
    uint8_t inline_in[AS_H1_INLINE_IN];
    uint8_t inline_out[AS_H1_INLINE_OUT];
};

/* h1_head.c. Bytes of the request line, of fields, or of trailers; returns how many were taken. May
 * end in another state. */
size_t as_h1_read_line(struct as_h1 *h, const uint8_t *p, size_t n);

/* h1.c. The head is complete and sound: tells the owner, goes on to the body. */
void as_h1_start_request(struct as_h1 *h);
/* All of the body has come. */
void as_h1_end_body(struct as_h1 *h);
/* The message is wrong. `where` is printed with `index` in it (NULL: not said). */
void as_h1_fail(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                const char *what);
void as_h1_next_request(struct as_h1 *h); /* ready for a request, if the one before is done with */
/* The owner hears that its request is gone. */
void as_h1_close_request(struct as_h1 *h, uint32_t code);

/* h1_send.c. An error of ours, as JSON, with `connection: close`. */
void as_h1_put_error(struct as_h1 *h, uint32_t status, const char *where, uint64_t index,
                     const char *what);
void as_h1_put_continue(struct as_h1 *h);
void as_h1_drop_pieces(struct as_h1 *h);

/* Room for n more bytes; false: no memory. `first`: the block that is never freed. */
bool as_h1_reserve(struct as_h1_bytes *b, size_t n, const uint8_t *first);

#endif
