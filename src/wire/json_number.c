/* Numbers of the JSON grammar: read once, digit by digit, and rounded correctly. */
#include "wire/json_own.h"

#define DIGITS_MAX 19 /* that an uint64_t holds whatever they are */

static inline bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

/* Digits of the integer or the fraction: m grows, leading zeros are no digits that count. */
static inline const uint8_t *scan_digits(const uint8_t *p, uint64_t *m, uint32_t *digits)
{
    for (; is_digit(*p); p++) {
        if (*digits < DIGITS_MAX)
            *m = *m * 10 + (uint64_t)(*p - '0');
        *digits += *digits || *p != '0';
    }
    return p;
}

/* A 20-digit integer may still fit an uint64_t. */
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
        if (e < 100000) /* far beyond any double, so that sums below do not overflow */
            e = e * 10 + (*p - '0');
    }
    *ret_e = negative ? -e : e;
    return p;
}

bool as_json_scan_number(const uint8_t *p, struct as_json_number *ret_n)
{
    struct as_json_number n = {.p = (const char *)p, .integer = true};
    const uint8_t *first, *point;
    uint32_t digits = 0;
    int32_t e;

    n.negative = *p == '-';
    p += n.negative;
    first = p;
    p = scan_digits(p, &n.m, &digits);
    if (p == first || (*first == '0' && p - first > 1))
        return false;
    if (*p == '.') {
        n.integer = false;
        point = ++p;
        p = scan_digits(p, &n.m, &digits);
        if (p == point)
            return false;
        n.e = -(int32_t)AS_MIN(p - point, (ptrdiff_t)1000000);
    }
    if ((*p | 0x20) == 'e') {
        n.integer = false;
        p = scan_exponent(p + 1, &e);
        if (!p)
            return false;
        n.e += e;
    }
    if (!as_json_ends(*p))
        return false;
    n.end = (const char *)p;
    n.cut = digits > DIGITS_MAX;
    if (n.cut && n.integer && digits == DIGITS_MAX + 1)
        n.cut = !scan_20(first, &n.m);
    *ret_n = n;
    return true;
}

double as_json_number_f64(const struct as_json_number *n)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int32_t far = (int32_t)AS_COUNT(tens) - 1;
    double d;

    /* Both factors are exact, so that one operation rounds correctly (Clinger's fast path). */
    if (n->cut || n->m > (uint64_t)1 << 53 || n->e > far || n->e < -far)
        return as_json_cxx_double(n->p, n->end);
    d = (double)n->m;
    d = n->e < 0 ? d / tens[-n->e] : d * tens[n->e];
    return n->negative ? -d : d;
}
