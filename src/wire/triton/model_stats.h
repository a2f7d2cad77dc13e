/* wire/triton/model_stats.h — writes a model's statistics for clients of the Triton server.
 *
 * It is the message ModelStatistics of proto/open_inference.proto, which also explains which part
 * of a request each duration covers. Durations are sums over requests. Rarely requested, so it uses
 * protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_MODEL_STATS_H
#define AS_WIRE_MODEL_STATS_H

#include "base/buf.h"
#include "base/memory/arena.h"

/* The handler's calls with batches of one size, and the sums of their durations. */
struct as_model_batches {
    uint64_t size, calls;
    as_ns input_ns, infer_ns, output_ns;
};

struct as_model_stats {
    struct as_str name, version;
    uint64_t last_ms;       /* time of the last response, ms since 1970; 0: none yet */
    uint64_t inferences;    /* items: a batch of 8 counts 8 */
    uint64_t executions;    /* calls of the handler */
    uint64_t success, fail; /* requests */
    as_ns success_ns, fail_ns;
    as_ns queue_ns, input_ns, infer_ns, output_ns; /* of successful requests */
    const struct as_model_batches *batches;        /* sorted by size */
    uint32_t n_batches;
};

/* Appends a ModelStatisticsResponse, or the same as JSON. `a` is for temporary memory. 0 or
 * AS_ENOMEM. */
int as_model_stats_put(const struct as_model_stats *rows, uint32_t n, struct as_arena *a, bool json,
                       struct as_buf *out);

#endif
