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

enum as_talk { AS_TALK_GRPC, AS_TALK_HTTP, AS_TALK_HTTP_BINARY }; /* as the option's words */

#define AS_TALK_METADATA (AS_HTTP_CLIENT_HEADERS - AS_MAX(AS_GRPC_CALL_FIELDS, AS_REST_CALL_FIELDS))
#define AS_TALK_AGENT    "anyserve/" AS_VERSION

struct as_talk_call;
typedef void (*as_talk_on_response)(void *ctx, struct as_talk_call *c);

struct as_talk_request {
    struct as_str method, path; /* REST: "GET" has no body; gRPC: "/package.Service/Method" alone */
    struct as_str message;      /* gRPC: at most 2^32-1 bytes */
    bool framed;                /* gRPC: it is several messages, each behind its prefix */
    bool has_tail;              /* REST: bytes of tensors follow the JSON */
    size_t json_len;            /* which ends here */
    as_ns timeout; /* told to the server where the protocol has a word for it; 0: none */
    size_t limit;  /* bytes of the answer, or of each message of a stream */
    as_talk_on_response on_response; /* as_talk_begin_stream; NULL: there is one answer */
    void *ctx;
    const struct as_http_header *metadata;
    uint32_t n_metadata; /* at most AS_TALK_METADATA */
};

/* The request as HTTP carries it, with the bytes that it points to: must not move. */
struct as_talk_frame {
    struct as_http_header fields[AS_HTTP_CLIENT_HEADERS];
    struct as_http_client_request request;
    char timeout[AS_GRPC_TIMEOUT_MAX], json_len[24];
    uint8_t prefix[AS_GRPC_PREFIX];
    struct as_str body[2];
};
/* Texts of r and the authority must outlive the frame. */
void as_talk_prepare(struct as_talk_frame *f, enum as_talk talk, const struct as_talk_request *r,
                     const char *authority);

struct as_talk_call { /* zero-initialise before the first begin */
    enum as_talk talk;
    struct as_json *json; /* the caller's; not for gRPC */
    struct as_grpc_call grpc;
    struct as_rest_call rest;
    as_talk_on_response on_response;
    void *ctx;
};
void as_talk_begin(struct as_talk_call *c, enum as_talk talk, struct as_json *json, size_t limit);
/* Behind begin: the answer is a stream (of messages, or of server-sent events); each response is
 * told when it is whole, and is as_talk_message for the call. c must not move. */
void as_talk_begin_stream(struct as_talk_call *c, as_talk_on_response on_response, void *ctx);
/* Of the response that is being told: whether it is an error, as ModelStreamInfer and
 * generate_stream have them, and its text (in the message, or in the arena). */
bool as_talk_is_error(struct as_talk_call *c, struct as_arena *a, struct as_str *ret_text);
void as_talk_fini(struct as_talk_call *c);
void as_talk_field(struct as_talk_call *c, struct as_str name, struct as_str value);
/* 0, or AS_EPROTO: the answer is not acceptable; give the call up. */
int as_talk_data(struct as_talk_call *c, const uint8_t *p, size_t n);
#define AS_TALK_BROKEN 1u /* PROTOCOL_ERROR of RFC 9113: a code of on_close */
/* A gRPC status: 0, as_talk_message is the answer; else as_talk_text says why. */
uint32_t as_talk_end(struct as_talk_call *c, uint32_t code, bool whole);

/* The bytes of the answer: REST: with AS_JSON_PADDING behind, of which c->rest.json_len are JSON.
 */
struct as_buf *as_talk_message(struct as_talk_call *c);
#define AS_TALK_TEXT AS_GRPC_CALL_TEXT
char *as_talk_text(struct as_talk_call *c); /* AS_TALK_TEXT bytes of room */

#endif
