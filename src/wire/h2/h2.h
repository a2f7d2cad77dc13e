/* wire/h2/h2.h — one HTTP/2 server connection without a socket: bytes in, events out, bytes out.
 *
 * A thin wrapper around nghttp2, so that no code above depends on it. The owner passes received
 * bytes, gets requests by callbacks, answers streams, and takes the bytes to send once per turn of
 * the loop. Flow control: the client gets window for received DATA only when the owner calls
 * as_h2_consume.
 * Thread: that of the connection. No callback may free the connection.
 */
#ifndef AS_WIRE_H2_H
#define AS_WIRE_H2_H

#include "base/memory/outq.h"
#include "wire/h2/h2_guard.h"
#include "wire/http/http.h"

struct as_h2;

struct as_h2_conf {
    uint32_t max_streams;     /* one more is refused; GOAWAY if the client knows the limit */
    uint32_t stream_window;   /* initial window per stream, bytes */
    uint32_t conn_window;     /* connection window, bytes */
    uint32_t max_header_list; /* name + value + 32 of all fields; above it: 431 or reset */
    uint32_t max_headers;     /* number of fields, pseudo-headers and parts of a cookie included */
    struct as_h2_limits limits;
    bool uncached; /* for tests: nghttp2 encodes and decodes every header block */
};

#define AS_H2_CANCEL 0x8u /* code for as_h2_reset: the stream is no longer needed */

int as_h2_new(struct as_h2 **ret_h, const struct as_h2_conf *conf, const struct as_http_ops *ops,
              void *conn, as_ns now);
void as_h2_free(struct as_h2 *h); /* calls on_close for every open stream first */

/* Parses received bytes. 0, or AS_EPROTO: the connection is over; send what as_h2_send gives, then
 * close. A violation that is reported to the client by a GOAWAY may also appear as AS_EPROTO of the
 * as_h2_send that gives the GOAWAY. *ret_taken is less than n after AS_H2_REQUESTS_PER_RECV
 * requests, so that one read cannot start thousands: call as_h2_send, which sends and counts the
 * resets that these requests have caused, and then pass the rest. */
int as_h2_recv(struct as_h2 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken);
/* Appends to q what is ready, while q->bytes < max. Bodies in blobs are referenced, not copied.
 * AS_EPROTO: as for as_h2_recv. */
int as_h2_send(struct as_h2 *h, struct as_outq *q, size_t max);
bool as_h2_wants_write(const struct as_h2 *h);
/* Nothing more is to be read or written: close the socket. */
bool as_h2_done(const struct as_h2 *h);
/* Why the connection is over; AS_H2_NO_BREACH: it is not over, or it ended normally. */
enum as_h2_breach as_h2_breach(const struct as_h2 *h);
/* The client's preface and its SETTINGS have come. */
bool as_h2_got_preface(const struct as_h2 *h);
/* When an incomplete header block began; AS_NEVER: no header block is incomplete. */
as_ns as_h2_header_block_since(const struct as_h2 *h);

/* A second answer to a stream, and an answer to a stream that is closed, are ignored. */
void as_h2_answer(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a);

/* An answer whose body comes over time: as_h2_begin sends status and headers (body and trailers of
 * `a` are ignored), as_h2_write adds bytes, as_h2_finish ends it; on_data and on_end are called
 * until as_h2_finish. Each piece must have an owner, which is referenced until the bytes are sent.
 * Written bytes wait for the client's windows without a limit: the owner stops at a limit of its
 * own and continues at on_drained, which is called when AS_H2_LOW_WATER bytes or fewer are left. A
 * call that does not fit (no such stream, answered, not begun) is ignored; without memory the
 * stream is reset. h2_streamed_body.c. */
#define AS_H2_LOW_WATER 65536u
void as_h2_begin(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a);
void as_h2_write(struct as_h2 *h, uint32_t stream, const struct as_http_piece *piece);
void as_h2_finish(struct as_h2 *h, uint32_t stream, const struct as_http_header *trailers,
                  uint32_t n_trailers);

/* The owner has processed n DATA bytes of the stream: opens the windows of stream and connection.
 * It must be called for every byte of on_data, also after the stream is closed. */
void as_h2_consume(struct as_h2 *h, uint32_t stream, size_t n);
/* The owner has room for n more bytes of the body: widens the window of this stream to hold up to n
 * of them. */
void as_h2_widen_window(struct as_h2 *h, uint32_t stream, size_t n);
void as_h2_reset(struct as_h2 *h, uint32_t stream, uint32_t code);
/* Bytes of the stream's answer that as_h2_send has not handed out; 0 if the stream is closed. */
size_t as_h2_bytes_unsent(struct as_h2 *h, uint32_t stream);
/* Bytes of the stream's answer that as_h2_send has handed out. */
uint64_t as_h2_bytes_sent(struct as_h2 *h, uint32_t stream);
void as_h2_ping(struct as_h2 *h); /* any frame that comes back shows that the client is alive */
/* Ends the connection with GOAWAY ENHANCE_YOUR_CALM for a reason of the owner's. */
void as_h2_enhance_your_calm(struct as_h2 *h, const char *text);

/* Graceful shutdown: GOAWAY with stream 2^31-1 now; as_h2_shutdown_final sends the last stream that
 * is served. After that the connection is done when its streams are. */
void as_h2_shutdown_notice(struct as_h2 *h);
void as_h2_shutdown_final(struct as_h2 *h);

#endif
