/* base/tensor.h — checks of tensors and their parameters (Open Inference Protocol).
 *
 * The types are in the public header (anyserve/types.h). Datatype names and element sizes are those
 * of the protocol's table "Tensor Data Types", plus BF16 (Triton). The numbers of enum as_dtype are
 * sent on the link (docs/protocol/link.md): new ones are only appended.
 */
#ifndef AS_BASE_TENSOR_H
#define AS_BASE_TENSOR_H

#include "base/str.h"

/* *ret_n: the number of elements, the product of the shape. 0; AS_EINVALID: a dimension is
 * negative, or the tensor's bytes (4 for each element of BYTES) exceed 2^63-1. */
int as_tensor_elements(enum as_dtype t, const int64_t *shape, uint32_t ndim, uint64_t *ret_n);

/* The value of an FP16 or BF16 with these bits. */
static inline float as_tensor_half(enum as_dtype t, uint16_t bits)
{
    uint32_t e = bits >> 10 & 31, m = bits & 0x3ff, sign = (uint32_t)(bits & 0x8000) << 16, wide;
    float f;

    if (t == AS_DT_FP16 && e == 0) /* zero or subnormal */
        return (float)m * (sign ? -0x1p-24f : 0x1p-24f);
    if (t == AS_DT_FP16)
        wide = sign | (e == 31 ? 255 : e + 112) << 23 | m << 13;
    else
        wide = (uint32_t)bits << 16;
    memcpy(&f, &wide, 4);
    return f;
}

/* The entry of a signature with that name; NULL: none. */
const struct as_tensor_spec *as_tensor_spec_find(const struct as_tensor_spec *specs, uint32_t n,
                                                 struct as_str name);

/* The parameters of the single tensors of a message, in the order of its tensors. They are passed
 * beside struct as_msg, which is public and cannot get another field. */
struct as_tensor_params {
    const struct as_tensor_param *at; /* n of them */
    uint32_t n;
};
/* True: all have a known type, belong to one of n_tensors tensors, and are in their order. */
bool as_tensor_params_ordered(const struct as_tensor_params *p, uint32_t n_tensors);

/* Checks the data of a BYTES tensor (elements with a length of 4 bytes in front of each). 0: it
 * holds exactly n elements; else AS_EINVALID. */
int as_tensor_check_bytes(const uint8_t *data, size_t nbytes, uint64_t n);

#endif
