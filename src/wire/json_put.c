/* Writing JSON: texts of our own into a buffer, tensors into memory of a known size. */
#include "wire/json.h"
#include "wire/json_cxx.h"
#include "wire/names.h"

#include <math.h>

/* --- structure --- */

static void separate(struct as_buf *b)
{
    if (b->n && !memchr("{[: \n\t\r", b->p[b->n - 1], 7))
        as_buf_add(b, ",", 1);
}

void as_json_put_open(struct as_buf *b, char bracket)
{
    separate(b);
    as_buf_add(b, &bracket, 1);
}

void as_json_put_close(struct as_buf *b, char bracket)
{
    as_buf_add(b, &bracket, 1);
}

void as_json_put_name(struct as_buf *b, struct as_str key)
{
    as_json_put_string(b, key);
    as_buf_add(b, ":", 1);
}

void as_json_put_key(struct as_buf *b, const char *key)
{
    as_json_put_name(b, as_str_of(key));
}

void as_json_put_text(struct as_buf *b, const char *z)
{
    as_json_put_string(b, as_str_of(z));
}

void as_json_put_bool(struct as_buf *b, bool v)
{
    separate(b);
    as_buf_str(b, v ? "true" : "false");
}

void as_json_put_null(struct as_buf *b)
{
    separate(b);
    as_buf_str(b, "null");
}

void as_json_put_error(struct as_buf *b, struct as_str text)
{
    as_json_put_open(b, '{');
    as_json_put_key(b, "error");
    as_json_put_string(b, text);
    as_json_put_close(b, '}');
}

/* --- strings --- */

/* What follows the backslash; 'u': six bytes in all; 0: as it is. */
static const char escape_of[256] = {
    [0x00] = 'u', [0x01] = 'u', [0x02] = 'u', [0x03] = 'u',  [0x04] = 'u', [0x05] = 'u',
    [0x06] = 'u', [0x07] = 'u', [0x08] = 'b', [0x09] = 't',  [0x0a] = 'n', [0x0b] = 'u',
    [0x0c] = 'f', [0x0d] = 'r', [0x0e] = 'u', [0x0f] = 'u',  [0x10] = 'u', [0x11] = 'u',
    [0x12] = 'u', [0x13] = 'u', [0x14] = 'u', [0x15] = 'u',  [0x16] = 'u', [0x17] = 'u',
    [0x18] = 'u', [0x19] = 'u', [0x1a] = 'u', [0x1b] = 'u',  [0x1c] = 'u', [0x1d] = 'u',
    [0x1e] = 'u', [0x1f] = 'u', ['"'] = '"',  ['\\'] = '\\', [0x7f] = 'u',
};

size_t as_json_string_len(struct as_str s)
{
    size_t n = s.n + 2;

    for (size_t i = 0; i < s.n; i++) {
        char c = escape_of[(uint8_t)s.p[i]];

        n += c == 'u' ? 5 : c != 0;
    }
    return n;
}

size_t as_json_copy_string(uint8_t *out, struct as_str s)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *p = out;

    *p++ = '"';
    for (size_t i = 0; i < s.n;) {
        size_t from = i;
        uint8_t c;

        while (i < s.n && !escape_of[(uint8_t)s.p[i]])
            i++;
        if (i > from)
            memcpy(p, s.p + from, i - from);
        p += i - from;
        if (i == s.n)
            break;
        c = (uint8_t)s.p[i++];
        *p++ = '\\';
        *p++ = (uint8_t)escape_of[c];
        if (escape_of[c] == 'u') {
            memcpy(p, "00", 2);
            p[2] = (uint8_t)hex[c >> 4];
            p[3] = (uint8_t)hex[c & 15];
            p += 4;
        }
    }
    *p++ = '"';
    return (size_t)(p - out);
}

void as_json_put_string(struct as_buf *b, struct as_str s)
{
    separate(b);
    if (as_names_utf8(s))
        b->n += as_json_copy_string(as_buf_reserve(b, as_json_string_len(s)), s);
    else
        as_buf_json(b, s);
}

/* --- numbers --- */

#define U64_MAX_TEXT 20u

static inline uint8_t *put_u64(uint8_t *out, uint64_t v)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233"
        "34353637383940414243444546474849505152535455565758596061626364656667"
        "68697071727374757677787980818283848586878889909192939495969798"
        "99";
    uint8_t text[U64_MAX_TEXT], *p = text + sizeof(text);
    size_t n;

    for (; v >= 100; v /= 100)
        memcpy(p -= 2, pairs + 2 * (v % 100), 2);
    if (v >= 10)
        memcpy(p -= 2, pairs + 2 * v, 2);
    else
        *--p = (uint8_t)('0' + v);
    n = (size_t)(text + sizeof(text) - p);
    memcpy(out, p, n);
    return out + n;
}

static inline uint8_t *put_i64(uint8_t *out, int64_t v)
{
    if (v >= 0)
        return put_u64(out, (uint64_t)v);
    *out++ = '-';
    return put_u64(out, -(uint64_t)v);
}

static uint8_t *put_special(uint8_t *out, double v)
{
    const char *word = isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity";
    size_t n = strlen(word);

    memcpy(out, word, n);
    return out + n;
}

/* Whole numbers are written 1.0, not 1, so that who reads them knows that they are floats. */
static inline uint8_t *put_point(const uint8_t *from, uint8_t *end)
{
    for (const uint8_t *p = from; p < end; p++) {
        if (*p == '.' || *p == 'e')
            return end;
    }
    memcpy(end, ".0", 2);
    return end + 2;
}

static inline uint8_t *put_f64(uint8_t *out, double v)
{
    if (__builtin_expect(!isfinite(v), 0))
        return put_special(out, v);
    return put_point(out, (uint8_t *)as_json_cxx_put_double((char *)out, v));
}

static inline uint8_t *put_f32(uint8_t *out, float v)
{
    if (__builtin_expect(!isfinite(v), 0))
        return put_special(out, (double)v);
    return put_point(out, (uint8_t *)as_json_cxx_put_float((char *)out, v));
}

void as_json_put_i64(struct as_buf *b, int64_t v)
{
    uint8_t *p;

    separate(b);
    p = as_buf_reserve(b, 1 + U64_MAX_TEXT);
    b->n += (size_t)(put_i64(p, v) - p);
}

void as_json_put_u64(struct as_buf *b, uint64_t v)
{
    uint8_t *p;

    separate(b);
    p = as_buf_reserve(b, U64_MAX_TEXT);
    b->n += (size_t)(put_u64(p, v) - p);
}

void as_json_put_f64(struct as_buf *b, double v)
{
    uint8_t *p;

    if (!isfinite(v)) {
        as_json_put_null(b);
        return;
    }
    separate(b);
    p = as_buf_reserve(b, AS_JSON_CXX_DOUBLE + 2);
    b->n += (size_t)(put_f64(p, v) - p);
}

/* --- tensors --- */

/* Bytes of the longest element, its comma and a ".0" too. */
static const uint8_t text_max[AS_DT_COUNT] = {
    [AS_DT_BOOL] = 6,
    [AS_DT_UINT8] = 4,
    [AS_DT_UINT16] = 6,
    [AS_DT_UINT32] = 11,
    [AS_DT_UINT64] = 21,
    [AS_DT_INT8] = 5,
    [AS_DT_INT16] = 7,
    [AS_DT_INT32] = 12,
    [AS_DT_INT64] = 21,
    [AS_DT_FP16] = AS_JSON_CXX_FLOAT + 3,
    [AS_DT_BF16] = AS_JSON_CXX_FLOAT + 3,
    [AS_DT_FP32] = AS_JSON_CXX_FLOAT + 3,
    [AS_DT_FP64] = AS_JSON_CXX_DOUBLE + 3,
};

static struct as_str next_bytes(const uint8_t **p)
{
    uint32_t n;
    struct as_str s;

    memcpy(&n, *p, 4);
    s = (struct as_str){(const char *)*p + 4, n};
    *p += 4 + (size_t)n;
    return s;
}

uint64_t as_json_elements_max(enum as_dtype t, const uint8_t *data, size_t nbytes)
{
    const uint8_t *p = data, *end = data + nbytes;
    uint64_t n = 0;

    if (t != AS_DT_BYTES)
        return nbytes / as_dtype_size(t) * text_max[t];
    while (p < end) {
        struct as_str s = next_bytes(&p);

        if (!as_names_utf8(s))
            return UINT64_MAX;
        n += as_json_string_len(s) + 1;
    }
    return n;
}

static float half_to_float(uint16_t h)
{
    uint32_t e = h >> 10 & 31, m = h & 0x3ff;
    float f;

    if (e == 31)
        f = m ? NAN : INFINITY;
    else
        f = ldexpf((float)(e ? m | 0x400 : m), (int)(e ? e : 1) - 25);
    return h & 0x8000 ? -f : f;
}

static float bf16_to_float(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, 4);
    return f;
}

size_t as_json_put_elements(uint8_t *out, enum as_dtype t, const uint8_t *data, size_t nbytes)
{
    const uint8_t *p = data, *end = data + nbytes;
    uint8_t *to = out;

#define EACH(T, type, print)                                                                       \
    case AS_DT_##T:                                                                                \
        for (; p < end; p += sizeof(type)) {                                                       \
            type v;                                                                                \
            memcpy(&v, p, sizeof(v));                                                              \
            to = print;                                                                            \
            *to++ = ',';                                                                           \
        }                                                                                          \
        break;
    switch (t) {
        EACH(UINT8, uint8_t, put_u64(to, v))
        EACH(UINT16, uint16_t, put_u64(to, v))
        EACH(UINT32, uint32_t, put_u64(to, v))
        EACH(UINT64, uint64_t, put_u64(to, v))
        EACH(INT8, int8_t, put_i64(to, v))
        EACH(INT16, int16_t, put_i64(to, v))
        EACH(INT32, int32_t, put_i64(to, v))
        EACH(INT64, int64_t, put_i64(to, v))
        EACH(FP16, uint16_t, put_f32(to, half_to_float(v)))
        EACH(BF16, uint16_t, put_f32(to, bf16_to_float(v)))
        EACH(FP32, float, put_f32(to, v))
        EACH(FP64, double, put_f64(to, v))
#undef EACH
    case AS_DT_BOOL:
        for (; p < end; p++) {
            size_t n = *p ? 4 : 5;

            memcpy(to, *p ? "true," : "false,", n + 1);
            to += n + 1;
        }
        break;
    case AS_DT_BYTES:
        while (p < end) {
            to += as_json_copy_string(to, next_bytes(&p));
            *to++ = ',';
        }
        break;
    case AS_DT_INVALID:
    case AS_DT_COUNT:
    default:
        break;
    }
    return (size_t)(to - out) - (to > out);
}
