/* wire/name_check.h — checks of names: valid UTF-8, one line, no duplicates. For the link, OIP and
 * the extensions.
 *
 * The arrays hold structs whose first member is the name (struct as_str): tensors, parameters,
 * signature entries. Pure. A search for duplicates makes at most n log n comparisons, also for
 * hostile names.
 */
#ifndef AS_WIRE_NAME_CHECK_H
#define AS_WIRE_NAME_CHECK_H

#include "base/memory/arena.h"

#define AS_NAME_CHECK_MAX 4096u /* largest array, in entries */

bool as_name_check_utf8_slow(struct as_str s);

/* Whether no byte of the slice has its high bit set. */
static inline bool as_name_check_ascii(struct as_str s)
{
    uint64_t a = 0, b = 0;

    if (s.n >= 8) {
        for (size_t i = 0; i + 8 <= s.n; i += 8) {
            memcpy(&b, s.p + i, 8);
            a |= b;
        }
        memcpy(&b, s.p + s.n - 8, 8);
    } else if (s.n >= 4) {
        memcpy(&a, s.p, 4);
        memcpy(&b, s.p + s.n - 4, 4);
    } else if (s.n) {
        a = (uint8_t)(s.p[0] | s.p[s.n / 2] | s.p[s.n - 1]);
    }
    return !((a | b) & 0x8080808080808080u);
}

/* Whether the bytes are UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
static inline bool as_name_check_utf8(struct as_str s)
{
    return as_name_check_ascii(s) || as_name_check_utf8_slow(s);
}

/* Copies a text into the arena. 0; AS_EPROTO: it is not UTF-8; AS_ENOMEM. */
int as_name_check_copy(struct as_arena *a, const char *text, struct as_str *ret);

/* UTF-8, and no NUL, CR or LF is among them. */
bool as_name_check_line(struct as_str s);

const struct as_str *as_name_check_duplicate_slow(const void *first, size_t stride, uint32_t n);

/* Returns a name that occurs twice in the array, or NULL. `stride`: size of the structs. */
static inline const struct as_str *as_name_check_duplicate(const void *first, size_t stride,
                                                           uint32_t n)
{
    return n < 2 ? NULL : as_name_check_duplicate_slow(first, stride, n);
}

uint32_t as_name_check_keep_last_slow(void *first, size_t stride, uint32_t n);

/* Removes each struct whose name occurs again later in the array, and keeps the order of the
 * others. Returns how many are left. */
static inline uint32_t as_name_check_keep_last(void *first, size_t stride, uint32_t n)
{
    return as_name_check_duplicate(first, stride, n)
               ? as_name_check_keep_last_slow(first, stride, n)
               : n;
}

#endif
