// Floats as JSON, against std::to_chars: the text must be its own, with ".0" where that would take
// it for an integer.
//
//     json_print [STRIDE [DOUBLES]]
//
// Every STRIDE-th of all 2^32 floats (1: all of them, ten minutes), and so many doubles: of random
// bits, of usual size, decimal fractions, whole numbers.

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" { // of wire/json/json.h, which is not for C++
enum as_dtype { AS_DT_FP32 = 11, AS_DT_FP64 = 12 };
size_t as_json_put_elements(uint8_t *out, enum as_dtype t, const uint8_t *data, size_t nbytes);
}

namespace
{

uint64_t wrong;

template <typename T> void check(as_dtype t, T v)
{
    char want[48];
    uint8_t data[sizeof(T)], got[64];
    char *end;
    size_t n;

    if (!std::isfinite(v))
        return;
    end = std::to_chars(want, want + 40, v).ptr;
    n = static_cast<size_t>(end - want);
    if (!memchr(want, '.', n) && !memchr(want, 'e', n)) {
        memcpy(end, ".0", 2);
        n += 2;
    }
    memcpy(data, &v, sizeof(v));
    if (as_json_put_elements(got, t, data, sizeof(data)) == n && memcmp(got, want, n) == 0)
        return;
    if (wrong++ < 10)
        printf("%a: want %.*s, got %.*s\n", static_cast<double>(v), static_cast<int>(n), want,
               static_cast<int>(n), reinterpret_cast<const char *>(got));
}

void check_doubles(uint64_t n)
{
    static const double tens[] = {1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    uint64_t s = 88172645463325252u;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t bits;
        double v;

        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        bits = i % 4 == 1 ? (s & 0x800fffffffffffffu) | (1011 + (s >> 52) % 90) << 52 : s;
        memcpy(&v, &bits, sizeof(v));
        if (i % 4 == 2)
            v = static_cast<double>(static_cast<int64_t>(s >> (s & 63))) / tens[(s >> 8) % 9];
        if (i % 4 == 3)
            v = static_cast<double>(s >> 40) * std::pow(10, static_cast<int>(s & 31) - 8);
        check(AS_DT_FP64, v);
    }
}

} // namespace

int main(int argc, char **argv)
{
    uint64_t stride = argc > 1 ? strtoull(argv[1], nullptr, 10) : 9973;
    uint64_t doubles = argc > 2 ? strtoull(argv[2], nullptr, 10) : 400000, floats = 0;

    for (uint64_t i = 0; i <= UINT32_MAX; i += stride, floats++) {
        uint32_t bits = static_cast<uint32_t>(i);
        float v;

        memcpy(&v, &bits, sizeof(v));
        check(AS_DT_FP32, v);
    }
    check_doubles(doubles);
    printf("%llu floats, %llu doubles, %llu of them wrong\n",
           static_cast<unsigned long long>(floats), static_cast<unsigned long long>(doubles),
           static_cast<unsigned long long>(wrong));
    return wrong != 0;
}
