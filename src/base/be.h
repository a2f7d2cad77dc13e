/* base/be.h — big-endian loads and stores, for any alignment. */
#ifndef AS_BASE_BE_H
#define AS_BASE_BE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t as_be_get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return be32toh(v);
}

static inline void as_be_put32(uint8_t *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, 4);
}

#endif
