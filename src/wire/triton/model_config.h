/* wire/triton/model_config.h — writes a model's configuration for clients of the Triton server.
 *
 * It is the message ModelConfig of proto/open_inference.proto, whose field numbers are Triton's,
 * with the fields that this server has values for. Benchmark tools need max_batch_size,
 * dynamic_batching, decoupled and the tensors. Rarely requested, so it uses protobuf-c's generated
 * code. Pure.
 */
#ifndef AS_WIRE_MODEL_CONFIG_H
#define AS_WIRE_MODEL_CONFIG_H

#include "base/buf.h"
#include "base/memory/arena.h"
#include "base/tensor.h"

struct as_model_config {
    struct as_str name, platform;
    const struct as_tensor_spec *inputs,
        *outputs; /* without the batch dimension if max_batch_size > 0 */
    uint32_t n_inputs, n_outputs;
    uint32_t max_batch_size; /* 0: tensors have no batch dimension */
    bool batching;           /* the server combines requests into batches, with: */
    const uint32_t *preferred;
    uint32_t n_preferred;
    uint64_t max_delay_us;
    bool ragged;
    bool decoupled; /* a request may have any number of responses */
};

/* The priorities of requests: 1 is the most urgent. A request without a priority has the default.
 */
#define AS_MODEL_CONFIG_PRIORITIES       3u
#define AS_MODEL_CONFIG_PRIORITY_DEFAULT 2u

/* Appends a ModelConfigResponse, or the ModelConfig in it as JSON. `a` is for temporary memory. 0
 * or AS_ENOMEM. */
int as_model_config_put(const struct as_model_config *c, struct as_arena *a, bool json,
                        struct as_buf *out);

#endif
