/* wire/h2/h2.h — one HTTP/2 server connection without a socket: bytes in, events out, bytes out.
 *
 * A narrow wrapper around nghttp2, so that nothing above knows it. The owner feeds received bytes,
 * gets requests by callback, answers streams, and takes the bytes to send once per loop turn.
 * Flow control: received DATA is not given back to the peer until as_h2_consume.
 * Thread: that of the connection. No callback may free the connection.
 */
#ifndef AS_WIRE_H2_H
#define AS_WIRE_H2_H

#include "base/memory/outq.h"
#include "wire/h2/h2_guard.h"
#include "wire/http/http.h"

struct as_h2;

struct as_h2_conf {
    uint32_t max_streams;     /* one more is refused; with the SETTINGS acknowledged: GOAWAY */
    uint32_t stream_window;   /* initial window per stream, bytes */
    uint32_t conn_window;     /* connection window, bytes */
    uint32_t max_header_list; /* name + value + 32 summed; above: 431 or reset */
    uint32_t max_headers;     /* count of fields, pseudo headers and cookie crumbs included */
    struct as_h2_limits limits;
    bool uncached; /* for tests: nghttp2 packs and unpacks every header block */
};

#define AS_H2_CANCEL 0x8u /* for as_h2_reset: the stream is no longer needed */

int as_h2_new(struct as_h2 **ret_h, const struct as_h2_conf *conf, const struct as_http_ops *ops,
              void *conn, as_ns now);
void as_h2_free(struct as_h2 *h); /* on_close for every open stream first */

/* Received bytes. 0, or AS_EPROTO: the connection is over; send what as_h2_send gives, then close.
 * A breach that is told to the client by a GOAWAY may show as AS_EPROTO of the as_h2_send that
 * gives it. ret_taken: less than n after AS_H2_REQUESTS_PER_RECV requests; call as_h2_send, which
 * ends those that the client spoiled, and then again with the rest: else one read could begin
 * thousands. */
int as_h2_recv(struct as_h2 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken);
/* Appends to q what is ready, while q->bytes < max. Bodies given as blobs are referenced, not
 * copied. AS_EPROTO as above. */
int as_h2_send(struct as_h2 *h, struct as_outq *q, size_t max);
bool as_h2_wants_write(const struct as_h2 *h);
/* Nothing more to read or write: close the socket. */
bool as_h2_done(const struct as_h2 *h);
/* Why it is over; AS_H2_NO_BREACH: it is not, or ended well. */
enum as_h2_breach as_h2_breach(const struct as_h2 *h);
/* The client's preface and SETTINGS have come. */
bool as_h2_got_preface(const struct as_h2 *h);
/* Since when a header block is incomplete; AS_NEVER: none is. */
as_ns as_h2_header_block_since(const struct as_h2 *h);

/* The second answer of a stream, or one to a stream that is gone, is ignored. */
void as_h2_answer(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a);

/* An answer whose body comes over time: begin sends status and headers (body and trailers of `a`
 * are not looked at), write adds bytes, finish ends it; on_data and on_end go on until finish. A
 * piece's owner is referenced until its bytes are sent; it must have one. Written bytes wait for
 * the peer's windows without bound: the owner stops at a mark of its own and goes on at on_drained.
 * Each is ignored where it does not fit (no such stream, answered, not begun); without memory the
 * stream is reset. h2_later.c. */
#define AS_H2_LOW_WATER 65536u
void as_h2_begin(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a);
void as_h2_write(struct as_h2 *h, uint32_t stream, const struct as_http_piece *piece);
void as_h2_finish(struct as_h2 *h, uint32_t stream, const struct as_http_header *trailers,
                  uint32_t n_trailers);

/* DATA bytes of the stream were dealt with: opens its window and the connection's. Owed for every
 * byte of on_data, also when the stream is closed by now. */
void as_h2_consume(struct as_h2 *h, uint32_t stream, size_t n);
/* A body of `n` more bytes was admitted: widen this stream's window to hold up to n of them. */
void as_h2_widen_window(struct as_h2 *h, uint32_t stream, size_t n);
void as_h2_reset(struct as_h2 *h, uint32_t stream, uint32_t code);
/* Bytes of the stream's answer that as_h2_send has not given out; 0 when it is gone. */
size_t as_h2_bytes_unsent(struct as_h2 *h, uint32_t stream);
/* And those that it has. */
uint64_t as_h2_bytes_sent(struct as_h2 *h, uint32_t stream);
void as_h2_ping(struct as_h2 *h); /* whatever comes back shows that the client lives */
/* Ends the connection for the owner's reasons with GOAWAY ENHANCE_YOUR_CALM, as after a breach. */
void as_h2_enhance_your_calm(struct as_h2 *h, const char *text);

/* Graceful end: GOAWAY(2^31-1) now; as_h2_shutdown_final sends the real last id. After it the
 * connection is done when its streams are. */
void as_h2_shutdown_notice(struct as_h2 *h);
void as_h2_shutdown_final(struct as_h2 *h);

#endif
