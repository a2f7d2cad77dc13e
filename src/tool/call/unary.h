/* tool/call/unary.h — blocking calls on one connection, one after the other.
 *
 * For commands. A call runs the event loop until the server ends the call, its timeout passes, or
 * the connection ends. A connection that has ended is not opened again: the next call fails. (A
 * server may end an HTTP/1.1 connection after any response.) Thread: one that runs no other loop.
 */
#ifndef AS_TOOL_UNARY_H
#define AS_TOOL_UNARY_H

#include "io/tls/tls_client.h"
#include "tool/call/client_connection.h"
#include "tool/call/model_call.h"

struct as_unary {
    struct as_loop *loop;
    struct as_client_connection *connection;
    struct as_tls_buffer *tls_buffer; /* NULL: clear text */
    struct as_timer timer;
    enum as_model_call_protocol protocol;
    struct as_json *json;      /* NULL for gRPC */
    const char *authority;     /* must outlive the struct */
    struct as_model_call call; /* after as_unary_call: the response and the error text */
    bool open, timed_out, connection_lost, running;
    uint32_t stream, status;
    as_ns elapsed; /* from the request to the end of the call */
};

/* Owns fd from then on. tls: the connection speaks TLS by it; NULL: clear text. 0, or AS_EIO,
 * AS_ENOMEM: then nothing is left to close. */
int as_unary_open(struct as_unary *u, int fd, struct as_tls_client *tls,
                  enum as_model_call_protocol protocol, const char *authority);
/* Waits for the end of TLS's handshake, if there is one. 0; AS_EUNAVAILABLE: it has failed, or was
 * not done within `timeout`; u->connection->why says why. */
int as_unary_wait_handshake(struct as_unary *u, as_ns timeout);
void as_unary_close(struct as_unary *u);

/* Returns the gRPC status. The response and the error text are in u->call until the next call. */
uint32_t as_unary_call(struct as_unary *u, const struct as_model_call_request *r);

#endif
