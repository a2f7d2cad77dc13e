/* wire/triton/model_stats.h — what became of a model's requests, as clients of the Triton server read it.
 *
 * Source: message ModelStatistics of proto/open_inference.proto. Durations are sums over requests;
 * which part of a request's life each of them is, is said there. Small and cold: over protobuf-c's
 * generated code. Pure.
 */
#ifndef AS_WIRE_MODEL_STATS_H
#define AS_WIRE_MODEL_STATS_H

#include "base/memory/arena.h"
#include "base/buf.h"

/* Calls of the handler with so many items, and where their time went. */
struct as_model_batches {
    uint64_t size, calls;
    as_ns input_ns, infer_ns, output_ns;
};

struct as_model_stats {
    struct as_str name, version;
    uint64_t last_ms;       /* the last answer, ms since 1970; 0: none */
    uint64_t inferences;    /* items of batches, each for itself */
    uint64_t executions;    /* calls of the handler */
    uint64_t success, fail; /* requests */
    as_ns success_ns, fail_ns;
    as_ns queue_ns, input_ns, infer_ns, output_ns; /* of successful requests */
    const struct as_model_batches *batches;        /* by size, rising */
    uint32_t n_batches;
};

/* ModelStatisticsResponse, appended. `a` for what is needed meanwhile. 0 or AS_ENOMEM. */
int as_model_stats_put(const struct as_model_stats *rows, uint32_t n, struct as_arena *a,
                       struct as_buf *out);
/* The same as JSON, appended. */
void as_model_stats_json(const struct as_model_stats *rows, uint32_t n, struct as_buf *out);

#endif
