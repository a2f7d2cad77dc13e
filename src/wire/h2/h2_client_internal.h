/* wire/h2/h2_client_internal.h — shared by the files of the HTTP/2 client; private to them.
 *
 *   h2_client.c           the connection and its streams, requests
 *   h2_client_send.c      frames to the server
 *   h2_client_receive.c   frames from the server
 *   h2_client_fields.c    header blocks: of requests encoded, of answers decoded
 *
 * The frames are handled here and not by a session of nghttp2, which takes ten times as many
 * instructions for a call: a client that measures a server must cost less than the server. Only the
 * compression of header fields (HPACK) of answers is nghttp2's.
 */
#ifndef AS_WIRE_H2_CLIENT_INTERNAL_H
#define AS_WIRE_H2_CLIENT_INTERNAL_H

#include "base/buf.h"
#include "base/container/list.h"
#include "wire/h2/h2_client.h"
#include "wire/h2/h2_internal.h"

#define AS_H2_CLIENT_FRAME_HEAD   9u
#define AS_H2_CLIENT_FRAME_MAX    16384u /* payload of a frame: the default, in both directions */
#define AS_H2_CLIENT_WINDOW_START 65535
#define AS_H2_CLIENT_ID_MAX       0x7fffffffu
#define AS_H2_CLIENT_NO_LENGTH    UINT64_MAX

struct as_h2_client_stream {
    struct as_list node;              /* in as_h2_client.open */
    struct as_list todo;              /* in .waiting, .sending or .resets, or in none of them */
    struct as_h2_client_stream *next; /* in the same bucket, or in as_h2_client.spare */
    void *call;
    uint32_t id;
    uint32_t code; /* of the reset */
    const struct as_str *body;
    uint32_t n_body;
    uint32_t piece;      /* the piece that is being sent */
    size_t piece_offset; /* bytes of that piece that are sent */
    size_t body_left;
    struct as_buf block;     /* the header block of the request; empty: that of as_h2_client.head */
    int64_t window;          /* bytes of the body that the server still accepts */
    uint64_t content_length; /* of the answer; AS_H2_CLIENT_NO_LENGTH: not given */
    uint64_t received;       /* bytes of the answer's body */
    size_t list_size;        /* size of the answer's fields so far */
    uint32_t unreturned;     /* received bytes for which the server got no new window yet */
    bool is_begun;           /* its HEADERS were sent */
    bool is_sent;            /* its END_STREAM was sent */
    bool has_head; /* the head of the final answer is complete: what follows are trailers */
    bool whole;    /* END_STREAM came */
    bool is_reset; /* by the owner, or because the answer broke a rule */
};

/* The head that requests of this connection repeat, in three encodings of the same fields. */
struct as_h2_client_head {
    uint32_t id;         /* as_http_client_request.head_id; 0: none yet */
    struct as_buf plain; /* means the same with any table */
    struct as_buf first; /* enters the fields into the server's table; empty: they have no room */
    struct as_buf next;  /* refers to these entries */
    bool is_entered;
};

/* Header blocks of answers that came before. Equal bytes mean the same fields until a block changes
 * the table, and only a literal with indexing or a new table size does so (RFC 7541 §6). */
#define AS_H2_CLIENT_BLOCKS       4u
#define AS_H2_CLIENT_BLOCK_MAX    64u
#define AS_H2_CLIENT_BLOCK_FIELDS 8u
struct as_h2_client_block {
    uint32_t n, n_fields;
    uint32_t used;      /* bytes of `text` */
    uint32_t list_size; /* of the fields */
    bool has_status;    /* begins with the status of a final answer */
    bool is_special;    /* the fields need more checks than those of most answers */
    uint8_t bytes[AS_H2_CLIENT_BLOCK_MAX];
    struct as_http_header fields[AS_H2_CLIENT_BLOCK_FIELDS]; /* in `text` */
    char text[256];
};

struct as_h2_client {
    struct as_h2_client_conf conf;
    const struct as_http_client_ops *ops;
    void *conn;
    struct as_list open;                 /* all streams */
    struct as_list waiting;              /* of these: the HEADERS are not sent, oldest first */
    struct as_list sending;              /* part of the body is not sent, and there is window */
    struct as_list resets;               /* RST_STREAM is not sent */
    struct as_h2_client_stream **bucket; /* by number of the stream */
    uint32_t n_buckets;                  /* a power of two */
    uint32_t n_open, n_begun;
    uint32_t next_id;
    struct as_h2_client_stream *last;  /* the one that was looked up last, or NULL */
    struct as_h2_client_stream *spare; /* records for the next requests */
    /* what the server allows */
    uint32_t max_streams;
    int64_t window, stream_window;
    bool has_no_table;  /* it wants a smaller table than the default: none is used, */
    bool is_table_told; /* which the next header block says */
    /* receiving */
    uint32_t unreturned;
    struct as_buf part; /* a frame of which the rest has not come */
    uint32_t block_id;  /* a header block that is not complete belongs to this stream; 0: none */
    bool block_ends;    /* END_STREAM came with it */
    bool has_status;    /* fields of the block: */
    bool has_regular;   /* one that is not a pseudo field */
    bool is_interim;    /* the status is 1xx */
    bool is_malformed;  /* the answer breaks a rule of HTTP */
    nghttp2_hd_inflater *inflater;
    uint32_t n_blocks;
    struct as_h2_client_block blocks[AS_H2_CLIENT_BLOCKS];
    /* sending */
    struct as_buf control; /* frames that go before all others */
    struct as_h2_client_head head;
    bool ready;  /* the server's SETTINGS have come */
    bool goaway; /* the server takes no new streams */
    bool over;   /* a GOAWAY with an error was queued: nothing more is read */
};

/* --- h2_client.c --- */

struct as_h2_client_stream *as_h2_client_find(struct as_h2_client *h, uint32_t id);
static inline struct as_h2_client_stream *as_h2_client_lookup(struct as_h2_client *h, uint32_t id)
{
    return h->last && h->last->id == id ? h->last : as_h2_client_find(h, id);
}
/* The owner gets on_close; s is no more. */
void as_h2_client_close(struct as_h2_client *h, struct as_h2_client_stream *s, uint32_t code);
/* on_close follows with the next send. */
void as_h2_client_abort(struct as_h2_client *h, struct as_h2_client_stream *s, uint32_t code);
/* Puts the stream where as_h2_client_send finds it, if it can send. */
void as_h2_client_resume(struct as_h2_client *h, struct as_h2_client_stream *s);

/* --- h2_client_send.c --- */

/* Appends a frame to as_h2_client.control; returns where its n bytes of payload belong. */
uint8_t *as_h2_client_control(struct as_h2_client *h, uint8_t type, uint8_t flags, uint32_t id,
                              size_t n);
/* The connection ends with this error. */
void as_h2_client_fail(struct as_h2_client *h, uint32_t code);

/* --- h2_client_fields.c --- */

/* Appends a header block that means the same with any table. */
void as_h2_client_encode_plain(struct as_buf *out, const struct as_http_header *f, uint32_t n);
void as_h2_client_encode_head(struct as_h2_client_head *head, const struct as_http_header *f,
                              uint32_t n);
/* Decodes the next n bytes of a block of stream s (NULL: it is no more). is_all: they are the whole
 * block. is_end: they end it. False: it cannot be decoded. */
bool as_h2_client_decode(struct as_h2_client *h, struct as_h2_client_stream *s, const uint8_t *p,
                         size_t n, bool is_all, bool is_end);

#endif
