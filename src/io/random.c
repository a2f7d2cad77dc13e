#include "io/random.h"

#include "base/fatal.h"

#include <errno.h>
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
