/* wire/h1/h1.h — one HTTP/1.1 server connection without a socket: bytes in, events out, bytes out.
 *
 * The same events and answers as wire/h2/h2.h (see wire/http/http.h), one request at a time: what a
 * client pipelines behind it waits until its answer has been given out. Strict: RFC 9112 without
 * any of its leniencies; a message that two readers could read in two ways ends the connection with
 * an error (400, 414, 417, 431, 501, 505) whose body {"error":"WHERE: WHAT"} names the line and the
 * fault. docs/PROTOCOL.md has the choices. Streams are numbered 1, 2, 3 …; requests of HTTP/1.0 are
 * served, and their connection closed. Hop-by-hop fields are not shown in the head;
 * content-length and expect are. Thread: that of the connection. No callback may free the
 * connection.
 */
#ifndef AS_WIRE_H1_H
#define AS_WIRE_H1_H

#include "base/memory/outq.h"
#include "wire/http/http.h"

struct as_h1;

struct as_h1_conf {
    uint32_t max_line;         /* bytes of the request line; above: 414 */
    uint32_t max_header_bytes; /* of all field lines and 32 for each; above: 431. Trailers anew */
    uint32_t max_headers;      /* count of fields, of trailers too; above: 431 */
    uint32_t max_chunk_ext;    /* bytes of the extensions of one chunk; above: 400 */
    uint32_t max_unread;       /* bytes of a body that may wait for as_h1_consume (about): then
                                  as_h1_wants_read is false */
};

int as_h1_new(struct as_h1 **ret_h, const struct as_h1_conf *conf, const struct as_http_ops *ops,
              void *conn);
void as_h1_free(struct as_h1 *h); /* on_close for the open request first */

/* Received bytes. 0, or AS_EPROTO: nothing more is read; send what as_h1_send gives until
 * as_h1_done. ret_taken: less than n when a pipelined request has to wait for the answer before it:
 * the caller keeps the rest and feeds it again when as_h1_wants_read says so. An incomplete head is
 * kept here. on_over_limit is not used. */
int as_h1_recv(struct as_h1 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken);
/* False: the next request, or more of the body, has to wait. The socket need not be read. */
bool as_h1_wants_read(const struct as_h1 *h);
/* A body of known length may be received where it will lie, without a copy. The owner says where
 * (in on_request, or in an on_data that got the last bytes of the place before): the next bytes of
 * the body go to p … p+n; n = 0 takes the place back. as_h1_body_buffer then gives the reader of
 * the socket the place for the next bytes, and as_h1_body_received tells that k of them came;
 * on_data is called with p inside of that place. as_h1_recv may still be used: it copies. n is at
 * most what is left of the body, and p must stay until on_close or until it is taken back. A no-op
 * for chunked bodies. */
void as_h1_set_body_buffer(struct as_h1 *h, uint32_t stream, uint8_t *p, size_t n);
bool as_h1_body_buffer(struct as_h1 *h, uint8_t **ret_p, size_t *ret_n);
int as_h1_body_received(struct as_h1 *h, size_t k, as_ns now);

/* Appends to q what is ready, while q->bytes < max. Blobs are referenced, not copied. AS_EPROTO: a
 * request was reset; end the connection with a reset too, since the client has part of an answer
 * that it must not take for the whole. */
int as_h1_send(struct as_h1 *h, struct as_outq *q, size_t max);
bool as_h1_wants_write(const struct as_h1 *h);
/* Nothing more to read or write: end the connection. */
bool as_h1_done(const struct as_h1 *h);
/* Why it is over, a static text for the log ("bad chunk size", …); NULL: it is not, or ended well.
 */
const char *as_h1_breach(const struct as_h1 *h);
/* Since when a request's head is incomplete (its first byte has come); AS_NEVER: none is. */
as_ns as_h1_head_since(const struct as_h1 *h);
/* A complete request has come on this connection, ever. */
bool as_h1_got_request(const struct as_h1 *h);
/* Between two requests, or before the first: no byte of one is here, none of an answer is left, and
 * the connection is to go on. So it may go on in another as_h1; for one that has been greeted
 * as_h1_resume says so to the new one. */
bool as_h1_is_idle(const struct as_h1 *h);
void as_h1_resume(struct as_h1 *h);

/* As in wire/h2/h2.h; trailers of an answer are not sent. An answer gets its content-length,
 * whatever its headers say (but for HEAD: they know what GET would have had). One that is begun and
 * written goes out chunked (HTTP/1.0: until the close). To HEAD no body is sent. `date` is not
 * sent. Where the client's body has not been read whole when the answer is given, the connection is
 * closed behind it, unless little of it is left: that is read and forgotten. Control characters in
 * a header become spaces. */
void as_h1_answer(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a);
void as_h1_begin(struct as_h1 *h, uint32_t stream, const struct as_http_answer *a);
void as_h1_write(struct as_h1 *h, uint32_t stream, const struct as_http_piece *piece);
void as_h1_finish(struct as_h1 *h, uint32_t stream);
/* `100 Continue` goes out by itself when on_request and as_h1_recv return without an answer. */
void as_h1_consume(struct as_h1 *h, uint32_t stream, size_t n);
/* Ends the request without an answer, or in the middle of one, and the connection with it. */
void as_h1_reset(struct as_h1 *h, uint32_t stream);
size_t as_h1_bytes_unsent(struct as_h1 *h, uint32_t stream);
/* Bytes of all answers, without the framing of chunks, that as_h1_send has given out. */
uint64_t as_h1_bytes_sent(const struct as_h1 *h);
/* The owner ends the connection in the middle of a head: with `status` and {"error":"text"}. */
void as_h1_refuse(struct as_h1 *h, uint32_t status, const char *text);

/* Graceful end, first step: answers say `connection: close` from now on. */
void as_h1_shutdown_notice(struct as_h1 *h);
/* And the second: without a request under way it is as_h1_done at once, else behind its answer. */
void as_h1_shutdown_final(struct as_h1 *h);

#endif
