/* wire/h1/h1_client.h — one HTTP/1.1 client connection without a socket: requests in, answers out.
 *
 * The counterpart of wire/h2/h2_client.h for HTTP/1.1: the same requests and events
 * (wire/http/http_client.h), one request at a time, never pipelined. Parsing is strict where two
 * readers could disagree about the end of an answer (RFC 9112: CRLF only, no obs-fold, one
 * content-length or `chunked` alone); an answer that breaks these rules ends the connection.
 * Answers of HTTP/1.0 and answers that end with the connection are accepted. The bytes are
 * untrusted; the owner limits the size of a body. Thread: that of the connection.
 */
#ifndef AS_WIRE_H1_CLIENT_H
#define AS_WIRE_H1_CLIENT_H

#include "base/memory/outq.h"
#include "wire/http/http_client.h"

struct as_h1_client;

struct as_h1_client_conf {
    uint32_t max_line;         /* bytes of the status line */
    uint32_t max_header_bytes; /* name + value + 32 of all fields of an answer, with trailers */
    uint32_t max_headers;      /* number of these fields */
    uint32_t max_chunk_ext;    /* bytes of the extensions of one chunk */
};

#define AS_H1_CLIENT_INTERIM_MAX 8u /* maximum number of interim answers (1xx) to one request */

int as_h1_client_new(struct as_h1_client **ret_h, const struct as_h1_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn);
void as_h1_client_free(struct as_h1_client *h); /* calls on_close(CANCEL) for an open request */

/* Parses received bytes. 0, or AS_EPROTO: the connection is over, and as_h1_client_why gives the
 * reason. Bytes after the last answer that may come are dropped. */
int as_h1_client_recv(struct as_h1_client *h, const uint8_t *p, size_t n);
/* The server has closed its side: this ends an answer that has no other end. */
void as_h1_client_eof(struct as_h1_client *h);
/* Appends to q what is ready, while q->bytes < max. AS_EPROTO: as for as_h1_client_recv. */
int as_h1_client_send(struct as_h1_client *h, struct as_outq *q, size_t max);
bool as_h1_client_wants_write(const struct as_h1_client *h);
/* A status line has come: the server speaks HTTP/1. */
bool as_h1_client_ready(const struct as_h1_client *h);
/* Nothing more is to be read or written: close the socket. */
bool as_h1_client_done(const struct as_h1_client *h);
/* A request may be started now. */
bool as_h1_client_usable(const struct as_h1_client *h);
/* Why the connection is over, a static phrase ("the server closes the connection after its
 * answer"); NULL: it is not over. */
const char *as_h1_client_why(const struct as_h1_client *h);

/* Starts a request; content-length is added if there is a body, or if the method is neither GET nor
 * HEAD. The bytes of the body and the array of its pieces must stay valid until on_close;
 * everything else is copied. 0; AS_EAGAIN: a request is open; AS_EUNAVAILABLE: the connection
 * accepts no more requests; AS_EINVALID: a name or value is not valid in a header. */
int as_h1_client_request(struct as_h1_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream);
/* Cancels the request, and the connection with it. on_close follows from a later send, or from the
 * recv that brings the rest of the answer; in that case the connection stays. */
void as_h1_client_reset(struct as_h1_client *h, uint32_t stream, uint32_t code);

#endif
