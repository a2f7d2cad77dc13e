#include "tool/tensor/number.h"

#include "base/err.h"

#include <errno.h>
#include <math.h>
#include <strings.h>

#define WHOLE_MAX      1e15  /* smaller whole floats are printed without an exponent */
#define FLOAT_TEXT_MAX 1024u /* longest float that is parsed, in bytes */

static bool is_signed(enum as_dtype t)
{
    return t >= AS_DT_INT8 && t <= AS_DT_INT64;
}

static bool is_float(enum as_dtype t)
{
    return t == AS_DT_FP16 || t == AS_DT_FP32 || t == AS_DT_FP64 || t == AS_DT_BF16;
}

/* --- half precision: FP16 has 11 significant bits and bias 15, BF16 8 and 127 --- */

static int half_digits(enum as_dtype t)
{
    return t == AS_DT_FP16 ? 11 : 8;
}

static int half_bias(enum as_dtype t)
{
    return t == AS_DT_FP16 ? 15 : 127;
}

/* Rounds to nearest, ties to even. False: too large. */
static bool double_to_half(enum as_dtype t, double v, uint16_t *ret_bits)
{
    int p = half_digits(t), bias = half_bias(t), least = 1 - bias - (p - 1), e;
    uint16_t sign = signbit(v) ? 0x8000 : 0, inf = (uint16_t)((2 * bias + 1) << (p - 1));
    double steps;

    if (isnan(v) || isinf(v)) {
        *ret_bits = (uint16_t)(sign | inf | (isnan(v) ? 1 << (p - 2) : 0));
        return true;
    }
    frexp(v, &e); /* v = 0.1… · 2^e */
    e = AS_MAX(e - p, least);
    steps = nearbyint(ldexp(fabs(v), -e)); /* multiples of 2^e, at most 2^p */
    if (steps >= ldexp(1, p)) {
        steps /= 2;
        e++;
    }
    if (steps < ldexp(1, p - 1)) { /* subnormal or zero: e == least */
        *ret_bits = (uint16_t)(sign | (uint16_t)steps);
        return true;
    }
    if (e + p - 1 > bias)
        return false;
    *ret_bits =
        (uint16_t)(sign | (e - least + 1) << (p - 1) | ((uint16_t)steps & ((1 << (p - 1)) - 1)));
    return true;
}

/* --- reading --- */

static int read_bool(struct as_str s, uint8_t *out)
{
    static const char *const words[] = {"false", "true", "False", "True", "0", "1"};

    for (size_t i = 0; i < AS_COUNT(words); i++) {
        if (as_str_eq(s, as_str_of(words[i]))) {
            *out = i % 2;
            return 0;
        }
    }
    return AS_EINVALID;
}

static int read_whole(enum as_dtype t, struct as_str s, uint8_t *out)
{
    size_t size = as_dtype_size(t), i = 0;
    bool neg = s.n && s.p[0] == '-', over = false;
    uint64_t v = 0, most = UINT64_MAX >> (64 - 8 * size + is_signed(t));
    uint32_t base = 10;

    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        i++;
    if (s.n - i > 2 && s.p[i] == '0' && (s.p[i + 1] | 0x20) == 'x') {
        base = 16;
        i += 2;
    }
    if (i == s.n)
        return AS_EINVALID;
    for (; i < s.n; i++) {
        int digit = as_hex_digit(s.p[i]);
        uint32_t d = (uint32_t)digit;

        if (digit < 0 || d >= base)
            return AS_EINVALID;
        over = over || __builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v);
    }
    if (over || v > (neg ? (is_signed(t) ? most + 1 : 0) : most))
        return AS_ETOOBIG;
    if (neg)
        v = -v;
    memcpy(out, &v, size);
    return 0;
}

static int read_float(enum as_dtype t, struct as_str s, uint8_t *out)
{
    char text[FLOAT_TEXT_MAX], *end;
    uint16_t half = 0;
    double v;
    float f;

    if (s.n == 0 || s.n >= sizeof(text) || memchr(s.p, 0, s.n) || memchr(s.p, '(', s.n) ||
        s.p[0] == ' ' || (s.p[0] >= '\t' && s.p[0] <= '\r'))
        return AS_EINVALID;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    f = t == AS_DT_FP32 ? strtof(text, &end) : 0;
    v = t == AS_DT_FP32 ? (double)f : strtod(text, &end);
    if (end != text + s.n)
        return AS_EINVALID;
    /* it overflowed: the text is not "inf" */
    if (isinf(v) && !strcasestr(text, "inf"))
        return AS_ETOOBIG;
    if (t == AS_DT_FP64) {
        memcpy(out, &v, 8);
    } else if (t == AS_DT_FP32) {
        memcpy(out, &f, 4);
    } else {
        if (!double_to_half(t, v, &half))
            return AS_ETOOBIG;
        memcpy(out, &half, 2);
    }
    return 0;
}

int as_number_read(enum as_dtype t, struct as_str text, uint8_t out[8])
{
    AS_ASSERT(as_dtype_size(t) > 0);
    if (t == AS_DT_BOOL)
        return read_bool(text, out);
    return is_float(t) ? read_float(t, text, out) : read_whole(t, text, out);
}

void as_number_why(enum as_dtype t, int err, struct as_buf *why)
{
    size_t bits = 8 * as_dtype_size(t);

    if (err == AS_EINVALID)
        as_buf_str(why, t == AS_DT_BOOL ? "is not true or false"
                        : is_float(t)   ? "is not a number"
                                        : "is not a whole number");
    else if (is_float(t))
        as_buf_printf(why, "is too large for %s", as_dtype_name(t));
    else if (is_signed(t))
        as_buf_printf(why, "is outside %lld … %lld (%s)",
                      -1 - (long long)(INT64_MAX >> (64 - bits)),
                      (long long)(INT64_MAX >> (64 - bits)), as_dtype_name(t));
    else
        as_buf_printf(why, "is outside 0 … %llu (%s)",
                      (unsigned long long)(UINT64_MAX >> (64 - bits)), as_dtype_name(t));
}

/* --- writing --- */

/* Whether the text parses to the same bits. */
static bool reads_back(enum as_dtype t, const char *text, const uint8_t *p)
{
    uint8_t again[8];

    return read_float(t, as_str_of(text), again) == 0 && memcmp(again, p, as_dtype_size(t)) == 0;
}

static void write_float(enum as_dtype t, const uint8_t *p, bool json, char out[AS_NUMBER_TEXT])
{
    /* least: all texts with so many digits are distinct values; most: enough for any value */
    int least = t == AS_DT_FP64 ? 15 : t == AS_DT_FP32 ? 6 : t == AS_DT_FP16 ? 3 : 2;
    int most = t == AS_DT_FP64 ? 17 : t == AS_DT_FP32 ? 9 : t == AS_DT_FP16 ? 5 : 4;
    uint16_t half;
    double v;
    float f;

    if (t == AS_DT_FP64) {
        memcpy(&v, p, 8);
    } else if (t == AS_DT_FP32) {
        memcpy(&f, p, 4);
        v = (double)f;
    } else {
        memcpy(&half, p, 2);
        v = (double)as_tensor_half(t, half);
    }
    if (isnan(v)) {
        snprintf(out, AS_NUMBER_TEXT, "%s", json ? "\"NaN\"" : "nan");
        return;
    }
    if (isinf(v)) {
        snprintf(out, AS_NUMBER_TEXT, "%s%s%s%s", json ? "\"" : "", v < 0 ? "-" : "",
                 json ? "Infinity" : "inf", json ? "\"" : "");
        return;
    }
    if (fabs(v) < WHOLE_MAX && v == trunc(v)) { /* 1000, not 1e+03 */
        snprintf(out, AS_NUMBER_TEXT, "%.0f", v);
        return;
    }
    for (int digits = least; digits <= most; digits++) {
        char text[AS_NUMBER_TEXT];

        snprintf(text, sizeof(text), "%.*g", digits, v);
        memcpy(out, text, sizeof(text));
        if (reads_back(t, text, p))
            break;
    }
}

void as_number_write(enum as_dtype t, const uint8_t *p, bool json, char out[AS_NUMBER_TEXT])
{
    size_t size = as_dtype_size(t);
    uint64_t v = 0;

    if (is_float(t)) {
        write_float(t, p, json, out);
        return;
    }
    memcpy(&v, p, size);
    if (t == AS_DT_BOOL)
        snprintf(out, AS_NUMBER_TEXT, "%s", v ? "true" : "false");
    else if (is_signed(t))
        snprintf(out, AS_NUMBER_TEXT, "%lld",
                 (long long)((int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size)));
    else
        snprintf(out, AS_NUMBER_TEXT, "%llu", (unsigned long long)v);
}
