/* base/err.h — the one table of errors.
 *
 * Functions return 0 or a negative AS_E… code. A row fixes what a client sees: text, gRPC status,
 * HTTP status, whether trying again can help, and who is to blame. gRPC numbers are those of
 * google.rpc.Code; HTTP numbers follow protocols.md §1.4 (deadline: 504 on /v2).
 */
#ifndef AS_BASE_ERR_H
#define AS_BASE_ERR_H

#include "base/defs.h"

/* name, text, gRPC status, HTTP status, retryable, blame: c client, w worker, s server, n nobody */
#define AS_ERR_TABLE(X)                                                                            \
    X(EINVALID, "invalid argument", 3, 400, false, 'c')                                            \
    X(ENOTFOUND, "not found", 5, 404, false, 'c')                                                  \
    X(EFULL, "queue is full", 8, 503, true, 'n')                                                   \
    X(ETOOBIG, "message over the limit", 8, 413, false, 'c')                                       \
    X(EHEADERS, "header fields over the limit", 8, 431, false, 'c')                                \
    X(EMEDIA, "unsupported media type", 12, 415, false, 'c')                                       \
    X(EDEADLINE, "deadline exceeded", 4, 504, false, 'n')                                          \
    X(ESLOW, "the request stopped coming", 4, 408, false, 'c')                                     \
    X(ECANCELLED, "cancelled", 1, 499, false, 'c')                                                 \
    X(EUNAVAILABLE, "unavailable", 14, 503, true, 's')                                             \
    X(EMAYHAVERUN, "the worker died; the request may have executed", 14, 503, false, 'w')          \
    X(EHANDLER, "handler failed", 13, 500, false, 'w')                                             \
    X(EINTERNAL, "internal error", 13, 500, false, 's')                                            \
    X(EUNIMPLEMENTED, "not implemented", 12, 501, false, 'c')                                      \
    X(EPROTO, "protocol error", 13, 500, false, 'w')                                               \
    X(EEXISTS, "already exists", 6, 409, false, 'w')                                               \
    X(EDENIED, "permission denied", 7, 403, false, 'c')                                            \
    X(ENOMEM, "out of memory", 8, 503, true, 's')                                                  \
    X(EAGAIN, "try again", 14, 503, true, 's')                                                     \
    X(EOF, "end of input", 14, 503, true, 'n')                                                     \
    X(EIO, "input/output error", 14, 503, true, 's')                                               \
    X(EUNAUTHENTICATED, "not authenticated", 16, 401, false, 'c')                                  \
    X(EHUNG, "the handler ran for longer than its execution timeout", 4, 504, false, 'w')          \
    X(EPOISON, "the same request has ended workers; it is refused for a while", 13, 500, false,    \
      'c')                                                                                         \
    X(ESUSPECT, "a request like it has ended a worker; none was free to run it alone", 14, 503,    \
      true, 's')                                                                                   \
    X(EUNTAKEN, "the answer was dropped, too many wait for clients to take them", 8, 503, false,   \
      'c')

enum as_err {
    AS_OK = 0,
#define X(name, text, grpc, http, retry, blame) AS_##name##_ROW,
    AS_ERR_TABLE(X)
#undef X
        AS_ERR_ROWS
};

/* The codes are public (anyserve/types.h), and so are frozen: rows are appended. */
#define X(name, text, grpc, http, retry, blame)                                                    \
    static_assert((int)AS_##name == -(int)AS_##name##_ROW, "the table and the public codes");
AS_ERR_TABLE(X)
#undef X

/* As as_err_name and as_err_text do, all take 0 or a negative AS_E… code; anything else reads as
 * AS_EINTERNAL. */
uint32_t as_err_grpc(int err);  /* gRPC status number, 0 for AS_OK */
uint32_t as_err_http(int err);  /* HTTP status, 200 for AS_OK */
bool as_err_retryable(int err); /* may the same request be tried again at once or later? */
char as_err_blame(int err);     /* 'c' client, 'w' worker, 's' server, 'n' nobody */

/* gRPC status names as users write them ("RESOURCE_EXHAUSTED"); -1 / NULL when unknown. */
int as_grpc_status_of(const char *name);
const char *as_grpc_status_name(uint32_t status);
/* The HTTP status of what a handler raised with a gRPC status: as google.rpc.Code says. */
uint32_t as_grpc_status_http(uint32_t status);

#endif
