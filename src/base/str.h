/* base/str.h — slices: pointer and length of bytes that another object owns.
 *
 * A slice has no NUL at its end and may hold any byte. A function that returns a slice says who
 * owns the bytes. The type itself is in the public header (anyserve/types.h).
 */
#ifndef AS_BASE_STR_H
#define AS_BASE_STR_H

#include "base/defs.h"

#include <string.h>

#define AS_STR(lit)   ((struct as_str){(lit), sizeof(lit) - 1})
#define AS_STR_FMT(s) (int)(s).n, (s).p ? (s).p : "" /* for "%.*s" */
/* The same, at most the first bytes: of texts that clients or workers have sent. */
#define AS_STR_CUT(s, most) (int)AS_MIN((s).n, (size_t)(most)), (s).p ? (s).p : ""

static inline struct as_str as_str_of(const char *z)
{
    return (struct as_str){z, z ? strlen(z) : 0};
}

static inline bool as_str_eq(struct as_str a, struct as_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* The value of a hexadecimal digit, or -1. */
static inline int as_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "%XX" at the beginning of s stands for; -1: s does not begin with this form. */
static inline int as_str_percent(struct as_str s)
{
    int high = s.n > 2 && s.p[0] == '%' ? as_hex_digit(s.p[1]) : -1;
    int low = high < 0 ? -1 : as_hex_digit(s.p[2]);

    return low < 0 ? -1 : high << 4 | low;
}

/* Equal, whatever the case of ASCII letters. */
bool as_str_eq_nocase(struct as_str a, struct as_str b);
/* Without the spaces and tabs around it. */
struct as_str as_str_trim(struct as_str s);
/* The text before the first `c`, trimmed; *rest becomes the text after it. */
struct as_str as_str_split(struct as_str *rest, char c);

/* FNV-1a, 64 bit, for tables inside the process. A client can find collisions: bound the number of
 * keys that clients choose. */
uint64_t as_str_hash(struct as_str s);

/* Compares in natural order ("v9" before "v10"): runs of digits as numbers of any length, the rest
 * as bytes. <0, 0, >0; 0 only for equal slices ("1" comes before "01"). */
int as_str_compare_natural(struct as_str a, struct as_str b);

/* Parses a decimal number without sign. 0; AS_EINVALID: not such a number, or above 2^64-1. */
int as_str_u64(struct as_str s, uint64_t *ret_v);

/* Reads a range of a list such as "0-3,8" at *p, or a number, which is a range of one, and moves
 * behind it. False: it is something else, or to is below from. */
bool as_str_range(const char **p, unsigned long *ret_from, unsigned long *ret_to);

/* A copy with a NUL at its end; the caller frees it. */
char *as_str_dup(struct as_str s);
/* A new text by the format, which the caller frees. */
char *as_str_format(const char *fmt, ...) AS_PRINTF(1, 2);

#endif
