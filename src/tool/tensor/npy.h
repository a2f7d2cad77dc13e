/* tool/tensor/npy.h — parses a NumPy .npy file: datatype, shape and data.
 *
 * Format versions 1 to 3 (NumPy's format.py). Arrays that would have to be converted (big-endian,
 * column order, objects, Unicode, structures) are refused with the reason. The bytes may be
 * hostile. Pure.
 */
#ifndef AS_TOOL_NPY_H
#define AS_TOOL_NPY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

bool as_npy_is(struct as_str file); /* the file begins with NumPy's magic bytes */
/* 0, or AS_EINVALID with a sentence in `why`. *ret_dtype is AS_DT_INVALID for two-byte voids
 * ("V2"), as which bfloat16 arrays are saved. *ret_data points into `file` and has the size of the
 * shape. */
int as_npy_read(struct as_str file, enum as_dtype *ret_dtype, int64_t ret_shape[AS_MAX_DIMS],
                uint32_t *ret_ndim, struct as_str *ret_data, struct as_buf *why);

#endif
