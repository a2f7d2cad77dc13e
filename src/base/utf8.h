/* base/utf8.h — UTF-8 (RFC 3629). Pure. */
#ifndef AS_BASE_UTF8_H
#define AS_BASE_UTF8_H

#include "base/str.h"

/* Bytes of the character at p, of which n > 0 bytes are readable. 0: it is not UTF-8 (also a
 * surrogate, an overlong form, above U+10FFFF). */
static inline size_t as_utf8_len(const uint8_t *p, size_t n)
{
    uint8_t c = p[0], low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    size_t len = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : 4;

    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4 || n < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

/* Writes the character c, at most U+10FFFF. Returns its bytes. */
static inline size_t as_utf8_put(uint8_t out[4], uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(n == 1 ? c : (0xf0u << (4 - n)) | c);
    return n;
}

/* The first bytes of a text, at most `max`, without a character that these would cut. */
static inline struct as_str as_utf8_cut(struct as_str s, size_t max)
{
    size_t n = AS_MIN(s.n, max);

    for (int i = 0; i < 3 && n && n < s.n && ((uint8_t)s.p[n] & 0xc0) == 0x80; i++)
        n--;
    return (struct as_str){s.p, n};
}

#endif
