#include "base/digest/siphash.h"

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static uint64_t get(const uint8_t *p, size_t n)
{
    uint64_t v = 0;

    memcpy(&v, p, n); /* little-endian, as x86 and arm64 are */
    return v;
}

static inline void mix(uint64_t v[4], unsigned rounds)
{
    while (rounds--) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

static inline void add_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

struct as_siphash as_siphash(const uint8_t secret[AS_SIPHASH_SECRET], struct as_str s)
{
    uint64_t k0 = get(secret, 8), k1 = get(secret + 8, 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee,
                     k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
    const uint8_t *p = (const uint8_t *)s.p;
    size_t whole = s.n / 8 * 8;
    struct as_siphash out;

    for (size_t i = 0; i < whole; i += 8)
        add_word(v, get(p + i, 8));
    add_word(v, (uint64_t)s.n << 56 | (s.n > whole ? get(p + whole, s.n - whole) : 0));
    v[2] ^= 0xee;
    mix(v, 4);
    out.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    mix(v, 4);
    out.high = v[0] ^ v[1] ^ v[2] ^ v[3];
    return out;
}
