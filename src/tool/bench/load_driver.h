/* tool/bench/load_driver.h — puts load on a server: many calls of one kind over many connections.
 *
 * Closed loop: each of connections × streams callers starts its next call when the last one is
 * answered. Open loop: calls are due at the moments of tool/bench/arrival_schedule, whatever the
 * server does; one that finds every stream taken is sent as soon as one is free, and its latency
 * counts from its moment. Phases: warm-up (not counted), measurement, and the wait for what was
 * begun in it. A connection that is lost is not opened again, but for one of HTTP/1.1 that ended
 * behind an answer, or with a call that was given up: there, that is how things are. Thread: runs
 * its own loop.
 */
#ifndef AS_TOOL_DRIVE_H
#define AS_TOOL_DRIVE_H

#include "tool/call/client_connection.h"
#include "tool/bench/tally.h"
#include "tool/call/model_call.h"

#include <signal.h>

struct as_load_driver_conf {
    const int *fds; /* connected; taken by as_load_driver_run */
    uint32_t connections, streams;
    uint64_t rate; /* per second; 0: closed loop */
    bool poisson;
    uint64_t seed;
    as_ns warmup, duration;
    uint64_t requests; /* 0: by duration */
    enum as_model_call_protocol protocol;
    bool stream; /* a call has any number of responses; one that is an error makes it fail */
    struct as_model_call_request request; /* its timeout counts from the sending of a call */
    const char *authority;
    volatile sig_atomic_t *interrupted; /* set from a signal handler: ends the measurement */
    /* About once a second: what has been counted in `seconds` of measurement (0: warming up). */
    void (*progress)(void *ctx, const struct as_tally *t, double seconds);
    void *ctx;
};

struct as_load_driver_result {
    struct as_tally tally;
    as_ns measured;    /* length of the measurement */
    uint32_t lost;     /* connections that ended before the load did */
    char why[128];     /* the first one's reason */
    uint64_t reopened; /* that ended in the middle of the load, and were opened again */
    char why_reopened[128];
    bool interrupted;
};

/* 0; AS_EIO, AS_ENOMEM: could not start; AS_EUNAVAILABLE: all connections were lost before anything
 * was measured. All descriptors are closed. */
int as_load_driver_run(const struct as_load_driver_conf *conf, struct as_load_driver_result *ret_r);

#endif
