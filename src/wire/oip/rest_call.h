/* wire/oip/rest_call.h — the client's side of one call over the protocol's REST form.
 *
 * The twin of wire/grpc/grpc_call.h: fed with what wire/h1/h1_client tells of a request, it puts
 * the body together, or hands over one event after the other, and says in the end which status the
 * call has, in gRPC's numbers, so that a caller sees the same failures whatever it speaks. An HTTP
 * status means what a server of the protocol means with it (base/err.h, reference notes §1.4); the
 * text is that of {"error": …}. Pure.
 */
#ifndef AS_WIRE_REST_CALL_H
#define AS_WIRE_REST_CALL_H

#include "base/buf.h"
#include "wire/http/http_client.h"
#include "wire/json/json.h"
#include "wire/http/sse.h"

/* Fields of a request in their order; those behind them are the caller's own. */
#define AS_REST_CALL_FIELDS 7u

struct as_rest_call_head {
    struct as_str method, path, authority, user_agent;
    struct as_str content_type; /* empty: no body */
    struct as_str json_len;     /* Inference-Header-Content-Length; empty: all of it is JSON */
};
/* Slices of `out` point to those of `head` and to static text. Returns how many. */
uint32_t as_rest_call_fields(struct as_http_header out[AS_REST_CALL_FIELDS],
                             const struct as_rest_call_head *head);
/* The caller may not send a header of this name (lower case): it is one of ours, or the
 * connection's. */
bool as_rest_call_is_reserved(struct as_str name);
/* "/v2/models/NAME[/versions/VERSION]" and what follows it, percent-encoded, appended. */
void as_rest_call_path(struct as_buf *out, struct as_str model, struct as_str version,
                       const char *rest);

#define AS_REST_CALL_TEXT 1024u

struct as_rest_call {
    struct as_buf body; /* the answer's, with AS_JSON_PADDING zeros behind; kept for the next */
    size_t limit;       /* most bytes of it */
    uint64_t json_len;  /* bytes of JSON at its beginning */
    /* For each event of a stream, whose data are `body` for the call; NULL: one answer. */
    void (*on_event)(void *ctx, struct as_rest_call *c);
    void *ctx;
    struct as_sse sse;
    uint32_t http_status;
    bool has_json_len;
    bool is_events;               /* content-type says so */
    const char *fault;            /* what broke a rule; NULL: nothing */
    uint32_t fault_status;        /* and the status that this means */
    char text[AS_REST_CALL_TEXT]; /* "HTTP 404: …", or our own words; NUL at the end */
};

/* Zero-initialise before the first begin. */
void as_rest_call_begin(struct as_rest_call *c, size_t limit);
/* Behind begin: the answer is a stream of events, any number of them, each within the limit. */
void as_rest_call_expect_stream(struct as_rest_call *c,
                                void (*on_event)(void *ctx, struct as_rest_call *c), void *ctx);
void as_rest_call_fini(struct as_rest_call *c);
void as_rest_call_field(struct as_rest_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the answer is not acceptable; give the request up. */
int as_rest_call_data(struct as_rest_call *c, const uint8_t *p, size_t n);
/* The call's status (a gRPC number; 0: `body` is the answer) when the request is over: `whole` as
 * on_close has it. j reads the text of an error. */
uint32_t as_rest_call_end(struct as_rest_call *c, struct as_json *j, bool whole);

#endif
