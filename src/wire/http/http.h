/* wire/http/http.h — one HTTP request and its answer, independent of the version of HTTP.
 *
 * wire/h1 and wire/h2 parse requests into the same head, report events through the same callbacks
 * and accept the same answers, so code above them does not depend on the version.
 * Thread: that of the connection. No callback may free the connection.
 */
#ifndef AS_WIRE_HTTP_H
#define AS_WIRE_HTTP_H

#include "base/memory/outq.h"
#include "base/str.h"

struct as_http_header {
    struct as_str name, value;
};

/* Headers of one request; slices live until the stream is closed. Names are in lower case. The
 * authority is that of :authority, or else of Host; it is empty if the request has neither. */
struct as_http_head {
    struct as_str method, path, scheme, authority;
    struct as_str content_type, te, grpc_timeout, grpc_encoding;
    const struct as_http_header *rest; /* all other headers, in order (user-agent is one) */
    uint32_t n_rest;
    bool end_stream;      /* no body follows */
    bool wants_websocket; /* HTTP/1.1: upgrade: websocket; HTTP/2: CONNECT with :protocol */
};

struct as_http_answer;

struct as_http_ops {
    /* The headers of a request are complete. Returns the owner's pointer for the stream, which all
     * later calls get; NULL: the owner has answered or reset the stream, and gets no further calls
     * for it. Not called for malformed requests and for those above a limit. */
    void *(*on_request)(void *conn, uint32_t stream, const struct as_http_head *head);
    void (*on_data)(void *conn, void *req, const uint8_t *p, size_t n);
    /* The request is complete; called once, also if end_stream was set. Neither on_end nor on_data
     * is called after the owner has answered or reset the stream. */
    void (*on_end)(void *conn, void *req);
    /* The stream is closed: it was answered, or reset by either side (code: an error code of RFC
     * 9113, 0 for none), or the connection is being freed. Called exactly once per on_request; the
     * owner must not use the stream afterwards. */
    void (*on_close)(void *conn, void *req, uint32_t code);
    /* Most of what was written of a streamed answer is sent: the owner may write more. May be NULL
     * if the owner streams no answers. */
    void (*on_drained)(void *conn, void *req);
    /* The headers of a request are above a limit: fills in the answer; without this callback the
     * answer is 431. The head has the fields up to the limit; the answer's slices must stay valid
     * until the caller returns to its loop. May be NULL. */
    void (*on_over_limit)(void *conn, const struct as_http_head *head, struct as_http_answer *a);
};

/* An answer. A request with wants_websocket may be answered, by the functions that begin an answer,
 * with 101 (HTTP/1.1) or 200 (HTTP/2): on_data then gets what the client sends, after on_end, and
 * what is written goes to the client as it is, until the answer is finished. Headers and trailers
 * (names in lower case) are copied before the call returns. The pieces of the body are sent in
 * order; their bytes must stay valid until on_close, or, if `owner` is set, until they are written
 * (a reference is taken when they are queued). HTTP/2: with n_trailers > 0 a HEADERS frame with the
 * trailers carries END_STREAM; an answer without body and trailers is one HEADERS frame with
 * END_STREAM. If the client has not ended its side, the stream is reset with NO_ERROR after the
 * answer. */
struct as_http_piece {
    const uint8_t *p;
    size_t n;
    struct as_blob *owner; /* NULL: the bytes are copied when they are sent */
};
struct as_http_answer {
    uint32_t status;
    const struct as_http_header *headers;
    uint32_t n_headers;
    const struct as_http_piece *body; /* the array is copied, the bytes are not */
    uint32_t n_body;
    const struct as_http_header *trailers;
    uint32_t n_trailers;
    /* An answer whose body comes over time has a body of this many bytes, exactly, and its headers
     * say so: HTTP/1.1 sends it without chunks. The owner resets what it cannot complete. */
    bool has_length;
    uint64_t length;
};

/* Appends n bytes of a piece, from offset `at` on, to q. Slices shorter than AS_HTTP_REF_MIN are
 * copied, which is cheaper than an iovec of their own. */
#define AS_HTTP_REF_MIN 8192u
static inline void as_http_append_piece(struct as_outq *q, const struct as_http_piece *piece,
                                        size_t at, size_t n)
{
    if (piece->owner && n >= AS_HTTP_REF_MIN)
        as_outq_ref(q, piece->owner, piece->p + at, n);
    else
        as_outq_copy(q, piece->p + at, n);
}

/* The member of the head that holds this field of either version of HTTP, or NULL. */
static inline struct as_str *as_http_head_field(struct as_http_head *head, struct as_str name)
{
    switch (name.n) {
    case 2:
        return memcmp(name.p, "te", 2) == 0 ? &head->te : NULL;
    case 12:
        if (memcmp(name.p, "content-type", 12) == 0)
            return &head->content_type;
        return memcmp(name.p, "grpc-timeout", 12) == 0 ? &head->grpc_timeout : NULL;
    case 13:
        return memcmp(name.p, "grpc-encoding", 13) == 0 ? &head->grpc_encoding : NULL;
    default:
        return NULL;
    }
}

/* A field of head->rest by its name in lower case, the first one; empty: there is none. */
static inline struct as_str as_http_head_find(const struct as_http_head *head, struct as_str name)
{
    for (uint32_t i = 0; i < head->n_rest; i++) {
        if (as_str_eq(head->rest[i].name, name))
            return head->rest[i].value;
    }
    return (struct as_str){0};
}

static inline uint32_t as_http_head_count(const struct as_http_head *head, struct as_str name)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < head->n_rest; i++)
        n += as_str_eq(head->rest[i].name, name);
    return n;
}

#endif
