#include "tool/tensor/npy.h"

#define MAGIC   "\x93NUMPY"
#define MAGIC_N 6u

bool as_npy_is(struct as_str file)
{
    return file.n >= MAGIC_N && memcmp(file.p, MAGIC, MAGIC_N) == 0;
}

static int refuse_npy(struct as_buf *why, const char *what)
{
    as_buf_str(why, what);
    return AS_EINVALID;
}

/* Splits a file into the text of its dictionary and the data. */
static bool split_file(struct as_str file, struct as_str *ret_head, struct as_str *ret_data)
{
    const uint8_t *p = (const uint8_t *)file.p;
    size_t at, n;

    if (!as_npy_is(file) || file.n < 12 || p[6] < 1 || p[6] > 3)
        return false;
    at = p[6] == 1 ? 10 : 12;
    n = (size_t)p[8] | (size_t)p[9] << 8;
    if (p[6] > 1)
        n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (n > file.n - at)
        return false;
    *ret_head = (struct as_str){file.p + at, n};
    *ret_data = (struct as_str){file.p + at + n, file.n - at - n};
    return true;
}

/* The text after 'key': in the dictionary; empty if the key is missing. */
static struct as_str dict_value(struct as_str head, const char *key)
{
    char want[32];
    const char *p;
    size_t n = (size_t)snprintf(want, sizeof(want), "'%s':", key);

    p = memmem(head.p, head.n, want, n);
    if (!p)
        return (struct as_str){NULL, 0};
    p += n;
    while (p < head.p + head.n && *p == ' ')
        p++;
    return (struct as_str){p, (size_t)(head.p + head.n - p)};
}

/* Removes the quotes of a text like "'<f4'"; empty if it has none. */
static struct as_str unquote(struct as_str v)
{
    const char *end = v.n > 1 && v.p[0] == '\'' ? memchr(v.p + 1, '\'', v.n - 1) : NULL;

    return end ? (struct as_str){v.p + 1, (size_t)(end - v.p) - 1} : (struct as_str){NULL, 0};
}

static int read_descr(struct as_str v, enum as_dtype *ret_dtype, struct as_buf *why)
{
    static const struct {
        char descr[4];
        enum as_dtype dtype;
    } rows[] = {
        {"|b1", AS_DT_BOOL},    {"|u1", AS_DT_UINT8},   {"<u2", AS_DT_UINT16},
        {"<u4", AS_DT_UINT32},  {"<u8", AS_DT_UINT64},  {"|i1", AS_DT_INT8},
        {"<i2", AS_DT_INT16},   {"<i4", AS_DT_INT32},   {"<i8", AS_DT_INT64},
        {"<f2", AS_DT_FP16},    {"<f4", AS_DT_FP32},    {"<f8", AS_DT_FP64},
        {"|V2", AS_DT_INVALID}, {"<V2", AS_DT_INVALID},
    };
    struct as_str d = unquote(v);

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        if (as_str_eq(d, as_str_of(rows[i].descr))) {
            *ret_dtype = rows[i].dtype;
            return 0;
        }
    }
    if (d.n && d.p[0] == '>')
        return refuse_npy(
            why,
            "the array is big-endian: save array.astype(array.dtype.newbyteorder('<')) instead");
    as_buf_printf(why, "arrays of dtype '%.*s' cannot be sent", AS_STR_CUT(d, 32));
    return AS_EINVALID;
}

static int read_shape(struct as_str v, int64_t *shape, uint32_t *ret_ndim, struct as_buf *why)
{
    size_t i = 1;
    uint32_t n = 0;

    if (!v.n || v.p[0] != '(')
        return refuse_npy(why, "the shape cannot be read");
    for (;;) {
        size_t from;
        uint64_t size;

        while (i < v.n && (v.p[i] == ' ' || v.p[i] == ','))
            i++;
        if (i < v.n && v.p[i] == ')')
            break;
        for (from = i; i < v.n && v.p[i] >= '0' && v.p[i] <= '9'; i++)
            ;
        if (as_str_u64((struct as_str){v.p + from, i - from}, &size) || size > INT64_MAX)
            return refuse_npy(why, "the shape cannot be read");
        if (n == AS_MAX_DIMS)
            return refuse_npy(why, "the array has too many dimensions");
        shape[n++] = (int64_t)size;
    }
    *ret_ndim = n;
    return 0;
}

int as_npy_read(struct as_str file, enum as_dtype *ret_dtype, int64_t ret_shape[AS_MAX_DIMS],
                uint32_t *ret_ndim, struct as_str *ret_data, struct as_buf *why)
{
    enum as_dtype dtype = AS_DT_INVALID;
    struct as_str head, data, order;
    uint32_t ndim = 0;
    uint64_t n, size;
    int err;

    if (!split_file(file, &head, &data))
        return refuse_npy(why, "the file is not a complete .npy file of version 1 to 3");
    err = read_descr(dict_value(head, "descr"), &dtype, why);
    if (!err)
        err = read_shape(dict_value(head, "shape"), ret_shape, &ndim, why);
    if (err)
        return err;
    if (as_tensor_elements(AS_DT_FP64, ret_shape, ndim, &n))
        return refuse_npy(why, "the shape is too large");
    order = dict_value(head, "fortran_order");
    if (!(order.n >= 5 && memcmp(order.p, "False", 5) == 0) && ndim > 1)
        return refuse_npy(
            why, "the array is stored by columns: save numpy.ascontiguousarray(array) instead");
    size = n * (dtype == AS_DT_INVALID ? 2 : as_dtype_size(dtype));
    if (data.n != size) {
        as_buf_printf(why, "the file holds %zu bytes of data, its shape needs %llu", data.n,
                      (unsigned long long)size);
        return AS_EINVALID;
    }
    *ret_dtype = dtype;
    *ret_ndim = ndim;
    *ret_data = data;
    return 0;
}
