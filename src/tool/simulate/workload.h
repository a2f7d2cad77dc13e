/* tool/simulate/workload.h — the requests of a simulation, one after the other: the rows of a
 * trace, or generated ones.
 *
 * The first request of a trace arrives at time 0. The random numbers depend on the seed alone, so
 * that two configurations are tried with the same requests. Blocking reads of the trace's file.
 */
#ifndef AS_TOOL_SIMULATE_WORKLOAD_H
#define AS_TOOL_SIMULATE_WORKLOAD_H

#include "tool/simulate/pattern.h"
#include "tool/simulate/trace_file.h"

/* Whose a row is, by its deployment. */
enum as_workload_owner { AS_WORKLOAD_OURS, AS_WORKLOAD_OTHERS, AS_WORKLOAD_NOBODYS };

struct as_workload {
    /* set by the caller; the rest is zero */
    struct as_trace_file *trace;        /* not owned; NULL: generated arrivals */
    struct as_arrival_pattern arrivals; /* without a trace */
    bool has_service; /* rows without a service time get one by `service`; else they are refused */
    struct as_service_pattern service;
    as_ns duration;    /* requests that arrive later are left out */
    uint64_t requests; /* at most so many */
    uint64_t seed;
    enum as_workload_owner (*owner)(void *ctx, struct as_str deployment); /* NULL: all are ours */
    void *ctx;
    /* results */
    uint64_t n;       /* requests that were given out */
    uint64_t skipped; /* rows of other deployments */
    /* private */
    struct as_rand arrival_rand, service_rand;
    as_ns first; /* arrival of the trace's first row */
    bool begun;
};

/* The next request, with a service time, and its arrival since the beginning. 1; 0: there are no
 * more; AS_EINVALID, AS_EIO: `err` gets a line. */
int as_workload_next(struct as_workload *w, struct as_trace_row *ret_row, struct as_buf *err);

#endif
