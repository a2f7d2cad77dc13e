/* wire/grpc/grpc_call.h — the client's side of one gRPC call: the fields of its request, and the
 * evaluation of its answer.
 *
 * The caller passes in what wire/h2/h2_client reports for a stream. This module assembles the one
 * message of the answer, or hands over one message after the other if the method answers with a
 * stream, and in the end determines the status of the call, also if the server sent none. Rules:
 * gRPC's PROTOCOL-HTTP2, statuscodes and http-grpc-status-mapping documents (reference notes §4.1).
 * Pure.
 */
#ifndef AS_WIRE_GRPC_CALL_H
#define AS_WIRE_GRPC_CALL_H

#include "base/buf.h"
#include "wire/grpc/grpc.h"
#include "wire/h2/h2.h"

/* The fields of a request, in order; the caller's metadata follows them. */
#define AS_GRPC_CALL_FIELDS 8u
#define AS_GRPC_TIMEOUT_MAX 10u /* bytes of a grpc-timeout with its NUL */

/* Writes the fields of a call to `out`; slices point to the arguments and to static text. scheme:
 * "http", or "https" by TLS. timeout: "" for none. Returns their number, at most
 * AS_GRPC_CALL_FIELDS. */
uint32_t as_grpc_call_fields(struct as_http_header out[AS_GRPC_CALL_FIELDS], struct as_str scheme,
                             struct as_str path, struct as_str authority, struct as_str user_agent,
                             struct as_str timeout);
/* Writes a time as grpc-timeout, in the finest unit that needs at most 8 digits, rounded up. */
void as_grpc_put_timeout(char out[AS_GRPC_TIMEOUT_MAX], as_ns timeout);
/* Appends v as base64 without padding: the value of a "-bin" key. */
void as_grpc_put_bin(struct as_buf *out, struct as_str v);

#define AS_GRPC_CALL_TEXT 1024u

struct as_grpc_call {
    struct as_buf message; /* the message of the answer; its memory is reused by the next call */
    size_t limit;          /* maximum size of a message */
    struct as_grpc_reader reader;
    /* Called for each message, which is in `message` during the call; NULL: the answer must be
     * exactly one message. */
    void (*on_message)(void *ctx, struct as_grpc_call *c);
    void *ctx;
    bool pending; /* a message has begun that was not handed over */
    /* The message is compared with these bytes and not kept; NULL: it is kept. */
    const struct as_str *expected;
    size_t n_equal; /* bytes that were equal to the expected ones so far */
    bool differs;
    uint32_t http_status;
    bool is_grpc;    /* the content-type is that of gRPC */
    bool has_status; /* grpc-status has come */
    uint32_t status;
    const char *fault;            /* the rule that the answer broke; NULL: none */
    uint32_t fault_status;        /* the status for this fault */
    char text[AS_GRPC_CALL_TEXT]; /* the decoded grpc-message, or a text of this module;
                                     NUL-terminated */
};

/* Starts a call. Zero-initialise the struct before the first one. */
void as_grpc_call_begin(struct as_grpc_call *c, size_t limit);
/* Call it after as_grpc_call_begin if the answer is a stream: any number of messages, each of at
 * most `limit` bytes. */
void as_grpc_call_expect_stream(struct as_grpc_call *c,
                                void (*on_message)(void *ctx, struct as_grpc_call *c), void *ctx);
/* Call it after begin: the one message of the answer is compared with `expected`, which must
 * outlive the call, and not kept. */
void as_grpc_call_compare(struct as_grpc_call *c, const struct as_str *expected);
bool as_grpc_call_is_expected(const struct as_grpc_call *c); /* after the end */
void as_grpc_call_fini(struct as_grpc_call *c);
void as_grpc_call_field(struct as_grpc_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the answer is not acceptable; reset the stream. */
int as_grpc_call_data(struct as_grpc_call *c, const uint8_t *p, size_t n);
/* The status of the call (a gRPC number; 0: `message` is the answer) when the stream is closed;
 * code and whole are those of on_close. The text of the status is in c->text. */
uint32_t as_grpc_call_end(struct as_grpc_call *c, uint32_t code, bool whole);

#endif
