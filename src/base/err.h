/* base/err.h — the table of all errors.
 *
 * Functions return 0 or a negative AS_E… code. A row decides what a client sees (text, gRPC status,
 * HTTP status), whether a retry can help, and which side caused the error. gRPC numbers are those
 * of google.rpc.Code.
 */
#ifndef AS_BASE_ERR_H
#define AS_BASE_ERR_H

#include "base/defs.h"

/* name, text, gRPC status, HTTP status, retryable */
#define AS_ERR_TABLE(X)                                                                            \
    X(EINVALID, "invalid argument", 3, 400, false)                                                 \
    X(ENOTFOUND, "not found", 5, 404, false)                                                       \
    X(EFULL, "queue is full", 8, 503, true)                                                        \
    X(ETOOBIG, "message over the limit", 8, 413, false)                                            \
    X(EHEADERS, "header fields over the limit", 8, 431, false)                                     \
    X(EMEDIA, "unsupported media type", 12, 415, false)                                            \
    X(EDEADLINE, "deadline exceeded", 4, 504, false)                                               \
    X(ESLOW, "the request did not arrive in time", 4, 408, false)                                  \
    X(ECANCELLED, "cancelled", 1, 499, false)                                                      \
    X(EUNAVAILABLE, "unavailable", 14, 503, true)                                                  \
    X(EMAYHAVERUN, "the worker died; the request may have executed", 14, 503, false)               \
    X(EHANDLER, "handler failed", 13, 500, false)                                                  \
    X(EINTERNAL, "internal error", 13, 500, false)                                                 \
    X(EUNIMPLEMENTED, "not implemented", 12, 501, false)                                           \
    X(EPROTO, "protocol error", 13, 500, false)                                                    \
    X(EEXISTS, "already exists", 6, 409, false)                                                    \
    X(EDENIED, "permission denied", 7, 403, false)                                                 \
    X(ENOMEM, "out of memory", 8, 503, true)                                                       \
    X(EAGAIN, "try again", 14, 503, true)                                                          \
    X(EOF, "end of input", 14, 503, true)                                                          \
    X(EIO, "input/output error", 14, 503, true)                                                    \
    X(EUNAUTHENTICATED, "not authenticated", 16, 401, false)                                       \
    X(EHUNG, "the handler ran for longer than its execution timeout", 4, 504, false)               \
    X(EPOISON, "this request has ended workers and is refused for a while", 13, 500, false)        \
    X(ESUSPECT,                                                                                    \
      "a request like this one has ended a worker, and no worker was free to run it alone", 14,    \
      503, true)                                                                                   \
    X(EUNTAKEN, "the response was dropped: too many responses wait to be read by their clients",   \
      8, 503, false)                                                                               \
    X(ESTALE, "it was changed meanwhile", 9, 412, false)                                           \
    X(EREPLICA, "the replica that was chosen is no longer available", 14, 503, true)               \
    X(EUNUSED, "the slot that was reserved was not used in time", 14, 503, true)

enum as_err {
    AS_OK = 0,
#define X(name, text, grpc, http, retry) AS_##name##_ROW,
    AS_ERR_TABLE(X)
#undef X
        AS_ERR_ROWS
};

/* The codes are public (anyserve/types.h) and never change: new rows are appended. */
#define X(name, text, grpc, http, retry)                                                           \
    static_assert((int)AS_##name == -(int)AS_##name##_ROW, "the table and the public codes");
AS_ERR_TABLE(X)
#undef X

/* All take 0 or a negative AS_E… code, as as_err_name and as_err_text do (anyserve/types.h). Any
 * other number counts as AS_EINTERNAL. */
uint32_t as_err_grpc(int err);  /* gRPC status number, 0 for AS_OK */
uint32_t as_err_http(int err);  /* HTTP status, 200 for AS_OK */
bool as_err_retryable(int err); /* can the same request succeed when it is sent again? */

/* gRPC status names as users write them ("RESOURCE_EXHAUSTED"); -1 / NULL when unknown. */
int as_grpc_status_of(const char *name);
const char *as_grpc_status_name(uint32_t status);
/* The HTTP status for a gRPC status that a handler raised, as google.rpc.Code maps them. */
uint32_t as_grpc_status_http(uint32_t status);

#endif
