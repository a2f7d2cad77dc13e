/* wire/http/http_client.h — a request and its answer as a client sees them, in any version of HTTP.
 *
 * wire/h1/h1_client and wire/h2/h2_client take the same requests and tell the same events, so that what
 * is above them need not know which one carries a call. Thread: that of the connection. No callback
 * may free the connection; all may start requests.
 */
#ifndef AS_WIRE_HTTP_CLIENT_H
#define AS_WIRE_HTTP_CLIENT_H

#include "wire/http/http.h"

struct as_http_client_ops {
    /* One field of an answer, ":status" first, names in lower case; slices live for the call.
     * trailer: it comes behind the body. Interim answers (1xx) are not told. */
    void (*on_field)(void *conn, void *call, struct as_str name, struct as_str value, bool trailer);
    void (*on_data)(void *conn, void *call, const uint8_t *p, size_t n);
    /* The request is over. whole: the server has ended its answer; else code says why not (an error
     * of RFC 9113, also over HTTP/1.1; REFUSED_STREAM: it was not processed). Exactly once per
     * request; nothing else of it is told then. */
    void (*on_close)(void *conn, void *call, uint32_t code, bool whole);
};

#define AS_HTTP_CLIENT_HEADERS 128u

struct as_http_client_request {
    /* The pseudo fields :method, :scheme, :path and :authority first; names in lower case. A
     * content-length is not among them. */
    const struct as_http_header *headers;
    uint32_t n_headers;        /* at most AS_HTTP_CLIENT_HEADERS */
    const struct as_str *body; /* pieces, sent in order */
    uint32_t n_body;
};

#endif
