/* Specification of base/digest/siphash: the vectors of the authors' reference code (vectors.h,
 * vectors_sip128): the secret 00 01 … 0f, the texts of 0, 1, … bytes 00 01 …. */
#include "base/digest/siphash.h"

#include "unit.h"

static void known_hashes(void **state AS_UNUSED)
{
    static const uint8_t first[3][16] = {{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d,
                                          0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
                                         {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34,
                                          0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45},
                                         {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc,
                                          0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4}};
    uint8_t secret[AS_SIPHASH_SECRET];

    for (uint8_t i = 0; i < sizeof(secret); i++)
        secret[i] = i;
    for (size_t n = 0; n < 3; n++) {
        struct as_siphash h = as_siphash(secret, (struct as_str){(const char *)secret, n});

        assert_memory_equal(&h, first[n], 16);
    }
}

static void every_byte_and_the_length_count(void **state AS_UNUSED)
{
    static const uint8_t secret[AS_SIPHASH_SECRET] = {7};
    char text[32] = {0};

    for (size_t n = 1; n < sizeof(text); n++) {
        struct as_siphash plain = as_siphash(secret, (struct as_str){text, n}), other;

        other = as_siphash(secret, (struct as_str){text, n - 1});
        assert_memory_not_equal(&plain, &other, sizeof(plain));
        for (size_t i = 0; i < n; i++) {
            text[i] = 1;
            other = as_siphash(secret, (struct as_str){text, n});
            text[i] = 0;
            assert_memory_not_equal(&plain, &other, sizeof(plain));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hashes),
        cmocka_unit_test(every_byte_and_the_length_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
