/* bench/baselines/echo_core.h — the baseline: what nghttp2 alone needs to answer a unary gRPC call.
 *
 * Any call is answered with the body it brought and grpc-status 0. One connection is one nghttp2
 * session; the two fronts (b0_echo.c on epoll, uv_echo.c on libuv) differ in the loop only.
 * Deliberately nothing else: no routing, no limits, no deadlines. Not for hostile peers.
 */
#ifndef AS_BENCH_ECHO_CORE_H
#define AS_BENCH_ECHO_CORE_H

#include "base/defs.h"

struct as_echo;

/* A listening, non-blocking socket on 127.0.0.1 (port 0: any; the port is printed as "port N").
 * Ends the program if it cannot. */
int as_echo_listen(const char *port);

/* Takes over an accepted socket. */
struct as_echo *as_echo_new(int listener);
void as_echo_free(struct as_echo *e); /* closes the socket too */
int as_echo_fd(const struct as_echo *e);

/* One loop turn: at most one read, then at most one write. False: the connection is over. */
bool as_echo_turn(struct as_echo *e, bool readable);
/* The socket took less than there was: turn again when it is writable. */
bool as_echo_is_blocked(const struct as_echo *e);

#endif
