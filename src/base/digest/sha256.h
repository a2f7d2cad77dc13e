/* base/digest/sha256.h — SHA-256 (FIPS 180-4) of bytes that lie in memory.
 *
 * For names of contents, where nobody may find a second content with the same name, and for random
 * keys that are stored by their digests. Some 200 MB/s: large contents belong beside the loop.
 * Pure.
 */
#ifndef AS_BASE_SHA256_H
#define AS_BASE_SHA256_H

#include "base/str.h"

#define AS_SHA256_BYTES 32u
#define AS_SHA256_HEX   64u /* digits */

void as_sha256(struct as_str s, uint8_t ret_digest[AS_SHA256_BYTES]);

/* The digest in lower-case hex, with a NUL. */
void as_sha256_hex(struct as_str s, char ret_hex[AS_SHA256_HEX + 1]);
/* Whether `s` is such a text. */
bool as_sha256_is_hex(struct as_str s);

#endif
