/* Specification of base/sha1: the examples of FIPS 180-4, and lengths around a block (hashlib's).
 */
#include "base/digest/sha1.h"

#include "unit.h"

#include <stdlib.h>

static void is(struct as_str s, const char *expected)
{
    uint8_t digest[AS_SHA1_BYTES];
    char hex[2 * AS_SHA1_BYTES + 1];

    as_sha1(s, digest);
    for (unsigned i = 0; i < AS_SHA1_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, expected);
}

static void known_digests(void **state AS_UNUSED)
{
    char *million = malloc(1000000);

    memset(million, 'a', 1000000);
    is(AS_STR(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    is(AS_STR("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    is(AS_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
       "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    is((struct as_str){million, 1000000}, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(million);
}

static void lengths_around_a_block(void **state AS_UNUSED)
{
    static const struct {
        size_t n;
        const char *hex;
    } rows[] = {
        {1, "11f6ad8ec52a2984abaafd7c3b516503785c2072"},
        {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
        {56, "901305367c259952f4e7af8323f480d59f81335b"},
        {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},
        {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
        {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
        {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
        {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
        {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"},
    };
    char text[128];

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < AS_COUNT(rows); i++)
        is((struct as_str){text, rows[i].n}, rows[i].hex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(lengths_around_a_block),
    };

    return cmocka_run_group_tests_name("sha1", tests, NULL, NULL);
}
