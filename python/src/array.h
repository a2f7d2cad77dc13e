/* array.h — tensors as numpy arrays, over the link's bytes or copied. Needs the GIL. */
#ifndef ANYSERVE_ARRAY_H
#define ANYSERVE_ARRAY_H

#include "native.h"

#define NPY_NO_DEPRECATED_API  NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL anyserve_array_api
#ifndef ANYSERVE_IMPORT_ARRAY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

extern PyTypeObject native_hold_type;

/* The number of elements of a tensor whose shape was checked. */
static inline uint64_t native_count(const struct as_tensor *t)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < t->ndim; i++)
        n *= (uint64_t)t->shape[i];
    return n;
}

int native_array_init(void); /* once, when the module is imported; -1 with an exception */
PyArray_Descr *native_descr(enum as_dtype t); /* a borrowed reference */
/* An array over the tensor's bytes, read-only. *hold is made when first needed; the caller drops
 * it. */
PyObject *native_array(struct as_worker_req *q, const struct as_tensor *t, PyObject **hold);
/* One array with several tensors of the same kind, one after the other: a copy, of `rows` rows. */
PyObject *native_stack(const struct as_tensor *const *t, Py_ssize_t n, int64_t rows);
/* A copy of the tensor as a writable array. */
PyObject *native_array_copy(const struct as_tensor *t);

#endif
