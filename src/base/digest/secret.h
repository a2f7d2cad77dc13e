/* base/digest/secret.h — compares secrets, or digests of them, in a time that does not depend on
 * their bytes. Pure.
 */
#ifndef AS_BASE_SECRET_H
#define AS_BASE_SECRET_H

#include "base/defs.h"

static inline bool as_secret_equal(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *p = a, *q = b;
    uint8_t diff = 0;

    for (size_t i = 0; i < n; i++)
        diff |= (uint8_t)(p[i] ^ q[i]);
    return diff == 0;
}

#endif
