/* wire/triton/model_config.h — a model's configuration as clients of the Triton server ask for it.
 *
 * Source: message ModelConfig of proto/open_inference.proto, whose field numbers are Triton's. Only
 * what the server knows is in it. Measuring tools cannot do without it: they read max_batch_size,
 * dynamic_batching, decoupled and the tensors. Small and cold: over protobuf-c's generated code.
 * Pure.
 */
#ifndef AS_WIRE_MODEL_CONFIG_H
#define AS_WIRE_MODEL_CONFIG_H

#include "base/memory/arena.h"
#include "base/buf.h"
#include "base/tensor.h"

struct as_model_config {
    struct as_str name, platform;
    const struct as_tensor_spec *inputs, *outputs; /* of one item, when max_batch_size > 0 */
    uint32_t n_inputs, n_outputs;
    uint32_t max_batch_size; /* 0: requests have no batch dimension */
    bool batching;           /* the server makes batches; then these: */
    const uint32_t *preferred;
    uint32_t n_preferred;
    uint64_t max_delay_us;
    bool ragged;
    bool decoupled; /* 0 … n responses for a request */
};

/* Priorities that a request may name: 1 is the most urgent. A request that names none has the
 * default. */
#define AS_MODEL_CONFIG_PRIORITIES       3u
#define AS_MODEL_CONFIG_PRIORITY_DEFAULT 2u

/* ModelConfigResponse, appended. `a` for what is needed meanwhile. 0 or AS_ENOMEM. */
int as_model_config_put(const struct as_model_config *c, struct as_arena *a, struct as_buf *out);

/* The same as JSON, appended. */
void as_model_config_json(const struct as_model_config *c, struct as_buf *out);

/* "TYPE_FP32", "TYPE_STRING" …: names of the configuration's own enumeration. */
const char *as_model_config_type_name(enum as_dtype t);

#endif
