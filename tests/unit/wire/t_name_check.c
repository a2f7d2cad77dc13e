/* Specification of wire/name_check: UTF-8, and duplicate names. */
#include "wire/name_check.h"

#include "unit.h"

static bool utf8(const char *z)
{
    size_t n = strlen(z);
    char *exact =
        malloc(n ? n : 1); /* a block of its own, so that a sanitizer detects a read beyond it */
    bool ok;

    memcpy(exact, z, n);
    ok = as_name_check_utf8((struct as_str){exact, n});
    free(exact);
    return ok;
}

static void utf8_at_its_edges(void **state AS_UNUSED)
{
    assert_true(utf8(""));
    assert_true(utf8("\x7f"));
    assert_true(utf8("\xc2\x80"));         /* U+0080 */
    assert_true(utf8("\xdf\xbf"));         /* U+07FF */
    assert_true(utf8("\xe0\xa0\x80"));     /* U+0800 */
    assert_true(utf8("\xed\x9f\xbf"));     /* U+D7FF */
    assert_true(utf8("\xee\x80\x80"));     /* U+E000 */
    assert_true(utf8("\xef\xbf\xbf"));     /* U+FFFF */
    assert_true(utf8("\xf0\x90\x80\x80")); /* U+10000 */
    assert_true(utf8("\xf4\x8f\xbf\xbf")); /* U+10FFFF */
}

static void malformed_utf8_is_refused(void **state AS_UNUSED)
{
    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x9f\xbf",
        "\xf5",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xed\xa0\x80", /* a surrogate */
        "\xed\xbf\xbf",
        "\xff",
        "\xfe",
        "\xc3",
        "\xe2\x82",
        "\xf0\x9f\x98",
        "\xc3(",
        "\xe2(\xa1",
        "\xe2\x82(",
        "\xf0\x9f\x98(",
    };

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_false(utf8(bad[i]));
}

/* One bad byte at every offset of texts of every length: the fast path reads several bytes at once.
 */
static void a_bad_byte_is_found_at_every_offset(void **state AS_UNUSED)
{
    for (size_t n = 1; n <= 40; n++) {
        char text[64];

        memset(text, 'a', n);
        text[n] = 0;
        assert_true(utf8(text));
        for (size_t i = 0; i < n; i++) {
            text[i] = '\xff';
            assert_false(utf8(text));
            text[i] = 'a';
        }
        if (n >= 2) {
            memcpy(text + n - 2, "\xc3\xa9", 2);
            assert_true(utf8(text));
        }
    }
}

struct thing {
    struct as_str name;
    uint32_t number;
};

/* n things with different names, "0" … */
static struct thing *things(uint32_t n, char (*text)[12])
{
    struct thing *v = calloc(n ? n : 1, sizeof(*v));

    for (uint32_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof(text[i]), "%u", i);
        v[i] = (struct thing){as_str_of(text[i]), i};
    }
    return v;
}

static char text[AS_NAME_CHECK_MAX][12];

static void a_name_given_twice_is_found(void **state AS_UNUSED)
{
    static const uint32_t sizes[] = {2, 16, 17, 100, AS_NAME_CHECK_MAX};

    assert_null(as_name_check_duplicate(NULL, sizeof(struct thing), 0));
    for (size_t k = 0; k < AS_COUNT(sizes); k++) {
        uint32_t n = sizes[k];
        struct thing *v = things(n, text);

        assert_null(as_name_check_duplicate(v, sizeof(*v), n));
        v[0].name = AS_STR(""); /* an empty name is a name */
        assert_null(as_name_check_duplicate(v, sizeof(*v), n));
        v[n - 1].name = (struct as_str){NULL, 0};
        assert_non_null(as_name_check_duplicate(v, sizeof(*v), n));
        v[0].name = as_str_of("same");
        v[n - 1].name = as_str_of("same");
        assert_true(as_str_eq(*as_name_check_duplicate(v, sizeof(*v), n), AS_STR("same")));
        free(v);
    }
}

static void the_last_of_a_name_is_kept(void **state AS_UNUSED)
{
    static const uint32_t sizes[] = {3, 16, 17, 1000};

    for (size_t k = 0; k < AS_COUNT(sizes); k++) {
        uint32_t n = sizes[k], left;
        struct thing *v = things(n, text);

        assert_int_equal(as_name_check_keep_last(v, sizeof(*v), n), n);
        v[0].name = v[n / 2].name = v[n - 1].name;
        left = as_name_check_keep_last(v, sizeof(*v), n);
        assert_int_equal(left, n - 2);
        assert_int_equal(v[left - 1].number, n - 1);
        for (uint32_t i = 1; i < left; i++)
            assert_true(v[i - 1].number < v[i].number);
        assert_null(as_name_check_duplicate(v, sizeof(*v), left));
        free(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_at_its_edges),
        cmocka_unit_test(malformed_utf8_is_refused),
        cmocka_unit_test(a_bad_byte_is_found_at_every_offset),
        cmocka_unit_test(a_name_given_twice_is_found),
        cmocka_unit_test(the_last_of_a_name_is_kept),
    };

    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
