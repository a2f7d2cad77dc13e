#include "base/digest/sha1.h"

#include "base/be.h"

#define BLOCK 64u /* bytes */

static uint32_t rotate(uint32_t v, unsigned bits)
{
    return v << bits | v >> (32 - bits);
}

static uint32_t mix(unsigned round, const uint32_t v[5])
{
    uint32_t b = v[1], c = v[2], d = v[3];

    if (round < 20)
        return ((b & c) | (~b & d)) + 0x5a827999;
    if (round < 40)
        return (b ^ c ^ d) + 0x6ed9eba1;
    if (round < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void add_block(uint32_t h[5], const uint8_t *p)
{
    uint32_t w[80], v[5];

    for (size_t i = 0; i < 16; i++)
        w[i] = as_be_get32(p + 4 * i);
    for (unsigned i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 80; i++) {
        uint32_t t = rotate(v[0], 5) + mix(i, v) + v[4] + w[i];

        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = t;
    }
    for (unsigned i = 0; i < 5; i++)
        h[i] += v[i];
}

void as_sha1(struct as_str s, uint8_t ret_digest[AS_SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const uint8_t *p = (const uint8_t *)s.p;
    size_t whole = s.n / BLOCK * BLOCK, left = s.n - whole;
    size_t padded = left + 9 > BLOCK ? 2 * BLOCK : BLOCK;
    uint8_t tail[2 * BLOCK] = {0};

    for (size_t i = 0; i < whole; i += BLOCK)
        add_block(h, p + i);
    if (left)
        memcpy(tail, p + whole, left);
    tail[left] = 0x80;
    as_be_put32(tail + padded - 8, (uint32_t)((uint64_t)s.n >> 29));
    as_be_put32(tail + padded - 4, (uint32_t)(s.n << 3));
    for (size_t i = 0; i < padded; i += BLOCK)
        add_block(h, tail + i);
    for (size_t i = 0; i < 5; i++)
        as_be_put32(ret_digest + 4 * i, h[i]);
}
