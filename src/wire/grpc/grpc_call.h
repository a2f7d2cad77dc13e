/* wire/grpc/grpc_call.h — the client's side of one gRPC call: request fields, then the verdict.
 *
 * Fed with what wire/h2/h2_client tells of a stream; puts the one message together, or hands over
 * one after the other where the method answers with a stream, and says in the end which status the
 * call has, also when the server never said one. Rules: gRPC's PROTOCOL-HTTP2, statuscodes and
 * http-grpc-status-mapping documents (reference notes §4.1). Pure.
 */
#ifndef AS_WIRE_GRPC_CALL_H
#define AS_WIRE_GRPC_CALL_H

#include "base/buf.h"
#include "wire/grpc/grpc.h"
#include "wire/h2/h2.h"

/* Fields of a request in their order; those behind them are the caller's metadata. */
#define AS_GRPC_CALL_FIELDS 8u
#define AS_GRPC_TIMEOUT_MAX 10u /* a grpc-timeout with its NUL */

/* Fills `out` with the fields of a call; slices point to the arguments and to static text.
 * timeout: "" for none. Returns how many, at most AS_GRPC_CALL_FIELDS. */
uint32_t as_grpc_call_fields(struct as_http_header out[AS_GRPC_CALL_FIELDS], struct as_str path,
                             struct as_str authority, struct as_str user_agent,
                             struct as_str timeout);
/* A time as grpc-timeout, in the finest unit that 8 digits hold, rounded up. */
void as_grpc_put_timeout(char out[AS_GRPC_TIMEOUT_MAX], as_ns timeout);
/* Appends the base64 of v without padding: the value of a "-bin" key. */
void as_grpc_put_bin(struct as_buf *out, struct as_str v);

#define AS_GRPC_CALL_TEXT 1024u

struct as_grpc_call {
    struct as_buf message; /* the answer's message, kept for the next call */
    size_t limit;          /* most bytes of it */
    struct as_grpc_reader reader;
    /* For each message, which is in `message` for the call; NULL: there must be exactly one. */
    void (*on_message)(void *ctx, struct as_grpc_call *c);
    void *ctx;
    bool pending; /* a message has begun that was not handed over */
    uint32_t http_status;
    bool is_grpc;    /* content-type says so */
    bool has_status; /* grpc-status came */
    uint32_t status;
    const char *fault;            /* what broke a rule; NULL: nothing */
    uint32_t fault_status;        /* and the status that this means */
    char text[AS_GRPC_CALL_TEXT]; /* grpc-message decoded, or our own words; NUL at the end */
};

/* Zero-initialise before the first begin. */
void as_grpc_call_begin(struct as_grpc_call *c, size_t limit);
/* Behind begin: the answer is a stream of messages, any number of them, each within the limit. */
void as_grpc_call_expect_stream(struct as_grpc_call *c,
                                void (*on_message)(void *ctx, struct as_grpc_call *c), void *ctx);
void as_grpc_call_fini(struct as_grpc_call *c);
void as_grpc_call_field(struct as_grpc_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the answer is not acceptable; reset the stream. */
int as_grpc_call_data(struct as_grpc_call *c, const uint8_t *p, size_t n);
/* The call's status (a gRPC number; 0: `message` is the answer) when the stream is gone, with
 * on_close's code and `whole`. The text of it is in c->text. */
uint32_t as_grpc_call_end(struct as_grpc_call *c, uint32_t code, bool whole);

#endif
