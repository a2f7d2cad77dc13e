/* wire/h2/h2_internal.h — shared by the files of the HTTP/2 wrapper; private to them.
 *
 *   h2.c                 the connection and its stream records
 *   h2_receive.c         nghttp2's callbacks for received frames
 *   h2_send.c            nghttp2's callbacks for sent frames; answers
 *   h2_rules.c           HTTP's rules on the fields and the length of a request
 *   h2_streamed_body.c   answers whose body comes over time
 *   h2_request_cache.c   request heads that came before
 *   h2_response_cache.c  header blocks that were sent before
 *   h2_memory.c          the allocator of nghttp2
 *
 * A stream's record lives from its first header to on_stream_close, and is then used for the next
 * stream. Headers, trailers and body pieces are stored in the record as far as they fit, so that an
 * ordinary request allocates nothing.
 */
#ifndef AS_WIRE_H2_INTERNAL_H
#define AS_WIRE_H2_INTERNAL_H

#include "base/container/list.h"
#include "base/memory/arena.h"
#include "wire/h2/h2.h"
#include "wire/h2/h2_rules.h"
#include "wire/http/pieces.h"

#include <nghttp2/nghttp2.h>

/* Under AddressSanitizer no memory is kept for reuse, so that every use after free is found. */
#if defined(__SANITIZE_ADDRESS__)
#define AS_H2_RECYCLE 0u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AS_H2_RECYCLE 0u
#endif
#endif
#ifndef AS_H2_RECYCLE
#define AS_H2_RECYCLE 1u
#endif

#define AS_H2_INLINE_MEM     1024
#define AS_H2_INLINE_REST    16
#define AS_H2_INLINE_PIECES  4
#define AS_H2_FREE_MAX       (128 * AS_H2_RECYCLE) /* free stream records per connection */
#define AS_H2_MEMORY_CLASSES 16
#define AS_H2_MEMORY_MAX     (((size_t)128 << 10) * AS_H2_RECYCLE) /* free bytes per connection */

/* Free blocks of nghttp2, by size: nghttp2 allocates and frees about ten per request. */
struct as_h2_memory {
    struct as_h2_memory_block *free[AS_H2_MEMORY_CLASSES];
    size_t free_bytes;  /* bytes in all of these lists */
    bool growth_failed; /* a realloc failed: the session is over, and blocks go to `deferred` */
    struct as_h2_memory_block *deferred;
    nghttp2_mem mem;
};

void as_h2_memory_init(struct as_h2_memory *p);
void as_h2_memory_fini(struct as_h2_memory *p);

/* The body of an answer that comes over time. */
struct as_h2_streamed_body {
    struct as_list drained; /* in as_h2.drained: on_drained must be called */
    struct as_h2_stream *s;
    struct as_http_pieces pieces;
    bool is_deferred; /* nghttp2 had no bytes to send and does not ask until it is resumed */
    bool finished;
};

/* How the head of a stream's answer is encoded. */
enum as_h2_head_encoding {
    AS_H2_HEAD_BY_NGHTTP2, /* by nghttp2 */
    AS_H2_HEAD_LEARNING,   /* by nghttp2, and the response cache remembers the result */
    AS_H2_HEAD_CACHED,     /* by the response cache: nghttp2 gets no fields */
};

struct as_h2_stream {
    struct as_list node;       /* in as_h2.open */
    struct as_h2_stream *next; /* in as_h2.free */
    uint32_t id;
    as_ns began;
    void *req;       /* the owner's pointer; NULL: on_request was not called */
    bool ended;      /* the client has sent END_STREAM */
    bool answered;   /* by the owner or by this module, or reset; only on_close follows */
    bool reset;      /* reset by the owner or by this module, not for a fault of the client */
    bool cancelled;  /* by the client's RST_STREAM */
    bool early;      /* answered before the client has ended its side; counted in as_h2.n_early */
    bool last_frame; /* the last DATA frame has begun: the stream needs no window any more */
    bool over_limit; /* the headers are above a limit: further fields are not stored */
    bool no_memory;  /* the same for lack of memory */
    char status[3];

    struct as_h2_cached_request *cached_request; /* has the head's fields; NULL: they are here */
    struct as_h2_rules rules;
    struct as_http_head head;
    uint32_t n_fields;
    uint32_t rest_cap;
    size_t list_size;

    struct as_http_pieces pieces; /* of an answer that was given at once */
    size_t body_left;
    uint64_t body_sent;
    nghttp2_nv *trailers;
    uint32_t n_trailers;
    enum as_h2_head_encoding head_encoding;
    bool cached_trailers; /* the response cache writes the trailers, not nghttp2 */

    struct as_h2_streamed_body *streamed; /* NULL: the answer does not come over time */

    struct as_arena arena; /* over `mem` */
    struct as_http_header inline_rest[AS_H2_INLINE_REST];
    struct as_http_piece inline_pieces[AS_H2_INLINE_PIECES];
    uint8_t mem[AS_H2_INLINE_MEM] __attribute__((aligned(16)));
};

/* Header blocks of answers that nghttp2 need not encode again: h2_response_cache.c. */
#define AS_H2_CACHED_BLOCK_FIELDS 4u
struct as_h2_cached_block {
    bool is_known;    /* `block` is what nghttp2 encodes the text as */
    bool is_learning; /* the next frame, of `stream`, shows how nghttp2 encodes it */
    uint32_t stream;
    uint8_t n_text; /* number of fields in the text, and of bytes in the block; 0: empty */
    uint8_t block[AS_H2_CACHED_BLOCK_FIELDS];
    uint8_t name_len[AS_H2_CACHED_BLOCK_FIELDS], value_len[AS_H2_CACHED_BLOCK_FIELDS];
    size_t used;    /* bytes used in `text` */
    char text[112]; /* names and values, one after the other */
};
struct as_h2_response_cache {
    bool settings_changed; /* the client has sent SETTINGS, and no header block was sent since */
    bool head_is_next; /* the next frame, of head.stream, is to be filled with the cached head */
    uint32_t n_heads_pending; /* streams with the text of `head` that are not encoded yet */
    struct as_h2_cached_block head, trailers; /* of answers */
};

/* The header block that the requests of this connection repeat: h2_request_cache.c. */
#define AS_H2_REQUEST_BLOCK_MAX 192u
struct as_h2_request_cache {
    struct as_h2_cached_request *request; /* the fields of `block`; NULL: it came only once */
    bool is_hit; /* nghttp2 is reading a frame with this block, whose bytes were left out … */
    bool is_learning; /* … or with its bytes, because it came for the second time */
    uint8_t n;        /* bytes of the block; 0: there is none */
    uint8_t block[AS_H2_REQUEST_BLOCK_MAX];
};

struct as_h2 {
    nghttp2_session *session;
    struct as_h2_conf conf;
    const struct as_http_ops *ops;
    void *conn;
    struct as_list open;       /* all stream records in use */
    struct as_h2_stream *last; /* the record that was looked up last; NULL: it was freed */
    struct as_h2_stream *free;
    uint32_t n_free;
    uint32_t n_early;
    uint32_t n_open; /* records in `open` */
    struct as_h2_guard guard;
    as_ns now;                /* time of the last as_h2_recv */
    enum as_h2_breach breach; /* why the client gets a GOAWAY */
    bool ended_by_owner;      /* by as_h2_enhance_your_calm */
    size_t unreturned;        /* consumed bytes that the next send gives back to the connection */
    struct as_list drained;   /* streamed bodies whose owner may write more */
    bool dead;                /* the session must not be used any more */
    bool over;                /* a GOAWAY with an error was sent */
    struct as_h2_request_cache request_cache;
    struct as_h2_response_cache response_cache;
    struct as_outq *q; /* where as_h2_send puts bytes; NULL outside of it */
    size_t max;        /* and up to how many may wait there */
    struct as_h2_memory memory;
};

struct as_h2_stream *as_h2_stream_new(struct as_h2 *h, uint32_t id); /* NULL: out of memory */
void as_h2_stream_free(struct as_h2 *h, struct as_h2_stream *s);

/* After the guard or a callback has found a breach: sends a GOAWAY, once. */
void as_h2_check_guard(struct as_h2 *h);

/* The record of an open stream, or NULL. */
static inline struct as_h2_stream *as_h2_find_stream(struct as_h2 *h, int32_t id)
{
    if (h->last && h->last->id == (uint32_t)id)
        return h->last;
    h->last = nghttp2_session_get_stream_user_data(h->session, id);
    return h->last;
}

/* n bytes that live until the stream is closed; NULL: out of memory. */
static inline void *as_h2_alloc(struct as_h2_stream *s, size_t n, size_t align)
{
    size_t pad = -(uintptr_t)s->arena.p & (align - 1);

    if (n <= AS_H2_INLINE_MEM && pad + n <= (size_t)(s->arena.end - s->arena.p)) {
        uint8_t *p = s->arena.p + pad;

        s->arena.p = p + n;
        return p;
    }
    return as_arena_alloc(&s->arena, n, align);
}

/* memcpy without a call, for the usual lengths of header fields. */
static inline void as_h2_copy_bytes(char *to, const char *from, size_t n)
{
    if (n > 32) {
        memcpy(to, from, n);
    } else if (n >= 16) {
        memcpy(to, from, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

/* A copy that lives until the stream is closed; p is NULL if there is no memory. */
static inline struct as_str as_h2_store(struct as_h2_stream *s, struct as_str from)
{
    char *p = as_h2_alloc(s, from.n, 1);

    if (p)
        as_h2_copy_bytes(p, from.p, from.n);
    return (struct as_str){p, from.n};
}

/* Appends the next n bytes of a streamed body to h->q. */
void as_h2_streamed_body_append(struct as_h2 *h, struct as_h2_stream *s, size_t n);
void as_h2_streamed_body_free(struct as_h2_stream *s);
void as_h2_streamed_body_notify(struct as_h2 *h); /* calls on_drained for h->drained */
bool as_h2_copy_trailers(struct as_h2_stream *s, const struct as_http_header *trailers, uint32_t n);
int as_h2_submit_answer(struct as_h2 *h, struct as_h2_stream *s, const struct as_http_answer *a,
                        bool has_body);
/* True: the head of the answer is cached, so nghttp2 gets no fields for it. The answer must have a
 * body. */
bool as_h2_response_cache_use_head(struct as_h2 *h, struct as_h2_stream *s,
                                   const struct as_http_answer *a);
/* nghttp2 has encoded the head of an answer; the next as_h2_response_cache_put_frame gets its
 * frame. */
void as_h2_response_cache_head_encoded(struct as_h2 *h, struct as_h2_stream *s);
/* The head of the stream's answer is encoded, or never will be. */
static inline void as_h2_response_cache_release_head(struct as_h2 *h, struct as_h2_stream *s)
{
    h->response_cache.n_heads_pending -= s->head_encoding != AS_H2_HEAD_BY_NGHTTP2;
    s->head_encoding = AS_H2_HEAD_BY_NGHTTP2;
}
/* True: the stream's trailers are cached, and as_h2_response_cache_put_trailers can write their
 * frame to h->q. */
bool as_h2_response_cache_has_trailers(const struct as_h2 *h, const struct as_h2_stream *s);
void as_h2_response_cache_put_trailers(struct as_h2 *h, const struct as_h2_stream *s);
/* nghttp2 has encoded these trailers; the next as_h2_response_cache_put_frame gets their frame. */
void as_h2_response_cache_learn_trailers(struct as_h2 *h, const struct as_h2_stream *s);
/* Writes a frame of nghttp2 to h->q: every frame except DATA comes through here. */
void as_h2_response_cache_put_frame(struct as_h2 *h, const uint8_t *frame, size_t n);
/* Passes n bytes from the client to nghttp2. The first `skip` of them end a frame that began
 * before; SIZE_MAX: it is not known where the next frame begins. False: the session is over. */
bool as_h2_request_cache_receive(struct as_h2 *h, const uint8_t *p, size_t n, size_t skip);
/* A stream has begun with the cached block: it gets the cached fields. */
void as_h2_request_cache_apply(struct as_h2 *h, struct as_h2_stream *s);
/* Caches the fields of s, whose block came for the second time. */
void as_h2_request_cache_learn(struct as_h2 *h, const struct as_h2_stream *s);
/* True: the header block does not change the compression table. False also if it is malformed. */
bool as_h2_request_cache_is_cacheable(const uint8_t *block, size_t n);
void as_h2_request_cache_clear(struct as_h2_request_cache *m);
void as_h2_cached_request_unref(struct as_h2_cached_request *k); /* k may be NULL */
void as_h2_mark_early(struct as_h2 *h, struct as_h2_stream *s);

void as_h2_set_receive_callbacks(nghttp2_session_callbacks *cb);
void as_h2_set_send_callbacks(nghttp2_session_callbacks *cb);

#endif
