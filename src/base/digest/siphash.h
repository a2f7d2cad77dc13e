/* base/digest/siphash.h — SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, "SipHash:
 * a fast short-input PRF", 2012; the longer result is that of the authors' reference code).
 *
 * For finding short texts that others choose, by a secret that they do not know: then nobody can
 * choose texts with the same hash. Pure.
 */
#ifndef AS_BASE_SIPHASH_H
#define AS_BASE_SIPHASH_H

#include "base/str.h"

#define AS_SIPHASH_SECRET 16u /* bytes */

struct as_siphash {
    uint64_t low, high;
};

struct as_siphash as_siphash(const uint8_t secret[AS_SIPHASH_SECRET], struct as_str s);

#endif
