/* base/str.h — slices of bytes that somebody else owns.
 *
 * A slice is not terminated by NUL and may hold any byte. Who owns the bytes is said where a slice
 * is handed out. The type itself is in the public header.
 */
#ifndef AS_BASE_STR_H
#define AS_BASE_STR_H

#include "base/defs.h"

#include <string.h>

#define AS_STR(lit)   ((struct as_str){(lit), sizeof(lit) - 1})
#define AS_STR_FMT(s) (int)(s).n, (s).p ? (s).p : "" /* for "%.*s" */

static inline struct as_str as_str_of(const char *z)
{
    return (struct as_str){z, z ? strlen(z) : 0};
}

static inline bool as_str_eq(struct as_str a, struct as_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Hash for tables inside the process (FNV-1a, 64 bit); not for hostile keys without a bound. */
uint64_t as_str_hash(struct as_str s);

/* Natural order: runs of digits compare as numbers of any length, the rest as bytes.
 * <0, 0, >0; 0 only for equal slices ("01" and "1" differ, the shorter spelling first). */
int as_str_compare_natural(struct as_str a, struct as_str b);

/* The slice is a decimal number without sign that fits: 0, else AS_EINVALID. */
int as_str_u64(struct as_str s, uint64_t *ret_v);

/* A copy with a NUL behind it; the caller frees. */
char *as_str_dup(struct as_str s);

#endif
