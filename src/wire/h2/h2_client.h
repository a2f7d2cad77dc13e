/* wire/h2/h2_client.h — one HTTP/2 client connection without a socket: requests in, answers out.
 *
 * The other end of wire/h2/h2.h, without a session of nghttp2 (h2_client_internal.h). The owner
 * hands over requests, passes received bytes, gets answers by callbacks, and takes the bytes to
 * send. Requests above the number that the server allows at once wait inside. The server gets
 * window for received DATA automatically; the owner limits the size of an answer. Server push is
 * off. The bytes are untrusted. Events and requests are those of wire/http/http_client.h. Thread:
 * that of the connection.
 */
#ifndef AS_WIRE_H2_CLIENT_H
#define AS_WIRE_H2_CLIENT_H

#include "base/memory/outq.h"
#include "wire/http/http_client.h"

struct as_h2_client;

struct as_h2_client_conf {
    /* Both windows are at least 65535, with which a connection begins. */
    uint32_t stream_window;   /* bytes of one answer that the server may send ahead */
    uint32_t conn_window;     /* bytes of all answers together that it may send ahead */
    uint32_t max_header_list; /* name + value + 32 of all fields of an answer, with trailers */
};

int as_h2_client_new(struct as_h2_client **ret_h, const struct as_h2_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn);
void as_h2_client_free(struct as_h2_client *h); /* calls on_close(CANCEL) for open streams */

/* Parses received bytes. 0, or AS_EPROTO: the connection is over (as in wire/h2/h2.h). */
int as_h2_client_recv(struct as_h2_client *h, const uint8_t *p, size_t n);
/* Appends to q what is ready, while q->bytes < max. AS_EPROTO: as for as_h2_client_recv. */
int as_h2_client_send(struct as_h2_client *h, struct as_outq *q, size_t max);
bool as_h2_client_wants_write(const struct as_h2_client *h);
/* The server's SETTINGS have come: it speaks HTTP/2. */
bool as_h2_client_ready(const struct as_h2_client *h);
/* Nothing more is to be read or written: close the socket. */
bool as_h2_client_done(const struct as_h2_client *h);
/* The server accepts new requests: it sent no GOAWAY, and stream numbers are left. */
bool as_h2_client_usable(const struct as_h2_client *h);

/* Starts a request. The bytes of headers and body, and the array of the body's pieces, must stay
 * valid until on_close; the array of headers is copied. 0; AS_EUNAVAILABLE: the connection is not
 * usable any more; AS_ENOMEM. */
int as_h2_client_request(struct as_h2_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream);
/* Cancels a request; on_close follows from a later send, and no other callback for it. */
void as_h2_client_reset(struct as_h2_client *h, uint32_t stream, uint32_t code);

#endif
