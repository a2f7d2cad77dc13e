#include "base/tensor.h"

#include "base/err.h"

static const struct {
    char name[8]; /* of fixed size: a name is compared as one 64-bit number */
    uint8_t size;
} types[AS_DT_COUNT] = {
    [AS_DT_INVALID] = {"INVALID", 0}, [AS_DT_BOOL] = {"BOOL", 1},
    [AS_DT_UINT8] = {"UINT8", 1},     [AS_DT_UINT16] = {"UINT16", 2},
    [AS_DT_UINT32] = {"UINT32", 4},   [AS_DT_UINT64] = {"UINT64", 8},
    [AS_DT_INT8] = {"INT8", 1},       [AS_DT_INT16] = {"INT16", 2},
    [AS_DT_INT32] = {"INT32", 4},     [AS_DT_INT64] = {"INT64", 8},
    [AS_DT_FP16] = {"FP16", 2},       [AS_DT_FP32] = {"FP32", 4},
    [AS_DT_FP64] = {"FP64", 8},       [AS_DT_BYTES] = {"BYTES", 0},
    [AS_DT_BF16] = {"BF16", 2},
};

enum as_dtype as_dtype_of(struct as_str name)
{
    char want[8] = {0};

    if (name.n == 0 || name.n >= sizeof(want))
        return AS_DT_INVALID;
    memcpy(want, name.p, name.n);
    for (int t = AS_DT_BOOL; t < AS_DT_COUNT; t++) {
        if (memcmp(want, types[t].name, sizeof(want)) == 0)
            return (enum as_dtype)t;
    }
    return AS_DT_INVALID;
}

const char *as_dtype_name(enum as_dtype t)
{
    return types[t < AS_DT_COUNT ? t : AS_DT_INVALID].name;
}

size_t as_dtype_size(enum as_dtype t)
{
    return types[t < AS_DT_COUNT ? t : AS_DT_INVALID].size;
}

int as_tensor_elements(enum as_dtype t, const int64_t *shape, uint32_t ndim, uint64_t *ret_n)
{
    size_t size = as_dtype_size(t);
    uint64_t n = 1, total;
    bool zero = false;

    for (uint32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return AS_EINVALID;
        zero = zero || shape[i] == 0;
    }
    if (zero) {
        *ret_n = 0;
        return 0;
    }
    for (uint32_t i = 0; i < ndim; i++) {
        if (__builtin_mul_overflow(n, (uint64_t)shape[i], &n))
            return AS_EINVALID;
    }
    if (__builtin_mul_overflow(n, size ? size : 4, &total) || total > INT64_MAX)
        return AS_EINVALID;
    *ret_n = n;
    return 0;
}

int as_tensor_check_bytes(const uint8_t *data, size_t nbytes, uint64_t n)
{
    size_t at = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint32_t len;

        if (nbytes - at < 4)
            return AS_EINVALID;
        memcpy(&len, data + at, 4);
        at += 4;
        if (nbytes - at < len)
            return AS_EINVALID;
        at += len;
    }
    return at == nbytes ? 0 : AS_EINVALID;
}

bool as_tensor_param_reserved(struct as_str name)
{
    static const char *const names[] = {
        "binary_data",          "binary_data_size",     "classification",
        "shared_memory_region", "shared_memory_offset", "shared_memory_byte_size",
    };

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        if (as_str_eq(name, as_str_of(names[i])))
            return true;
    }
    return false;
}

const struct as_tensor_spec *as_tensor_spec_find(const struct as_tensor_spec *specs, uint32_t n,
                                                 struct as_str name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (as_str_eq(specs[i].name, name))
            return &specs[i];
    }
    return NULL;
}

bool as_tensor_params_ordered(const struct as_tensor_params *p, uint32_t n_tensors)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_tensor_param *m = &p->at[i];

        if (m->tensor >= n_tensors || (i && m->tensor < p->at[i - 1].tensor) ||
            m->param.type < AS_PARAM_BOOL || m->param.type > AS_PARAM_UINT64)
            return false;
    }
    return true;
}
