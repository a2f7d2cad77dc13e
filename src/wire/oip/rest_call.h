/* wire/oip/rest_call.h — the client's side of one call over the protocol's REST form.
 *
 * The REST counterpart of wire/grpc/grpc_call.h. The caller passes on what wire/h1/h1_client
 * reports about a request. The call collects the body, or delivers one event after the other, and
 * returns the call's status in the end. Statuses are gRPC's numbers, so that a caller sees the same
 * errors over both protocols. An HTTP status is mapped as a server of the protocol uses it
 * (base/err.h); the error's text is that of {"error": …}. Pure.
 */
#ifndef AS_WIRE_REST_CALL_H
#define AS_WIRE_REST_CALL_H

#include "base/buf.h"
#include "wire/http/http_client.h"
#include "wire/http/sse.h"
#include "wire/json/json.h"

/* Header fields that a request has at most; the caller may append its own. */
#define AS_REST_CALL_FIELDS 7u

struct as_rest_call_head {
    struct as_str method, path, authority, user_agent;
    struct as_str scheme;       /* "http", or "https" by TLS */
    struct as_str content_type; /* empty: no body */
    struct as_str json_len;     /* Inference-Header-Content-Length; empty: the body is all JSON */
};
/* Fills `out` and returns how many fields there are. Slices point to those of `head` and to static
 * text. */
uint32_t as_rest_call_fields(struct as_http_header out[AS_REST_CALL_FIELDS],
                             const struct as_rest_call_head *head);
/* Whether the caller must not send a header of this name (lower case): the call or the connection
 * sends it. */
bool as_rest_call_is_reserved(struct as_str name);
/* Appends "/v2/models/NAME[/versions/VERSION]", with both percent-encoded, and `rest`. */
void as_rest_call_path(struct as_buf *out, struct as_str model, struct as_str version,
                       const char *rest);

#define AS_REST_CALL_TEXT 1024u

struct as_rest_call {
    struct as_buf body; /* of the response, with AS_JSON_PADDING zeros after it */
    size_t limit;       /* largest body, or event, in bytes */
    uint64_t json_len;  /* bytes of JSON at the body's beginning */
    /* Called for each event of a stream; `body` has its data during the call. NULL: the response is
     * no stream. */
    void (*on_event)(void *ctx, struct as_rest_call *c);
    void *ctx;
    struct as_sse sse;
    uint32_t http_status;
    bool has_json_len;
    bool is_events;               /* the content-type is text/event-stream */
    const char *fault;            /* what is wrong with the response; NULL: nothing */
    uint32_t fault_status;        /* and its status */
    char text[AS_REST_CALL_TEXT]; /* of the error: "HTTP 404: …", or `fault`; ended by a NUL */
};

/* Begins a call. Zero-initialise the struct before the first one; it may be reused. */
void as_rest_call_begin(struct as_rest_call *c, size_t limit);
/* Call it after begin if the response is a stream of events; each must be within the limit. */
void as_rest_call_expect_stream(struct as_rest_call *c,
                                void (*on_event)(void *ctx, struct as_rest_call *c), void *ctx);
void as_rest_call_fini(struct as_rest_call *c);
void as_rest_call_field(struct as_rest_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the response is not acceptable, cancel the request. */
int as_rest_call_data(struct as_rest_call *c, const uint8_t *p, size_t n);
/* Call it when the request has ended; `whole` is that of on_close. Returns the status, a gRPC
 * number; 0: `body` is the response. j parses the text of an error. */
uint32_t as_rest_call_end(struct as_rest_call *c, struct as_json *j, bool whole);

#endif
