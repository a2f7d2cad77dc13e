/* wire/http/http_client.h — a request and its answer as a client sees them, independent of the
 * version of HTTP.
 *
 * wire/h1/h1_client and wire/h2/h2_client accept the same requests and report the same events, so
 * code above them does not depend on the version. Thread: that of the connection. No callback may
 * free the connection; every callback may start requests.
 */
#ifndef AS_WIRE_HTTP_CLIENT_H
#define AS_WIRE_HTTP_CLIENT_H

#include "wire/http/http.h"

struct as_http_client_ops {
    /* One field of an answer, ":status" first, names in lower case; slices are valid during the
     * call. trailer: the field comes after the body. Interim answers (1xx) are not reported. */
    void (*on_field)(void *conn, void *call, struct as_str name, struct as_str value, bool trailer);
    void (*on_data)(void *conn, void *call, const uint8_t *p, size_t n);
    /* The request is over. whole: the server has completed its answer; otherwise `code` gives the
     * reason (an error code of RFC 9113, also over HTTP/1.1; REFUSED_STREAM: the request was not
     * processed). Called exactly once per request, and no other callback for it follows. */
    void (*on_close)(void *conn, void *call, uint32_t code, bool whole);
};

#define AS_HTTP_CLIENT_HEADERS 128u

struct as_http_client_request {
    /* The pseudo-header fields :method, :scheme, :path and :authority come first; names are in
     * lower case. There is no content-length among them. */
    const struct as_http_header *headers;
    uint32_t n_headers;        /* at most AS_HTTP_CLIENT_HEADERS */
    const struct as_str *body; /* pieces, sent in order */
    uint32_t n_body;
    /* Not 0: all requests of the connection with this number have the same headers; HTTP/2 encodes
     * them once. */
    uint32_t head_id;
};

#endif
