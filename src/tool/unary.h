/* tool/unary.h — one gRPC call after the other on one connection, waiting for each answer.
 *
 * For commands: runs the loop until the call has ended, by the server, by its deadline, or with the
 * connection. Thread: one that runs no other loop.
 */
#ifndef AS_TOOL_UNARY_H
#define AS_TOOL_UNARY_H

#include "tool/peer.h"
#include "wire/grpc_call.h"

struct as_unary {
    struct as_loop *loop;
    struct as_peer *peer;
    struct as_timer timer;
    const char *authority;    /* kept by the caller */
    struct as_grpc_call call; /* after as_unary_call: message and text of the answer */
    bool open, late, broken, running;
    uint32_t stream, status;
    as_ns took; /* from the request to its end */
};

/* Takes fd. 0, or AS_EIO, AS_ENOMEM: there is nothing to close. */
int as_unary_open(struct as_unary *u, int fd, const char *authority);
void as_unary_close(struct as_unary *u);

struct as_unary_request {
    const char *path;      /* "/package.Service/Method" */
    struct as_str message; /* at most 2^32-1 bytes */
    as_ns timeout;         /* 0: none */
    size_t limit;          /* bytes of the answer */
    const struct as_http_header *metadata;
    uint32_t n_metadata; /* at most AS_UNARY_METADATA */
};
#define AS_UNARY_METADATA (AS_HTTP_CLIENT_HEADERS - AS_GRPC_CALL_FIELDS)

/* The gRPC status; texts and message are in u->call until the next call. */
uint32_t as_unary_call(struct as_unary *u, const struct as_unary_request *r);

#define AS_UNARY_AGENT "anyserve/" AS_VERSION

#endif
