#include "tool/tensor/print.h"

#include "tool/tensor/number.h"
#include "wire/grpc/grpc_call.h"
#include "wire/name_check.h"

void as_print_shape(struct as_buf *b, const int64_t *shape, uint32_t ndim)
{
    as_buf_str(b, "[");
    for (uint32_t i = 0; i < ndim; i++)
        as_buf_printf(b, "%s%lld", i ? "," : "", (long long)shape[i]);
    as_buf_str(b, "]");
}

void as_print_type(struct as_buf *b, enum as_dtype t, const int64_t *shape, uint32_t ndim)
{
    as_buf_str(b, t == AS_DT_INVALID ? "unknown datatype" : as_dtype_name(t));
    if (ndim == AS_ANY_RANK)
        return;
    as_buf_str(b, " ");
    as_print_shape(b, shape, ndim);
}

/* Returns the BYTES element at *at and moves *at to the next; the tensor was checked when it was
 * parsed. */
static struct as_str next_bytes(const struct as_tensor *t, size_t *at)
{
    struct as_str s;
    uint32_t n;

    memcpy(&n, t->data + *at, 4);
    s = (struct as_str){(const char *)t->data + *at + 4, n};
    *at += 4 + (size_t)n;
    return s;
}

/* A JSON string; if it is not UTF-8, \xHH for bytes that are not ASCII. */
static void add_bytes(struct as_buf *b, struct as_str s)
{
    if (as_name_check_utf8(s)) {
        as_buf_json(b, s);
        return;
    }
    as_buf_str(b, "\"");
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
            as_buf_add(b, &c, 1);
        else
            as_buf_printf(b, "\\x%02x", (unsigned)(uint8_t)c);
    }
    as_buf_str(b, "\"");
}

static void add_element(struct as_buf *b, const struct as_tensor *t, uint64_t i, size_t *at)
{
    char text[AS_NUMBER_TEXT];

    if (t->dtype == AS_DT_BYTES) {
        add_bytes(b, next_bytes(t, at));
        return;
    }
    as_number_write(t->dtype, t->data + i * as_dtype_size(t->dtype), false, text);
    as_buf_str(b, text);
}

static void repeat(struct as_buf *b, const char *what, uint32_t times)
{
    while (times-- > 0)
        as_buf_str(b, what);
}

/* The number of brackets that close after i elements. */
static uint32_t closed_dims(const struct as_tensor *t, uint64_t i)
{
    uint64_t block = 1;
    uint32_t n = 0;

    while (n < t->ndim) {
        block *= (uint64_t)t->shape[t->ndim - 1 - n];
        if (i % block)
            break;
        n++;
    }
    return n;
}

/* The brackets of a tensor without elements. */
static void add_empty(struct as_buf *b, const struct as_tensor *t, uint32_t dim, uint64_t most)
{
    uint64_t n = dim < t->ndim ? (uint64_t)t->shape[dim] : 0;

    as_buf_str(b, "[");
    for (uint64_t i = 0; i < n && i < most; i++) {
        as_buf_str(b, i ? ", " : "");
        add_empty(b, t, dim + 1, most);
    }
    as_buf_str(b, n > most ? ", …]" : "]");
}

void as_print_values(struct as_buf *b, const struct as_tensor *t, uint64_t most)
{
    uint64_t n, shown;
    size_t at = 0;

    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &n))
        return; /* the parser refuses such a shape */
    if (n == 0) {
        add_empty(b, t, 0, 8);
        return;
    }
    shown = most && most < n ? most : n;
    repeat(b, "[", t->ndim);
    for (uint64_t i = 0; i < shown; i++) {
        uint32_t up = i ? closed_dims(t, i) : 0;

        if (up) {
            repeat(b, "]", up);
            as_buf_str(b, ",\n");
            repeat(b, " ", t->ndim - up);
            repeat(b, "[", up);
        } else if (i) {
            as_buf_str(b, ", ");
        }
        add_element(b, t, i, &at);
    }
    if (shown < n)
        as_buf_printf(b, ", … (%llu more values; --max-values all)",
                      (unsigned long long)(n - shown));
    else
        repeat(b, "]", t->ndim);
}

static bool all_utf8(const struct as_tensor *t, uint64_t n)
{
    size_t at = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (!as_name_check_utf8(next_bytes(t, &at)))
            return false;
    }
    return true;
}

static void add_json_data(struct as_buf *b, const struct as_tensor *t)
{
    bool bytes = t->dtype == AS_DT_BYTES, text = true;
    size_t at = 0, from, size = as_dtype_size(t->dtype);
    char number[AS_NUMBER_TEXT];
    uint64_t n;

    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &n))
        n = 0;
    if (bytes)
        text = all_utf8(t, n);
    as_buf_str(b, text ? "\"data\":[" : "\"data_base64\":[");
    for (uint64_t i = 0; i < n; i++) {
        as_buf_str(b, i ? "," : "");
        if (bytes && text) {
            as_buf_json(b, next_bytes(t, &at));
        } else if (bytes) {
            as_buf_str(b, "\"");
            from = b->n;
            as_grpc_put_bin(b, next_bytes(t, &at));
            repeat(b, "=", (uint32_t)(from - b->n) & 3); /* most base64 decoders need the padding */
            as_buf_str(b, "\"");
        } else {
            as_number_write(t->dtype, t->data + i * size, true, number);
            as_buf_str(b, number);
        }
    }
    as_buf_str(b, "]");
}

void as_print_json_tensor(struct as_buf *b, const struct as_tensor *t)
{
    as_buf_str(b, "{\"name\":");
    as_buf_json(b, t->name);
    as_buf_printf(b, ",\"datatype\":\"%s\",\"shape\":", as_dtype_name(t->dtype));
    as_print_shape(b, t->shape, t->ndim);
    as_buf_str(b, ",");
    add_json_data(b, t);
    as_buf_str(b, "}");
}

void as_print_sanitize(struct as_buf *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if ((b->p[i] < 0x20 && b->p[i] != '\n' && b->p[i] != '\t') || b->p[i] == 0x7f)
            b->p[i] = '?';
    }
}

static void add_param(struct as_buf *b, const struct as_param *p, bool json)
{
    char text[AS_NUMBER_TEXT];

    switch (p->type) {
    case AS_PARAM_BOOL:
        as_buf_str(b, p->b ? "true" : "false");
        break;
    case AS_PARAM_INT64:
        as_buf_printf(b, "%lld", (long long)p->i64);
        break;
    case AS_PARAM_UINT64:
        as_buf_printf(b, "%llu", (unsigned long long)p->u64);
        break;
    case AS_PARAM_DOUBLE:
        as_number_write(AS_DT_FP64, (const uint8_t *)&p->f64, json, text);
        as_buf_str(b, text);
        break;
    case AS_PARAM_STRING:
    default:
        as_buf_json(b, p->str);
        break;
    }
}

void as_print_params(struct as_buf *b, const struct as_param *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        as_buf_printf(b, "%s%.*s=", i ? " " : "", AS_STR_FMT(p[i].name));
        add_param(b, &p[i], false);
    }
}

void as_print_json_params(struct as_buf *b, const struct as_param *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        as_buf_str(b, i ? "," : "");
        as_buf_json(b, p[i].name);
        as_buf_str(b, ":");
        add_param(b, &p[i], true);
    }
}
