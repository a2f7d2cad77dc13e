/* Specification of base/sha256: the examples of FIPS 180-4, and every length around a block. */
#include "base/digest/sha256.h"

#include "unit.h"

#include <stdlib.h>

static void is(struct as_str s, const char *expected)
{
    char hex[AS_SHA256_HEX + 1];

    as_sha256_hex(s, hex);
    assert_string_equal(hex, expected);
    assert_true(as_sha256_is_hex(as_str_of(hex)));
}

static void known_digests(void **state AS_UNUSED)
{
    char *million = malloc(1000000);

    memset(million, 'a', 1000000);
    is(AS_STR(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    is(AS_STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    is(AS_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    is((struct as_str){million, 1000000},
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* The padding takes one block or two. The digests are Python's hashlib's. */
static void lengths_around_a_block(void **state AS_UNUSED)
{
    static const struct {
        size_t n;
        const char *hex;
    } rows[] = {{1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"},
                {55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
                {56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
                {57, "ae14a2563ccf969d99aca69ce6bb74981f734bbf9f655f73b8f06db68cab5217"},
                {63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
                {64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
                {65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
                {119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
                {120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
                {127, "70156a14adbabf98cff3a71c7084b417abf057a8efd27329ca36b7202c87d81f"},
                {128, "24da1b81d0b16df6428eee73c69fcb2a93c76bc6df706f0c6670fe6bfe800464"}};
    char text[128];

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < AS_COUNT(rows); i++)
        is((struct as_str){text, rows[i].n}, rows[i].hex);
}

static void what_is_no_digest(void **state AS_UNUSED)
{
#define HEX63 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
    assert_true(as_sha256_is_hex(AS_STR(HEX63 "f")));
    assert_false(as_sha256_is_hex(AS_STR(HEX63)));
    assert_false(as_sha256_is_hex(AS_STR(HEX63 "ff")));
    assert_false(as_sha256_is_hex(AS_STR(HEX63 "F")));
    assert_false(as_sha256_is_hex(AS_STR(HEX63 "/")));
    assert_false(as_sha256_is_hex(AS_STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(lengths_around_a_block),
        cmocka_unit_test(what_is_no_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
