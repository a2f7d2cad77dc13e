/* wire/http/http.h — one HTTP request and its answer, whatever version of HTTP carries them.
 *
 * wire/h1/h1 and wire/h2/h2 both make a head of what a client sends, tell their owner by the same
 * callbacks, and take the same answers, so that nothing above needs to know which one it was.
 * Thread: that of the connection. No callback may free the connection.
 */
#ifndef AS_WIRE_HTTP_H
#define AS_WIRE_HTTP_H

#include "base/memory/outq.h"
#include "base/str.h"

#define AS_HTTP_NO_LENGTH UINT64_MAX

struct as_http_header {
    struct as_str name, value;
};

/* Headers of one request; slices live until the stream is closed. Names are in lower case. The
 * authority is that of :authority or else of Host; empty: the request has neither. */
struct as_http_head {
    struct as_str method, path, scheme, authority;
    struct as_str content_type, te, grpc_timeout, grpc_encoding;
    const struct as_http_header *rest; /* everything else, in order (includes user-agent) */
    uint32_t n_rest;
    bool end_stream; /* no body follows */
};

struct as_http_answer;

struct as_http_ops {
    /* A request's headers are complete. Returns the owner's pointer for the stream, that all later
     * calls get; NULL: it has answered or reset the stream and wants to hear no more of it.
     * Malformed requests and those over a limit never come here. */
    void *(*on_request)(void *conn, uint32_t stream, const struct as_http_head *head);
    void (*on_data)(void *conn, void *req, const uint8_t *p, size_t n);
    /* The client's message is complete; once; also for end_stream. Neither this nor on_data comes
     * after the stream was answered or reset by the owner. */
    void (*on_end)(void *conn, void *req);
    /* The stream is gone: answered, reset by either side (code: RFC 9113 error, 0 none), or the
     * connection is being freed. Exactly once per on_request; the owner forgets the stream. */
    void (*on_close)(void *conn, void *req, uint32_t code);
    /* What was written of an open answer is sent, but for a bounded rest: there is room for more.
     * May be NULL without open answers. */
    void (*on_drained)(void *conn, void *req);
    /* A request whose headers are over a limit: fills the answer, 431 without it. Fields up to the
     * limit are in the head; those of the answer must live until the caller returns to its loop.
     * May be NULL. */
    void (*on_over_limit)(void *conn, const struct as_http_head *head, struct as_http_answer *a);
};

/* An answer. Slices of headers and trailers (names in lower case) are copied before the call
 * returns. Body: pieces sent in order; their bytes must stay valid until on_close, or until the
 * bytes are written when `owner` is set (a reference is taken when they are queued).
 * HTTP/2: n_trailers > 0 makes END_STREAM travel on a trailing HEADERS; without body and trailers
 * one HEADERS with END_STREAM; if the client has not ended its side, the stream is reset with
 * NO_ERROR after the answer. */
struct as_http_piece {
    const uint8_t *p;
    size_t n;
    struct as_blob *owner; /* NULL: copied when sent */
};
struct as_http_answer {
    uint32_t status;
    const struct as_http_header *headers;
    uint32_t n_headers;
    const struct as_http_piece *body; /* the array is copied, the bytes are not */
    uint32_t n_body;
    const struct as_http_header *trailers;
    uint32_t n_trailers;
};

/* n bytes of a piece from `at` on go to q. A slice of a blob below the bound is cheaper to copy
 * than to carry as an iovec of its own. */
#define AS_HTTP_REF_MIN 8192u
static inline void as_http_append_piece(struct as_outq *q, const struct as_http_piece *piece,
                                        size_t at, size_t n)
{
    if (piece->owner && n >= AS_HTTP_REF_MIN)
        as_outq_ref(q, piece->owner, piece->p + at, n);
    else
        as_outq_copy(q, piece->p + at, n);
}

#endif
