/* Prints numbers and tensors as JSON: eight digits at a time; a float has the shortest digits that
 * read back as the same value. */
#include "wire/json/json_internal.h"
#include "wire/name_check.h"

#include <math.h>

/* Every function that prints a number may overwrite AS_JSON_NUMBER_ROOM bytes at `out`, even if the
 * text is shorter. */

/* --- digits --- */

#define ZEROS 0x3030303030303030u /* eight '0' */

static inline void store_eight(uint8_t *out, uint64_t text)
{
    memcpy(out, &text, 8);
}

/* The text of v < 10^8 with leading zeros, its first digit in the lowest byte. The number is split
 * into halves, then quarters, then digits; each step splits all parts at once, by a multiplication
 * with 1/100 or 1/10. */
static inline uint64_t eight_digits(uint32_t v)
{
    uint64_t fours = v / 10000 | (uint64_t)(v % 10000) << 32, twos, ones, tens;

    tens = (fours * 10486 >> 20) & 0x0000007f0000007fu;
    twos = tens | (fours - tens * 100) << 16;
    tens = (twos * 103 >> 10) & 0x000f000f000f000fu;
    ones = tens | (twos - tens * 10) << 8;
    return ones + ZEROS;
}

/* The number of digits in a text of eight_digits() without trailing zeros. */
static inline uint32_t count_used_digits(uint64_t text)
{
    text ^= ZEROS;
    return text ? 8 - (uint32_t)__builtin_clzll(text) / 8 : 0;
}

static inline uint8_t *put_u32(uint8_t *out, uint32_t v)
{
    uint64_t text = eight_digits(v);
    /* leading zeros; at least one digit stays */
    uint32_t leading = (uint32_t)__builtin_ctzll((text ^ ZEROS) | (uint64_t)1 << 56) / 8;

    store_eight(out, text >> 8 * leading);
    return out + 8 - leading;
}

static inline uint8_t *put_u64(uint8_t *out, uint64_t v)
{
    const uint32_t part = 100000000;
    uint64_t high = v / part;

    if (!high)
        return put_u32(out, (uint32_t)v);
    if (high < part) {
        out = put_u32(out, (uint32_t)high);
    } else {
        out = put_u32(out, (uint32_t)(high / part));
        store_eight(out, eight_digits((uint32_t)(high % part)));
        out += 8;
    }
    store_eight(out, eight_digits((uint32_t)(v % part)));
    return out + 8;
}

static inline uint8_t *put_i64(uint8_t *out, int64_t v)
{
    *out = '-';
    return put_u64(out + (v < 0), v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* --- floats --- */

/* The digits of a float: 1 + 8 of an FP32, 1 + 16 of an FP64. */
struct digits {
    uint8_t first;
    uint64_t next, last; /* texts of eight_digits() */
    uint32_t n;          /* digits without trailing zeros */
    int32_t point;       /* digits before the point; negative: zeros after the point */
};

static inline uint32_t count_decimal_digits(uint64_t v)
{
    static const uint64_t tens[] = {1,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000};
    uint32_t n = (64 - (uint32_t)__builtin_clzll(v)) * 1233 >>
                 12; /* v's decimal digits, or one less: 1233/4096 is about log10(2) */

    return n + (v >= tens[n]);
}

static inline struct digits split_digits(struct as_json_decimal d, bool wide)
{
    static const uint64_t lift[] = {10000000000000000,
                                    1000000000000000,
                                    100000000000000,
                                    10000000000000,
                                    1000000000000,
                                    100000000000,
                                    10000000000,
                                    1000000000,
                                    100000000,
                                    10000000,
                                    1000000,
                                    100000,
                                    10000,
                                    1000,
                                    100,
                                    10,
                                    1};
    const uint32_t part = 100000000;
    uint32_t n = count_decimal_digits(d.digits), top;
    uint64_t v = d.digits * lift[n - 1 + (wide ? 0 : 8)];
    struct digits r = {.point = (int32_t)n + d.exponent, .last = ZEROS};

    if (wide) {
        r.last = eight_digits((uint32_t)(v % part));
        v /= part;
    }
    top = (uint32_t)v;
    r.first = (uint8_t)('0' + top / part);
    r.next = eight_digits(top % part);
    r.n = 1 + (r.last != ZEROS ? 8 + count_used_digits(r.last) : count_used_digits(r.next));
    return r;
}

/* All digits, no point. */
static inline void put_digits(uint8_t *out, const struct digits *d, bool wide)
{
    *out = d->first;
    store_eight(out + 1, d->next);
    if (wide)
        store_eight(out + 9, d->last);
}

/* 12.34 */
static inline uint8_t *put_with_point(uint8_t *out, const struct digits *d, bool wide)
{
    uint32_t at = (uint32_t)d->point;
    uint64_t head = d->first | d->next << 8, before = ((uint64_t)1 << 8 * (at & 7)) - 1;
    uint16_t more = (uint16_t)(d->next >> 48); /* the eighth and ninth digit */

    if (at < 8) {
        store_eight(out, (head & before) | (uint64_t)'.' << 8 * at | (head & ~before) << 8);
        memcpy(out + 8, &more, 2);
        if (wide)
            store_eight(out + 10, d->last);
    } else {
        put_digits(out, d, wide);
        memmove(out + at + 1, out + at, wide ? 17 - at : 1);
        out[at] = '.';
    }
    return out + d->n + 1;
}

/* 1.234e-05 */
static uint8_t *put_scientific(uint8_t *out, const struct digits *d, bool wide)
{
    int32_t e = d->point - 1;
    uint32_t u = (uint32_t)(e < 0 ? -e : e);

    put_digits(out + 1, d, wide);
    out[0] = d->first;
    out[1] = '.';
    out += d->n == 1 ? 1 : d->n + 1;
    *out++ = 'e';
    *out++ = e < 0 ? '-' : '+';
    if (u >= 100)
        *out++ = (uint8_t)('0' + u / 100);
    *out++ = (uint8_t)('0' + u / 10 % 10);
    *out++ = (uint8_t)('0' + u % 10);
    return out;
}

static uint8_t *put_word(uint8_t *out, const char *word)
{
    size_t n = strlen(word);

    memcpy(out, word, n); // NOLINT(bugprone-not-null-terminated-result): ends at what is returned
    return out + n;
}

/* Without a sign: NaN, Infinity or 0.0. */
static uint8_t *put_special(uint8_t *out, double v)
{
    return put_word(out, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "0.0");
}

/* The text that std::to_chars gives: without an exponent if that is not longer, and all digits of
 * whole numbers. But whole numbers are written 1.0, not 1, so that a reader knows that they are
 * floats. v > 0. Below `exact` the shortest digits of a whole number are all of its digits, but for
 * trailing zeros. */
static inline uint8_t *put_decimal(uint8_t *out, struct as_json_decimal decimal, double v,
                                   double exact, bool wide)
{
    struct digits d = split_digits(decimal, wide);
    int32_t n = (int32_t)d.n, single = n == 1;

    if (d.point > 0 && d.point < n)
        return put_with_point(out, &d, wide);
    if (d.point <= 0 && d.point >= single - 3) {
        // NOLINTNEXTLINE(bugprone-not-null-terminated-result): ends at what is returned
        memcpy(out, "0.000000", 8);
        put_digits(out + 2 - d.point, &d, wide);
        return out + 2 - d.point + n;
    }
    if (d.point <= 0 || d.point - n > 5 - single)
        return put_scientific(out, &d, wide);
    if (d.point > n && v >= exact)
        return put_word(v < 0x1p64 ? put_u64(out, (uint64_t)v)
                                   : (uint8_t *)as_json_cxx_put_double((char *)out, v),
                        ".0");
    put_digits(out, &d, wide); /* including the zeros at the end */
    return put_word(out + d.point, ".0");
}

static inline uint8_t *put_f64(uint8_t *out, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, 8);
    *out = '-';
    out += bits >> 63 && !isnan(v);
    if (__builtin_expect(!isfinite(v) || v == 0, 0))
        return put_special(out, fabs(v));
    return put_decimal(out, as_json_cxx_double_digits(v), fabs(v), 0x1p53, true);
}

static inline uint8_t *put_f32(uint8_t *out, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    *out = '-';
    out += bits >> 31 && !isnan(v);
    if (__builtin_expect(!isfinite(v) || v == 0, 0))
        return put_special(out, (double)fabsf(v));
    return put_decimal(out, as_json_cxx_float_digits(v), (double)fabsf(v), 0x1p24, false);
}

uint8_t *as_json_print_i64(uint8_t *out, int64_t v)
{
    return put_i64(out, v);
}

uint8_t *as_json_print_u64(uint8_t *out, uint64_t v)
{
    return put_u64(out, v);
}

uint8_t *as_json_print_f64(uint8_t *out, double v)
{
    return put_f64(out, v);
}

/* --- tensors --- */

/* Longest text of an element, with a comma and ".0". */
static const uint8_t element_text_max[AS_DT_COUNT] = {
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
        return nbytes / as_dtype_size(t) * element_text_max[t] + AS_JSON_NUMBER_ROOM;
    while (p < end) {
        struct as_str s = next_bytes(&p);

        if (!as_name_check_utf8(s))
            return UINT64_MAX;
        n += as_json_string_len(s) + 1;
    }
    return n;
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
        EACH(FP16, uint16_t, put_f32(to, as_tensor_half(AS_DT_FP16, v)))
        EACH(BF16, uint16_t, put_f32(to, as_tensor_half(AS_DT_BF16, v)))
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
