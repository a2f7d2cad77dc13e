#include "tool/simulate/quantity.h"

#include "base/rand.h"

#define DIGITS_MAX   19u     /* significant digits that are read; further ones do not count */
#define EXPONENT_MAX 1000000 /* larger ones mean the same */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct decimal { /* mantissa × 10^exponent */
    uint64_t mantissa;
    int64_t exponent;
};

static void add_digit(struct decimal *d, uint32_t *n, char c, bool fraction)
{
    if (*n == DIGITS_MAX) {
        d->exponent += !fraction;
        return;
    }
    d->mantissa = d->mantissa * 10 + (uint64_t)(c - '0');
    *n += d->mantissa != 0;
    d->exponent -= fraction;
}

/* Reads the exponent behind "e". False: it is none. */
static bool read_exponent(struct as_str s, int64_t *ret_e)
{
    bool negative = s.n && s.p[0] == '-';
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+');
    int64_t e = 0;

    if (i == s.n)
        return false;
    for (; i < s.n; i++) {
        if (!is_digit(s.p[i]))
            return false;
        e = AS_MIN(e * 10 + (s.p[i] - '0'), (int64_t)EXPONENT_MAX);
    }
    *ret_e = negative ? -e : e;
    return true;
}

static bool read_decimal(struct as_str s, struct decimal *ret_d)
{
    struct decimal d = {0};
    int64_t exponent = 0;
    uint32_t n = 0, digits = 0;
    bool fraction = false;
    size_t i;

    for (i = 0; i < s.n && (is_digit(s.p[i]) || (s.p[i] == '.' && !fraction)); i++) {
        if (s.p[i] == '.') {
            fraction = true;
        } else {
            add_digit(&d, &n, s.p[i], fraction);
            digits++;
        }
    }
    if (!digits || (i < s.n && (s.p[i] | 0x20) != 'e'))
        return false;
    if (i < s.n && !read_exponent((struct as_str){s.p + i + 1, s.n - i - 1}, &exponent))
        return false;
    d.exponent += exponent;
    *ret_d = d;
    return true;
}

int as_quantity_read(struct as_str text, uint64_t unit, uint64_t max, uint64_t *ret_v)
{
    struct decimal d;
    as_u128 v, half = 0;

    if (!read_decimal(text, &d))
        return AS_EINVALID;
    v = (as_u128)d.mantissa * unit; /* below 2^106 */
    for (; d.exponent > 0 && v && v <= max; d.exponent--)
        v *= 10;
    for (; d.exponent < 0 && v; d.exponent++) {
        half = v % 10;
        v /= 10;
    }
    v += half >= 5 && d.exponent == 0;
    if (v > max)
        return AS_ETOOBIG;
    *ret_v = (uint64_t)v;
    return 0;
}

int as_quantity_duration(struct as_str text, as_ns max, as_ns *ret_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1},     {"us", AS_US},      {"ms", AS_MS},
                 {"s", AS_SEC}, {"m", 60 * AS_SEC}, {"h", 3600 * AS_SEC}};

    for (size_t i = 0; i < AS_COUNT(units); i++) {
        size_t n = strlen(units[i].name);

        if (text.n > n && memcmp(text.p + text.n - n, units[i].name, n) == 0)
            return as_quantity_read((struct as_str){text.p, text.n - n}, units[i].ns, max, ret_ns);
    }
    return as_quantity_read(text, AS_SEC, max, ret_ns);
}

int as_quantity_number(struct as_str text, double max, double *ret_d)
{
    uint64_t billionths;
    int rc = as_quantity_read(text, 1000000000, (uint64_t)(max * 1e9), &billionths);

    if (rc == 0)
        *ret_d = (double)billionths / 1e9;
    return rc;
}
