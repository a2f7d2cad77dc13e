/* Specification of io/random: bytes of the kernel as hex digits, and UUIDs. */
#include "io/random.h"

#include "unit.h"

#include <ctype.h>
#include <string.h>

static void hex(void **state AS_UNUSED)
{
    char a[33], b[33];

    as_random_hex(a, 16);
    as_random_hex(b, 16);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

static void check_uuid(const char *id)
{
    assert_int_equal(strlen(id), AS_UUID_LEN);
    for (size_t i = 0; i < AS_UUID_LEN; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;

        assert_true(is_dash ? id[i] == '-' : isxdigit((unsigned char)id[i]));
        assert_int_equal(tolower((unsigned char)id[i]), id[i]);
    }
    assert_int_equal(id[14], '4'); /* version 4: random */
    assert_non_null(strchr("89ab", id[19]));
}

static void uuid(void **state AS_UNUSED)
{
    enum { N = 200 };
    static char ids[N][AS_UUID_LEN + 1];

    for (size_t i = 0; i < N; i++) {
        as_random_uuid(ids[i]);
        check_uuid(ids[i]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex),
        cmocka_unit_test(uuid),
    };

    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
