/* base/digest/sha1.h — SHA-1 (FIPS 180-4), because the handshake of websockets (RFC 6455) asks for
 * it.
 *
 * It is broken as a cryptographic hash: use base/digest/sha256.h for everything else. Pure.
 */
#ifndef AS_BASE_SHA1_H
#define AS_BASE_SHA1_H

#include "base/str.h"

#define AS_SHA1_BYTES 20u

void as_sha1(struct as_str s, uint8_t ret_digest[AS_SHA1_BYTES]);

#endif
