/* tool/call/model_call.h — one call to a server, over the protocol that --protocol names.
 *
 * The protocol is gRPC (HTTP/2), or REST over HTTP/1.1. struct as_model_call_frame is a prepared
 * request, which can be sent any number of times. struct as_model_call collects one response; its
 * result is a gRPC status. The owner of the connection passes on what it receives
 * (as_model_call_field, _data, _end). Thread: the connection's.
 */
#ifndef AS_TOOL_MODEL_CALL_H
#define AS_TOOL_MODEL_CALL_H

#include "wire/grpc/grpc_call.h"
#include "wire/oip/rest_call.h"

enum as_model_call_protocol {
    AS_MODEL_CALL_GRPC,
    AS_MODEL_CALL_HTTP,
    AS_MODEL_CALL_HTTP_BINARY
}; /* in the order of the option's values */

#define AS_MODEL_CALL_METADATA                                                                     \
    (AS_HTTP_CLIENT_HEADERS - AS_MAX(AS_GRPC_CALL_FIELDS, AS_REST_CALL_FIELDS))
#define AS_MODEL_CALL_AGENT "anyserve/" AS_VERSION

struct as_model_call;
typedef void (*as_model_call_on_response)(void *ctx, struct as_model_call *c);

struct as_model_call_request {
    struct as_str method, path; /* gRPC: only path, "/package.Service/Method" */
    struct as_str message;      /* the body; empty for GET; gRPC: at most 2^32-1 bytes */
    bool framed;                /* gRPC: it is several messages, each after its prefix */
    bool has_binary_data;       /* REST: bytes of tensors follow the JSON, */
    size_t json_len;            /* which has this many bytes */
    as_ns timeout;              /* sent to the server if the protocol has a field for it; 0: none */
    size_t limit;               /* largest response, or message of a stream, in bytes */
    as_model_call_on_response on_response; /* for as_model_call_expect_stream; NULL: one response */
    void *ctx;
    const struct as_http_header *metadata;
    uint32_t n_metadata; /* at most AS_MODEL_CALL_METADATA */
};

/* The request for an HTTP client, with the bytes that it points to. Must not be moved. */
struct as_model_call_frame {
    struct as_http_header fields[AS_HTTP_CLIENT_HEADERS];
    struct as_http_client_request request;
    char timeout[AS_GRPC_TIMEOUT_MAX], json_len[24];
    uint8_t prefix[AS_GRPC_PREFIX];
    struct as_str body[2];
};
/* The texts that r and the authority point to must outlive the frame. tls: for a connection by TLS.
 */
void as_model_call_prepare(struct as_model_call_frame *f, enum as_model_call_protocol protocol,
                           const struct as_model_call_request *r, const char *authority, bool tls);

struct as_model_call { /* zero-initialise before the first begin */
    enum as_model_call_protocol protocol;
    struct as_json *json; /* the caller's; NULL for gRPC */
    struct as_grpc_call grpc;
    struct as_rest_call rest;
    as_model_call_on_response on_response;
    void *ctx;
    const struct as_str *expected; /* NULL: any response */
};
void as_model_call_begin(struct as_model_call *c, enum as_model_call_protocol protocol,
                         struct as_json *json, size_t limit);
/* Call it after begin if the response is a stream (of messages, or of server-sent events).
 * on_response is called for each complete response; as_model_call_message is then that response. c
 * must not be moved. */
void as_model_call_expect_stream(struct as_model_call *c, as_model_call_on_response on_response,
                                 void *ctx);
/* Call it after begin: the response is compared with `expected`, which must outlive the call; over
 * gRPC it is not kept. */
void as_model_call_compare(struct as_model_call *c, const struct as_str *expected);
bool as_model_call_is_expected(struct as_model_call *c); /* after the end */
/* Within on_response: whether the response is an error of ModelStreamInfer or generate_stream, and
 * its text (in the message, or in the arena). */
bool as_model_call_is_error(struct as_model_call *c, struct as_arena *a, struct as_str *ret_text);
void as_model_call_fini(struct as_model_call *c);
void as_model_call_field(struct as_model_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the response is not acceptable, cancel the call. */
int as_model_call_data(struct as_model_call *c, const uint8_t *p, size_t n);
#define AS_MODEL_CALL_PROTOCOL_ERROR 1u /* PROTOCOL_ERROR (RFC 9113), a code of on_close */
/* Returns the gRPC status. 0: as_model_call_message is the response; else as_model_call_text has
 * the error. */
uint32_t as_model_call_end(struct as_model_call *c, uint32_t code, bool whole);

/* The bytes of the response. REST: AS_JSON_PADDING bytes follow; the first c->rest.json_len bytes
 * are JSON. */
struct as_buf *as_model_call_message(struct as_model_call *c);
#define AS_MODEL_CALL_TEXT AS_GRPC_CALL_TEXT
char *as_model_call_text(struct as_model_call *c); /* AS_MODEL_CALL_TEXT bytes of room */

#endif
