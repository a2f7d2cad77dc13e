/* tool/call/unary.h — one call after the other on one connection, waiting for each answer.
 *
 * For commands: runs the loop until the call has ended, by the server, by its deadline, or with the
 * connection. An HTTP/1.1 connection that the server ends behind its answer is opened again by
 * nobody: the next call fails. Thread: one that runs no other loop.
 */
#ifndef AS_TOOL_UNARY_H
#define AS_TOOL_UNARY_H

#include "tool/call/client_connection.h"
#include "tool/call/model_call.h"

struct as_unary {
    struct as_loop *loop;
    struct as_client_connection *peer;
    struct as_timer timer;
    enum as_model_call_protocol protocol;
    struct as_json *json;      /* of this connection; NULL over gRPC */
    const char *authority;     /* kept by the caller */
    struct as_model_call call; /* after as_unary_call: message and text of the answer */
    bool open, timed_out, connection_lost, running;
    uint32_t stream, status;
    as_ns elapsed; /* from the request to its end */
};

/* Takes fd. 0, or AS_EIO, AS_ENOMEM: there is nothing to close. */
int as_unary_open(struct as_unary *u, int fd, enum as_model_call_protocol protocol,
                  const char *authority);
void as_unary_close(struct as_unary *u);

/* The gRPC status; text and message are in u->call until the next call. */
uint32_t as_unary_call(struct as_unary *u, const struct as_model_call_request *r);

#endif
