/* tool/call/model_call.h — one call to a server in the protocol that --protocol names.
 *
 * The inference service over gRPC (HTTP/2), or its REST form over HTTP/1.1: a prepared request that
 * can be sent any number of times, and the verdict on each answer, in gRPC's statuses. Whoever has
 * the connection feeds it. Thread: the connection's.
 */
#ifndef AS_TOOL_TALK_H
#define AS_TOOL_TALK_H

#include "wire/grpc/grpc_call.h"
#include "wire/oip/rest_call.h"

enum as_model_call_protocol {
    AS_MODEL_CALL_GRPC,
    AS_MODEL_CALL_HTTP,
    AS_MODEL_CALL_HTTP_BINARY
}; /* as the option's words */

#define AS_MODEL_CALL_METADATA                                                                     \
    (AS_HTTP_CLIENT_HEADERS - AS_MAX(AS_GRPC_CALL_FIELDS, AS_REST_CALL_FIELDS))
#define AS_MODEL_CALL_AGENT "anyserve/" AS_VERSION

struct as_model_call;
typedef void (*as_model_call_on_response)(void *ctx, struct as_model_call *c);

struct as_model_call_request {
    struct as_str method, path; /* REST: "GET" has no body; gRPC: "/package.Service/Method" alone */
    struct as_str message;      /* gRPC: at most 2^32-1 bytes */
    bool framed;                /* gRPC: it is several messages, each behind its prefix */
    bool has_binary_data;       /* REST: bytes of tensors follow the JSON */
    size_t json_len;            /* which ends here */
    as_ns timeout; /* told to the server where the protocol has a word for it; 0: none */
    size_t limit;  /* bytes of the answer, or of each message of a stream */
    as_model_call_on_response
        on_response; /* as_model_call_expect_stream; NULL: there is one answer */
    void *ctx;
    const struct as_http_header *metadata;
    uint32_t n_metadata; /* at most AS_MODEL_CALL_METADATA */
};

/* The request as HTTP carries it, with the bytes that it points to: must not move. */
struct as_model_call_frame {
    struct as_http_header fields[AS_HTTP_CLIENT_HEADERS];
    struct as_http_client_request request;
    char timeout[AS_GRPC_TIMEOUT_MAX], json_len[24];
    uint8_t prefix[AS_GRPC_PREFIX];
    struct as_str body[2];
};
/* Texts of r and the authority must outlive the frame. */
void as_model_call_prepare(struct as_model_call_frame *f, enum as_model_call_protocol protocol,
                           const struct as_model_call_request *r, const char *authority);

struct as_model_call { /* zero-initialise before the first begin */
    enum as_model_call_protocol protocol;
    struct as_json *json; /* the caller's; not for gRPC */
    struct as_grpc_call grpc;
    struct as_rest_call rest;
    as_model_call_on_response on_response;
    void *ctx;
};
void as_model_call_begin(struct as_model_call *c, enum as_model_call_protocol protocol,
                         struct as_json *json, size_t limit);
/* Behind begin: the answer is a stream (of messages, or of server-sent events); each response is
 * told when it is whole, and is as_model_call_message for the call. c must not move. */
void as_model_call_expect_stream(struct as_model_call *c, as_model_call_on_response on_response,
                                 void *ctx);
/* Of the response that is being told: whether it is an error, as ModelStreamInfer and
 * generate_stream have them, and its text (in the message, or in the arena). */
bool as_model_call_is_error(struct as_model_call *c, struct as_arena *a, struct as_str *ret_text);
void as_model_call_fini(struct as_model_call *c);
void as_model_call_field(struct as_model_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the answer is not acceptable; give the call up. */
int as_model_call_data(struct as_model_call *c, const uint8_t *p, size_t n);
#define AS_MODEL_CALL_PROTOCOL_ERROR 1u /* PROTOCOL_ERROR of RFC 9113: a code of on_close */
/* A gRPC status: 0, as_model_call_message is the answer; else as_model_call_text says why. */
uint32_t as_model_call_end(struct as_model_call *c, uint32_t code, bool whole);

/* The bytes of the answer: REST: with AS_JSON_PADDING behind, of which c->rest.json_len are JSON.
 */
struct as_buf *as_model_call_message(struct as_model_call *c);
#define AS_MODEL_CALL_TEXT AS_GRPC_CALL_TEXT
char *as_model_call_text(struct as_model_call *c); /* AS_MODEL_CALL_TEXT bytes of room */

#endif
