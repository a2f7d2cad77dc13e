/* base/tensor.h — datatypes of the Open Inference Protocol and the view of one tensor.
 *
 * Datatype names and element sizes are those of the protocol's "Tensor Data Types" table plus BF16
 * (Triton). Data is row-major and little-endian; BYTES elements are each a little-endian u32
 * length and that many bytes.
 */
#ifndef AS_BASE_TENSOR_H
#define AS_BASE_TENSOR_H

#include "base/str.h"

/* The numbers travel on the link (docs/PROTOCOL.md): append only. */
enum as_dtype {
    AS_DT_INVALID = 0,
    AS_DT_BOOL = 1,
    AS_DT_UINT8 = 2,
    AS_DT_UINT16 = 3,
    AS_DT_UINT32 = 4,
    AS_DT_UINT64 = 5,
    AS_DT_INT8 = 6,
    AS_DT_INT16 = 7,
    AS_DT_INT32 = 8,
    AS_DT_INT64 = 9,
    AS_DT_FP16 = 10,
    AS_DT_FP32 = 11,
    AS_DT_FP64 = 12,
    AS_DT_BYTES = 13,
    AS_DT_BF16 = 14,
    AS_DT_COUNT
};

#define AS_MAX_DIMS 32 /* numpy 1.x's limit, the lowest of those we serve */

struct as_tensor {
    struct as_str name;
    enum as_dtype dtype;
    uint32_t ndim;        /* 0: scalar */
    const int64_t *shape; /* ndim sizes, each >= 0 */
    const uint8_t *data;  /* nbytes, not necessarily aligned */
    size_t nbytes;
};

/* AS_DT_INVALID when the name is none ("FP32", "BYTES" …; upper case only, as the protocol says).
 */
enum as_dtype as_dtype_of(struct as_str name);
const char *as_dtype_name(enum as_dtype t); /* "INVALID" for a number out of range */
size_t as_dtype_size(enum as_dtype t);      /* bytes per element; 0 for BYTES */

/* Product of the shape: 0, or AS_EINVALID when a size is negative or the product (times the
 * element size, for fixed-size types) exceeds 2^63-1. */
int as_tensor_elements(enum as_dtype t, const int64_t *shape, uint32_t ndim, uint64_t *ret_n);

/* Walks BYTES data: 0 when it holds exactly n elements, else AS_EINVALID. */
int as_tensor_check_bytes(const uint8_t *data, size_t nbytes, uint64_t n);

/* One entry of a model's signature. -1 in shape: any size. ndim AS_ANY_RANK: any shape. */
#define AS_ANY_RANK UINT32_MAX
struct as_tensor_spec {
    struct as_str name;
    enum as_dtype dtype;
    uint32_t ndim;
    const int64_t *shape;
    const struct as_str *labels; /* of an output: what its classes are called, by their index; */
    uint32_t n_labels; /* classes behind the last, and those with an empty one, have none */
};

#endif
