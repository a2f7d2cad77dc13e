/* wire/h2/h2_internal.h — what the files of the HTTP/2 wrapper share; nobody else includes it.
 *
 * h2.c: the connection and its stream records; h2_recv.c, h2_send.c: nghttp2's callbacks for the
 * two directions; h2_rules.c: HTTP's rules on what h2_recv.c takes; h2_later.c: answers that come
 * over time; h2_head.c: request heads that came before; h2_said.c: header blocks that were sent
 * before; h2_mem.c: nghttp2's memory. A stream's record lives from its first header to
 * on_stream_close and is then used for the next stream. It keeps headers, trailers and body pieces
 * in itself as far as they fit, so that a usual request allocates nothing.
 */
#ifndef AS_WIRE_H2_PRIV_H
#define AS_WIRE_H2_PRIV_H

#include "base/memory/arena.h"
#include "base/list.h"
#include "wire/h2/h2.h"
#include "wire/h2/h2_rules.h"

#include <nghttp2/nghttp2.h>

/* Under AddressSanitizer nothing is kept for the next use, so that it sees every use after free. */
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
#define AS_H2_FREE_MAX       (128 * AS_H2_RECYCLE) /* stream records kept by one connection */
#define AS_H2_MEMORY_CLASSES 16
#define AS_H2_MEMORY_MAX     (((size_t)128 << 10) * AS_H2_RECYCLE) /* bytes kept by one connection */

/* Small blocks that nghttp2 gave back, by size: it takes and frees about ten per request. */
struct as_h2_memory {
    struct as_h2_memory_block *free[AS_H2_MEMORY_CLASSES];
    size_t free_bytes;  /* bytes in all lists */
    bool growth_failed; /* growth failed: the session is over, and what it frees is deferred */
    struct as_h2_memory_block *deferred;
    nghttp2_mem mem;
};

void as_h2_memory_init(struct as_h2_memory *p);
void as_h2_memory_fini(struct as_h2_memory *p);

/* The body of an answer that comes over time: pieces[first … n) wait. */
struct as_h2_streamed_body {
    struct as_list drained; /* in as_h2.drained: on_drained is due */
    struct as_h2_stream *s;
    struct as_http_piece *pieces;
    uint32_t first, n, cap;
    size_t at;        /* bytes of the first one already sent */
    bool is_deferred; /* nghttp2 has stopped asking */
    bool finished;
};

/* How a stream's answer began. */
enum as_h2_head_encoding {
    AS_H2_HEAD_BY_NGHTTP2, /* by nghttp2 */
    AS_H2_HEAD_LEARNING,   /* … with the fields of the memo */
    AS_H2_HEAD_CACHED,     /* by nghttp2 without fields: they are the memo's */
};

struct as_h2_stream {
    struct as_list node;       /* in as_h2.open */
    struct as_h2_stream *next; /* in as_h2.free */
    uint32_t id;
    as_ns began;
    void *req;       /* the owner's pointer; NULL: on_request was not called */
    bool ended;      /* the client has sent END_STREAM */
    bool answered;   /* by the owner or by us, or reset; nothing but on_close follows */
    bool reset;      /* by us, on purpose */
    bool cancelled;  /* by the client's RST_STREAM */
    bool early;      /* answered before the client ended: counted in as_h2.n_early */
    bool last_frame; /* the frame that ends the body has begun: no window is needed any more */
    bool over_limit; /* headers above a limit: the rest of the block is not stored */
    bool no_memory;  /* the same for want of memory */
    char status[3];

    struct as_h2_cached_request
        *cached_request; /* holds the head's fields, or NULL: the stream does */
    struct as_h2_rules rules;
    struct as_http_head head;
    uint32_t n_fields;
    uint32_t rest_cap;
    size_t list_size;

    const struct as_http_piece *pieces;
    uint32_t piece;      /* the one being sent */
    size_t piece_offset; /* bytes of it already sent */
    size_t body_left;
    uint64_t body_sent;
    nghttp2_nv *trailers;
    uint32_t n_trailers;
    enum as_h2_head_encoding head_encoding;
    bool cached_trailers; /* the trailers go out behind the frame that nghttp2 takes for the last
                             one */

    struct as_h2_streamed_body *streamed; /* an answer that comes over time, or NULL */

    struct as_arena arena; /* over mem */
    struct as_http_header inline_rest[AS_H2_INLINE_REST];
    struct as_http_piece inline_pieces[AS_H2_INLINE_PIECES];
    uint8_t mem[AS_H2_INLINE_MEM] __attribute__((aligned(16)));
};

/* Header blocks of this connection that need no packing any more: h2_said.c. */
#define AS_H2_CACHED_BLOCK_FIELDS 4u
struct as_h2_cached_block {
    bool is_known;    /* the block is how nghttp2 packs the text */
    bool is_learning; /* the next frame has these fields, of `stream` */
    uint32_t stream;
    uint8_t n_text; /* fields of the text, and bytes of the block; 0: there is none */
    uint8_t block[AS_H2_CACHED_BLOCK_FIELDS];
    uint8_t name_len[AS_H2_CACHED_BLOCK_FIELDS], value_len[AS_H2_CACHED_BLOCK_FIELDS];
    size_t used;    /* bytes of the text */
    char text[112]; /* names and values, one behind the other */
};
struct as_h2_response_cache {
    bool settings_changed; /* the client has sent SETTINGS, and no header block of ours followed */
    bool head_is_next; /* the next frame, of the stream lead.from, is to be filled with the lead */
    uint32_t n_heads_pending; /* streams with the lead's text that are not packed yet */
    struct as_h2_cached_block head, trailers; /* an answer's head, and trailers */
};

/* The header block that requests of this connection repeat: h2_head.c. */
#define AS_H2_REQUEST_BLOCK_MAX 192u
struct as_h2_request_cache {
    struct as_h2_cached_request *request; /* its fields; NULL: it came once */
    bool is_hit;                          /* nghttp2 reads such a frame, without its bytes … */
    bool is_learning;                     /* … or with them, and it comes for the second time */
    uint8_t n;                            /* bytes of it; 0: there is none */
    uint8_t block[AS_H2_REQUEST_BLOCK_MAX];
};

struct as_h2 {
    nghttp2_session *session;
    struct as_h2_conf conf;
    const struct as_http_ops *ops;
    void *conn;
    struct as_list open;       /* every stream record in use */
    struct as_h2_stream *last; /* the one looked up last; NULL when it is gone */
    struct as_h2_stream *free;
    uint32_t n_free;
    uint32_t n_early;
    uint32_t n_open; /* records in `open` */
    struct as_h2_guard guard;
    as_ns now;                /* of the last as_h2_recv */
    enum as_h2_breach breach; /* why the client hears a GOAWAY */
    bool ended_by_owner;      /* by the owner */
    size_t unreturned;        /* bytes to give back to the connection's window with the next send */
    struct as_list drained;   /* open answers whose owner may write more */
    bool dead;                /* the session must not be used any more */
    bool over;                /* a GOAWAY with an error was sent */
    struct as_h2_request_cache request_cache;
    struct as_h2_response_cache response_cache;
    struct as_outq *q; /* where as_h2_send puts bytes; NULL outside of it */
    size_t max;        /* and until how many wait there */
    struct as_h2_memory memory;
};

struct as_h2_stream *as_h2_stream_new(struct as_h2 *h, uint32_t id); /* NULL: out of memory */
void as_h2_stream_free(struct as_h2 *h, struct as_h2_stream *s);

/* After the guard or nghttp2's callbacks found a breach: tells the client, once. */
void as_h2_check_guard(struct as_h2 *h);

/* The record of an open stream, or NULL. */
static inline struct as_h2_stream *as_h2_find_stream(struct as_h2 *h, int32_t id)
{
    if (h->last && h->last->id == (uint32_t)id)
        return h->last;
    h->last = nghttp2_session_get_stream_user_data(h->session, id);
    return h->last;
}

/* n bytes that live until the stream is closed; NULL when memory is out. */
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

/* memcpy for the lengths of header fields, without a call. */
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

/* A copy that lives until the stream is closed; p is NULL when memory is out. */
static inline struct as_str as_h2_store(struct as_h2_stream *s, struct as_str from)
{
    char *p = as_h2_alloc(s, from.n, 1);

    if (p)
        as_h2_copy_bytes(p, from.p, from.n);
    return (struct as_str){p, from.n};
}

/* Takes n bytes of an open answer's body to h->q. */
void as_h2_streamed_body_append(struct as_h2 *h, struct as_h2_stream *s, size_t n);
void as_h2_streamed_body_free(struct as_h2_stream *s);
void as_h2_streamed_body_notify(struct as_h2 *h); /* on_drained to all that it is due to */
bool as_h2_copy_trailers(struct as_h2_stream *s, const struct as_http_header *trailers, uint32_t n);
int as_h2_submit_answer(struct as_h2 *h, struct as_h2_stream *s, const struct as_http_answer *a,
                        const nghttp2_data_provider *body);
/* The last frame of a body: trailers, if there are any, follow. 0 or nghttp2's error. */
int as_h2_end_body(struct as_h2 *h, struct as_h2_stream *s, uint32_t *flags);
/* Is the answer's head known? Then nghttp2 is given no fields for it; it has to have a body. */
bool as_h2_response_cache_use_head(struct as_h2 *h, struct as_h2_stream *s,
                                   const struct as_http_answer *a);
/* nghttp2 has packed the head of an answer; the next as_h2_response_cache_put_frame brings its
 * frame. */
void as_h2_response_cache_head_encoded(struct as_h2 *h, struct as_h2_stream *s);
/* The stream's head is packed, or never will be. */
static inline void as_h2_response_cache_release_head(struct as_h2 *h, struct as_h2_stream *s)
{
    h->response_cache.n_heads_pending -= s->head_encoding != AS_H2_HEAD_BY_NGHTTP2;
    s->head_encoding = AS_H2_HEAD_BY_NGHTTP2;
}
/* Can the stream's trailers go out by as_h2_response_cache_put_trailers, which writes their frame
 * to h->q? */
bool as_h2_response_cache_has_trailers(const struct as_h2 *h, const struct as_h2_stream *s);
void as_h2_response_cache_put_trailers(struct as_h2 *h, const struct as_h2_stream *s);
/* nghttp2 has packed these trailers; the next as_h2_response_cache_put_frame brings their frame. */
void as_h2_response_cache_learn_trailers(struct as_h2 *h, const struct as_h2_stream *s);
/* Every frame that nghttp2 has packed, but for DATA, goes to h->q. */
void as_h2_response_cache_put_frame(struct as_h2 *h, const uint8_t *frame, size_t n);
/* n bytes from the client go to nghttp2. The first `skip` of them end a frame that began before;
 * SIZE_MAX: it is not known where one begins. False: the session is over. */
bool as_h2_request_cache_receive(struct as_h2 *h, const uint8_t *p, size_t n, size_t skip);
/* A stream has begun with the known block: gets its fields. */
void as_h2_request_cache_apply(struct as_h2 *h, struct as_h2_stream *s);
/* The fields of s, which are those of the block that came twice, are kept. */
void as_h2_request_cache_learn(struct as_h2 *h, const struct as_h2_stream *s);
/* Does this header block leave the compression table as it is? False when it is malformed, too. */
bool as_h2_request_cache_is_cacheable(const uint8_t *block, size_t n);
void as_h2_request_cache_clear(struct as_h2_request_cache *m);
void as_h2_cached_request_unref(struct as_h2_cached_request *k); /* NULL: nothing */
void as_h2_mark_early(struct as_h2 *h, struct as_h2_stream *s);

void as_h2_set_receive_callbacks(nghttp2_session_callbacks *cb);
void as_h2_set_send_callbacks(nghttp2_session_callbacks *cb);

#endif
