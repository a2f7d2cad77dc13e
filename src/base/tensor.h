/* base/tensor.h — datatypes of the Open Inference Protocol and the view of one tensor.
 *
 * The types are those of the public header; what is done with them inside AnyServe is below.
 * Datatype names and element sizes are those of the protocol's "Tensor Data Types" table plus BF16
 * (Triton). The numbers travel on the link (docs/PROTOCOL.md): append only.
 */
#ifndef AS_BASE_TENSOR_H
#define AS_BASE_TENSOR_H

#include "base/str.h"

/* Product of the shape: 0, or AS_EINVALID when a size is negative or the product (times the
 * element size, for fixed-size types) exceeds 2^63-1. */
int as_tensor_elements(enum as_dtype t, const int64_t *shape, uint32_t ndim, uint64_t *ret_n);

/* The parameters of single tensors of a message, in the order of its tensors. They travel beside
 * as_msg, whose form is frozen. */
struct as_tensor_params {
    const struct as_tensor_param *at;
    uint32_t n;
};
/* In the order of the tensors, of which there are n_tensors; of known types. */
bool as_tensor_params_ordered(const struct as_tensor_params *p, uint32_t n_tensors);

/* Walks BYTES data: 0 when it holds exactly n elements, else AS_EINVALID. */
int as_tensor_check_bytes(const uint8_t *data, size_t nbytes, uint64_t n);

#endif
