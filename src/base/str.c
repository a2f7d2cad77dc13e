#include "base/str.h"

#include "base/err.h"

#include <stdarg.h>
#include <strings.h>

bool as_str_eq_nocase(struct as_str a, struct as_str b)
{
    return a.n == b.n && (!a.n || strncasecmp(a.p, b.p, a.n) == 0);
}

struct as_str as_str_trim(struct as_str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct as_str){s.p + 1, s.n - 1};
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

struct as_str as_str_split(struct as_str *rest, char c)
{
    const char *at = rest->n ? memchr(rest->p, c, rest->n) : NULL;
    struct as_str one = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t took = one.n + (at != NULL);

    *rest = (struct as_str){rest->p + took, rest->n - took};
    return as_str_trim(one);
}

uint64_t as_str_hash(struct as_str s)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (uint8_t)s.p[i]) * 0x100000001b3u;
    return h;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips the run of digits at *i. Returns its length without leading zeros; *ret_p: where the digits
 * behind those begin. */
static size_t skip_digits(struct as_str s, size_t *i, const char **ret_p)
{
    size_t from;

    while (*i < s.n && s.p[*i] == '0')
        ++*i;
    from = *i;
    *ret_p = s.p + from;
    while (*i < s.n && is_digit(s.p[*i]))
        ++*i;
    return *i - from;
}

int as_str_compare_natural(struct as_str a, struct as_str b)
{
    size_t i = 0, j = 0;

    while (i < a.n && j < b.n) {
        if (is_digit(a.p[i]) && is_digit(b.p[j])) {
            const char *pa, *pb;
            size_t na = skip_digits(a, &i, &pa), nb = skip_digits(b, &j, &pb);
            int c;

            if (na != nb)
                return na < nb ? -1 : 1;
            c = memcmp(pa, pb, na);
            if (c)
                return c;
        } else {
            uint8_t x = (uint8_t)a.p[i++], y = (uint8_t)b.p[j++];

            if (x != y)
                return x < y ? -1 : 1;
        }
    }
    if (i < a.n || j < b.n)
        return i < a.n ? 1 : -1;
    if (a.n != b.n)
        return a.n < b.n ? -1 : 1;
    return a.n ? memcmp(a.p, b.p, a.n) : 0;
}

int as_str_u64(struct as_str s, uint64_t *ret_v)
{
    uint64_t v = 0;

    if (s.n == 0)
        return AS_EINVALID;
    for (size_t i = 0; i < s.n; i++) {
        if (!is_digit(s.p[i]))
            return AS_EINVALID;
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return AS_EINVALID;
    }
    *ret_v = v;
    return 0;
}

bool as_str_range(const char **p, unsigned long *ret_from, unsigned long *ret_to)
{
    char *end;

    if (!is_digit(**p))
        return false;
    *ret_to = *ret_from = strtoul(*p, &end, 10);
    if (*end == '-') {
        if (!is_digit(end[1]))
            return false;
        *ret_to = strtoul(end + 1, &end, 10);
    }
    *p = end;
    return *ret_from <= *ret_to;
}

char *as_str_dup(struct as_str s)
{
    char *p = as_xalloc(s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    return p;
}

char *as_str_format(const char *fmt, ...)
{
    va_list ap;
    char *text;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        as_fatal_memory(0);
    return text;
}
