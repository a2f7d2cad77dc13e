/* tool/bench/load_driver.h — puts load on a server: many identical calls over many connections.
 *
 * Closed loop: each of connections × streams callers starts its next call when its last one has
 * ended. Open loop: calls are due at the times of tool/bench/arrival_schedule, however slow the
 * server is. A call that is due while every stream is in use is sent when a stream is free; its
 * latency counts from the time at which it was due.
 *
 * With TLS, the load begins when the handshakes of all connections are done; a few are in progress
 * at once, because a server limits them.
 *
 * Phases: warm-up (not counted), measurement, and drain, which waits for the calls that were sent
 * during the measurement. A lost connection is not opened again, with one exception: a connection
 * of HTTP/1.1 that ended after a response, or with a call that was cancelled, because HTTP/1.1
 * allows that. Thread: the caller's; as_load_driver_run runs a loop of its own.
 */
#ifndef AS_TOOL_LOAD_DRIVER_H
#define AS_TOOL_LOAD_DRIVER_H

#include "io/tls/tls_client.h"
#include "tool/bench/tally.h"
#include "tool/call/client_connection.h"
#include "tool/call/model_call.h"

#include <signal.h>

struct as_load_driver_conf {
    const int *fds; /* connected; as_load_driver_run closes them. -1: it connects to the peer of
                       the first one */
    uint32_t connections, streams;
    uint64_t rate; /* calls per second; 0: closed loop */
    bool poisson;
    bool poll; /* with a rate: does not sleep until the next call is due */
    uint64_t seed;
    as_ns warmup, duration;
    uint64_t requests; /* calls to measure; 0: measure for `duration` */
    enum as_model_call_protocol protocol;
    struct as_tls_client *tls; /* the connections speak TLS by it; NULL: clear text */
    as_ns connect_timeout;     /* of a handshake of TLS */
    bool stream; /* a call has any number of responses; it fails if one of them is an error */
    struct as_model_call_request request; /* its timeout counts from when a call is sent */
    const struct as_str *answer; /* a call fails if its answer is another; NULL: any is good */
    const char *authority;
    volatile sig_atomic_t *interrupted; /* a signal handler sets it to end the measurement */
    /* Called about once a second with the counts after `seconds` of measurement (0: warming up). */
    void (*progress)(void *ctx, const struct as_tally *t, double seconds);
    void *ctx;
};

struct as_load_driver_result {
    struct as_tally tally;
    uint64_t sent;     /* calls, with those of the warm-up */
    as_ns measured;    /* duration of the measurement */
    uint32_t lost;     /* connections that ended before the load */
    char why[128];     /* why the first of them ended */
    uint64_t reopened; /* connections that ended during the load and were opened again */
    char why_reopened[128];
    bool interrupted;
};

/* 0; AS_EIO, AS_ENOMEM: could not start; AS_EUNAVAILABLE: all connections were lost before anything
 * was measured. Closes all descriptors, also after an error. */
int as_load_driver_run(const struct as_load_driver_conf *conf, struct as_load_driver_result *ret_r);

#endif
