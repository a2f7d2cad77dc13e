#include "io/random.h"

#include "base/fatal.h"
#include "base/rand.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

void as_random_bytes(void *out, size_t n)
{
    if (getrandom(out, n, 0) != (ssize_t)n)
        as_fatal_system("random bytes", errno);
}

void as_random_hex(char *out, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[128];

    AS_ASSERT(n <= sizeof(bytes));
    as_random_bytes(bytes, n);
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

void as_random_uuid(char out[AS_UUID_LEN + 1])
{
    static _Thread_local struct as_rand rand;
    uint64_t a, b;

    if (!rand.s)
        as_random_bytes(&rand.s, sizeof(rand.s));
    a = as_rand_next(&rand);
    b = as_rand_next(&rand);
    snprintf(out, AS_UUID_LEN + 1, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
             (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
             (unsigned)(b >> 48 & 0x3fff) | 0x8000u, (unsigned long long)(b & 0xffffffffffff));
}
