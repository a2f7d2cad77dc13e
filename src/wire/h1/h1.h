/* wire/h1/h1.h — one HTTP/1.1 server connection without a socket: bytes in, events out, bytes out.
 *
 * The events and answers are those of wire/h2/h2.h (see wire/http/http.h), but one request at a
 * time: a pipelined request waits until the answer to the one before it has been handed out.
 * Parsing is strict: none of the leniencies that RFC 9112 permits. A message that two readers could
 * read in two ways ends the connection with an error (400, 414, 417, 431, 501, 505), whose body
 * {"error":"WHERE: WHAT"} names the line and the fault. docs/protocol/http.md lists these
 * decisions. Streams are numbered 1, 2, 3 …; a request of HTTP/1.0 is served, and its connection
 * closed. Hop-by-hop fields are not in the head; content-length and expect are. Thread: that of the
 * connection. No callback may free the connection.
 */
#ifndef AS_WIRE_H1_H
#define AS_WIRE_H1_H

#include "base/memory/outq.h"
#include "wire/http/http.h"

struct as_h1;

struct as_h1_conf {
    uint32_t max_line;         /* bytes of the request line; above it: 414 */
    uint32_t max_header_bytes; /* bytes of all field lines plus 32 for each; above it: 431 */
    uint32_t max_headers; /* number of fields; above it: 431. Both limits hold for trailers, too */
    uint32_t max_chunk_ext; /* bytes of the extensions of one chunk; above it: 400 */
    uint32_t max_unread;    /* bytes of a body that may wait for as_h1_consume (about) */
};

int as_h1_new(struct as_h1 **ret_h, const struct as_h1_conf *conf, const struct as_http_ops *ops,
              void *conn);
void as_h1_free(struct as_h1 *h); /* calls on_close for the open request first */

/* Parses received bytes. 0, or AS_EPROTO: nothing more is read; send what as_h1_send gives until
 * as_h1_done. *ret_taken is less than n if a pipelined request has to wait for the answer before
 * it: the caller keeps the rest and passes it again when as_h1_wants_read is true. An incomplete
 * head is buffered inside. on_over_limit is not called. */
int as_h1_recv(struct as_h1 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken);
/* False: the next request, or more of the body, has to wait. The socket need not be read. */
bool as_h1_wants_read(const struct as_h1 *h);
/* Receives a body of known length directly into the owner's memory, without a copy. The owner sets
 * the buffer with as_h1_set_body_buffer (in on_request, or in the on_data that got the last bytes
 * of the previous buffer): the next bytes of the body go to p … p+n; n = 0 withdraws the buffer.
 * The reader of the socket gets the place for the next bytes from as_h1_body_buffer, reads into it,
 * and reports k bytes with as_h1_body_received; on_data is then called with a p inside the buffer.
 * as_h1_recv still works: it copies into the buffer. n is at most the rest of the body, and p must
 * stay valid until on_close or until it is withdrawn. For a chunked body these functions do
 * nothing. */
void as_h1_set_body_buffer(struct as_h1 *h, uint32_t stream, uint8_t *p, size_t n);
bool as_h1_body_buffer(struct as_h1 *h, uint8_t **ret_p, size_t *ret_n);
int as_h1_body_received(struct as_h1 *h, size_t k, as_ns now);

/* Appends to q what is ready, while q->bytes < max. Blobs are referenced, not copied. AS_EPROTO: a
 * request was reset; end the connection with a TCP reset, so that the client cannot take its part
 * of the answer for the whole. */
int as_h1_send(struct as_h1 *h, struct as_outq *q, size_t max);
bool as_h1_wants_write(const struct as_h1 *h);
/* Nothing more is to be read or written: close the socket. */
bool as_h1_done(const struct as_h1 *h);
/* Why the connection is over: a static text for the log ("bad chunk size", …). NULL: it is not
 * over, or it ended normally. */
const char *as_h1_breach(const struct as_h1 *h);
/* When the first byte of an incomplete request head came; AS_NEVER: no head is incomplete. */
as_ns as_h1_head_since(const struct as_h1 *h);
/* The connection has ever received a complete request head. */
bool as_h1_got_request(const struct as_h1 *h);
/* The connection is between two requests or before the first one: no byte of a request is buffered,
 * no byte of an answer is left, and the connection is to stay open. It can then be continued by
 * another as_h1; if as_h1_got_request was true, call as_h1_resume on the new one. */
bool as_h1_is_idle(const struct as_h1 *h);
void as_h1_resume(struct as_h1 *h);

/* As in wire/h2/h2.h, but trailers of an answer are not sent. content-length is set here, whatever
 * the headers say (except for HEAD, where they give the length that GET would have). An answer of
 * as_h1_begin and as_h1_write is sent in chunks (to HTTP/1.0: until the close). HEAD gets no body.
 * `date` is not sent. If the client's body has not been read to its end when the answer is given,
 * the connection is closed after the answer, unless only little is left: that is read and dropped.
 * Headers that are not valid (wire/http/http_field.h) are left out. */
void as_h1_answer(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a);
void as_h1_begin(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a);
void as_h1_write(struct as_h1 *h, uint32_t stream, const struct as_http_piece *piece);
void as_h1_finish(struct as_h1 *h, uint32_t stream);
/* Ends an answer that cannot go on: what was written is sent, then the connection ends, and the
 * client misses the rest. An answer of which it would not see that is reset. */
void as_h1_cut(struct as_h1 *h, uint32_t stream);
/* as_h1_begin with status 101, after on_end: see wire/http/http.h; connection and upgrade are set
 * here. as_h1_finish then ends the connection. */
/* The version of the open request: 10 or 11. */
uint8_t as_h1_version(const struct as_h1 *h);
/* `100 Continue` is sent automatically if on_request and as_h1_recv return without an answer. */
void as_h1_consume(struct as_h1 *h, uint32_t stream, size_t n);
/* Ends the request without an answer, or in the middle of one, and the connection with it. */
void as_h1_reset(struct as_h1 *h, uint32_t stream);
size_t as_h1_bytes_unsent(struct as_h1 *h, uint32_t stream);
/* Bytes of all answers that as_h1_send has handed out, without the framing of chunks. */
uint64_t as_h1_bytes_sent(const struct as_h1 *h);
/* Ends the connection while a head is incomplete: answers with `status` and {"error":"text"}. */
void as_h1_refuse(struct as_h1 *h, uint32_t status, const char *text);

/* Graceful shutdown, first step: from now on answers have `connection: close`, and end the
 * connection. One that has begun does neither; the next one will. */
void as_h1_shutdown_notice(struct as_h1 *h);
/* Graceful shutdown, second step: without an open request as_h1_done is true at once, otherwise
 * after the answer. */
void as_h1_shutdown_final(struct as_h1 *h);

#endif
