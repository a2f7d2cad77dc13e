#include "base/digest/sha256.h"

#include "base/be.h"

#include <stdio.h>

#define BLOCK 64u /* bytes */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t v, unsigned bits)
{
    return v >> bits | v << (32 - bits);
}

/* One round; the eight words are renamed from round to round instead of being moved. */
static inline void add_round(uint32_t v[8], unsigned i, uint32_t word)
{
    uint32_t *a = &v[(0 - i) & 7], *d = &v[(3 - i) & 7], *h = &v[(7 - i) & 7];
    uint32_t b = v[(1 - i) & 7], c = v[(2 - i) & 7];
    uint32_t e = v[(4 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7];
    uint32_t t = *h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) +
                 round_constants[i] + word;

    *d += t;
    *h = t + (rotate(*a, 2) ^ rotate(*a, 13) ^ rotate(*a, 22)) + ((*a & b) ^ (*a & c) ^ (b & c));
}

static void add_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];

    for (size_t i = 0; i < 16; i++)
        w[i] = as_be_get32(p + 4 * i);
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof(v));
    for (unsigned i = 0; i < 64; i += 8) {
        for (unsigned k = 0; k < 8; k++) /* unrolled by the compiler: the indices are constants */
            add_round(v, i + k, w[i + k]);
    }
    for (unsigned i = 0; i < 8; i++)
        h[i] += v[i];
}

void as_sha256(struct as_str s, uint8_t ret_digest[AS_SHA256_BYTES])
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *p = (const uint8_t *)s.p;
    size_t whole = s.n / BLOCK * BLOCK, left = s.n - whole;
    size_t padded = left + 9 > BLOCK ? 2 * BLOCK : BLOCK;
    uint8_t tail[2 * BLOCK] = {0};

    for (size_t i = 0; i < whole; i += BLOCK)
        add_block(h, p + i);
    if (left)
        memcpy(tail, p + whole, left);
    tail[left] = 0x80;
    for (unsigned i = 0; i < 8; i++) /* the length in bits, big-endian */
        tail[padded - 1 - i] = (uint8_t)((uint64_t)s.n * 8 >> (8 * i));
    for (size_t i = 0; i < padded; i += BLOCK)
        add_block(h, tail + i);
    for (size_t i = 0; i < 8; i++)
        as_be_put32(ret_digest + 4 * i, h[i]);
}

void as_sha256_hex(struct as_str s, char ret_hex[AS_SHA256_HEX + 1])
{
    uint8_t digest[AS_SHA256_BYTES];

    as_sha256(s, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(ret_hex + 2 * i, 3, "%02x", digest[i]);
}

bool as_sha256_is_hex(struct as_str s)
{
    if (s.n != AS_SHA256_HEX)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
            return false;
    }
    return true;
}
