/* Numbers in JSON: scanned in one pass, and rounded correctly. */
#include "wire/json/json_internal.h"

#define DIGITS_MAX 19 /* any 19 digits fit a uint64_t */

static inline bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

/* If the eight bytes at p are digits: true, and the number that they write. */
static inline bool scan_eight(const uint8_t *p, uint64_t *ret_v)
{
    uint64_t v;

    memcpy(&v, p, 8);
    if (((v & 0xf0f0f0f0f0f0f0f0u) | ((v + 0x0606060606060606u) & 0xf0f0f0f0f0f0f0f0u) >> 4) !=
        0x3333333333333333u)
        return false;
    v -= 0x3030303030303030u;
    v = v * 10 +
        (v >> 8); /* each second byte holds two digits; the first pair is the lowest byte */
    v = (v & 0x000000ff000000ffu) * 0x000f424000000064u +
        (v >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u;
    *ret_v = v >> 32;
    return true;
}

/* Scans digits into *m, which is right only for at most DIGITS_MAX digits in all. */
static inline const uint8_t *scan_digits(const uint8_t *p, uint64_t *m)
{
    uint64_t eight;

    for (; scan_eight(p, &eight); p += 8)
        *m = *m * 100000000 + eight;
    for (; is_digit(*p); p++)
        *m = *m * 10 + (uint64_t)(*p - '0');
    return p;
}

/* Counts the significant digits from p to end: leading zeros and the point do not count. */
static ptrdiff_t count_significant_digits(const uint8_t *p, const uint8_t *end)
{
    ptrdiff_t n = 0;

    for (; p < end; p++)
        n += is_digit(*p) && (n || *p != '0');
    return n;
}

/* Scans an integer of 20 digits. False: it does not fit a uint64_t. */
static bool scan_20(const uint8_t *p, uint64_t *ret_m)
{
    uint64_t m = 0;

    for (; is_digit(*p); p++) {
        if (__builtin_mul_overflow(m, (uint64_t)10, &m) ||
            __builtin_add_overflow(m, (uint64_t)(*p - '0'), &m))
            return false;
    }
    *ret_m = m;
    return true;
}

static const uint8_t *scan_exponent(const uint8_t *p, int32_t *ret_e)
{
    bool negative = *p == '-';
    int32_t e = 0;

    p += *p == '-' || *p == '+';
    if (!is_digit(*p))
        return NULL;
    for (; is_digit(*p); p++) {
        if (e <
            100000) /* large enough for any double, small enough that the sums do not overflow */
            e = e * 10 + (*p - '0');
    }
    *ret_e = negative ? -e : e;
    return p;
}

bool as_json_scan_number(const uint8_t *p, struct as_json_number *ret_n)
{
    const uint8_t *first, *point;
    ptrdiff_t digits;
    int32_t e;

    ret_n->p = (const char *)p;
    ret_n->m = 0;
    ret_n->e = 0;
    ret_n->integer = true;
    ret_n->negative = *p == '-';
    p += ret_n->negative;
    first = p;
    for (; is_digit(*p); p++) /* usually few: a simple loop is fastest */
        ret_n->m = ret_n->m * 10 + (uint64_t)(*p - '0');
    if (p == first || (*first == '0' && p - first > 1))
        return false;
    if (*p == '.') {
        ret_n->integer = false;
        point = ++p;
        p = scan_digits(p, &ret_n->m);
        if (p == point)
            return false;
        ret_n->e = -(int32_t)AS_MIN(p - point, (ptrdiff_t)1000000);
    }
    digits = p - first - !ret_n->integer;
    ret_n->truncated = false;
    if (__builtin_expect(digits > DIGITS_MAX, 0)) {
        digits = count_significant_digits(first, p);
        ret_n->truncated = digits > DIGITS_MAX + ret_n->integer ||
                           (digits > DIGITS_MAX && !scan_20(first, &ret_n->m));
    }
    if ((*p | 0x20) == 'e') {
        ret_n->integer = false;
        p = scan_exponent(p + 1, &e);
        if (!p)
            return false;
        ret_n->e += e;
    }
    ret_n->end = (const char *)p;
    return as_json_is_delimiter(*p);
}

double as_json_number_f64(const struct as_json_number *n)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int32_t far = (int32_t)AS_COUNT(tens) - 1;
    double d;

    /* If both factors are exact, one operation rounds correctly (Clinger's fast path). */
    if (n->truncated)
        return as_json_cxx_double(n->p, n->end);
    if (n->m > (uint64_t)1 << 53 || n->e > far || n->e < -far)
        return as_json_cxx_scaled(n->m, n->e, n->negative, &d) ? d
                                                               : as_json_cxx_double(n->p, n->end);
    d = (double)n->m;
    d = n->e < 0 ? d / tens[-n->e] : d * tens[n->e];
    return n->negative ? -d : d;
}
