/* wire/h1/h1_client.h — one HTTP/1.1 client connection without a socket: requests in, answers out.
 *
 * The twin of wire/h2/h2_client.h for HTTP/1.1: the same requests and events
 * (wire/http/http_client.h), one request at a time, never pipelined. Strict where two readers could
 * disagree about where an answer ends (RFC 9112: CRLF only, no obs-fold, one content-length or
 * `chunked` alone); such an answer ends the connection. Answers of HTTP/1.0 and those that end with
 * the connection are read. The server's bytes are hostile; how large a body may grow is the owner's
 * to bound. Thread: that of the connection.
 */
#ifndef AS_WIRE_H1_CLIENT_H
#define AS_WIRE_H1_CLIENT_H

#include "base/memory/outq.h"
#include "wire/http/http_client.h"

struct as_h1_client;

struct as_h1_client_conf {
    uint32_t max_line;         /* bytes of a status line */
    uint32_t max_header_bytes; /* name + value + 32 summed, of one answer, trailers included */
    uint32_t max_headers;      /* count of them */
    uint32_t max_chunk_ext;    /* bytes of the extensions of one chunk */
};

#define AS_H1_CLIENT_INTERIM_MAX 8u /* most interim answers (1xx) to one request */

int as_h1_client_new(struct as_h1_client **ret_h, const struct as_h1_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn);
void as_h1_client_free(struct as_h1_client *h); /* on_close(CANCEL) for the open request first */

/* Received bytes. 0, or AS_EPROTO: the connection is over, as_h1_client_why says why. What follows
 * an answer after which nothing may come is dropped. */
int as_h1_client_recv(struct as_h1_client *h, const uint8_t *p, size_t n);
/* The server has closed its side: ends an answer that has no other end. */
void as_h1_client_eof(struct as_h1_client *h);
/* Appends to q what is ready, while q->bytes < max. AS_EPROTO as above. */
int as_h1_client_send(struct as_h1_client *h, struct as_outq *q, size_t max);
bool as_h1_client_wants_write(const struct as_h1_client *h);
/* A status line has come: it speaks HTTP/1. */
bool as_h1_client_ready(const struct as_h1_client *h);
/* Nothing more to read or write: close the socket. */
bool as_h1_client_done(const struct as_h1_client *h);
/* A request may be started now. */
bool as_h1_client_usable(const struct as_h1_client *h);
/* Why it is over, a static phrase ("the server closes after each answer"); NULL: it is not. */
const char *as_h1_client_why(const struct as_h1_client *h);

/* Starts a request; content-length is added where there is a body, or the method is not GET or
 * HEAD. The bytes of the body, and the array of its pieces, must stay valid until on_close;
 * everything else need not. 0; AS_EAGAIN: one is under way; AS_EUNAVAILABLE: the connection takes
 * no more; AS_EINVALID: a name or value cannot be written as a header. */
int as_h1_client_request(struct as_h1_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream);
/* Gives the request up, and the connection with it; its on_close follows from a later send, or from
 * the recv that brings the rest of its answer: then the connection stays. */
void as_h1_client_reset(struct as_h1_client *h, uint32_t stream, uint32_t code);
/* The connection is done when the request under way is. */
void as_h1_client_shutdown(struct as_h1_client *h);

#endif
