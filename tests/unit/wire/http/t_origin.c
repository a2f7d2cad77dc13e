/* Specification of wire/http/origin: origins of web pages, and lists of them. */
#include "wire/http/origin.h"

#include "unit.h"

static void lists(void **state AS_UNUSED)
{
    static const struct {
        const char *list, *bad; /* NULL: none */
    } rows[] = {
        {"", NULL},
        {"http://a", NULL},
        {"HTTPS://A.b-c_d.example:65535", NULL},
        {"http://1.2.3.4:80,https://[::1]:8443,http://[fe80::1]", NULL},
        {",", ""},
        {"http://a,", ""},
        {",http://a", ""},
        {"http://a,,http://b", ""},
        {"a", "a"},
        {"http://", "http://"},
        {"http://:80", "http://:80"},
        {"http://a:", "http://a:"},
        {"http://a:123456", "http://a:123456"},
        {"http://a:8x", "http://a:8x"},
        {"http://a/", "http://a/"},
        {"http://a b", "http://a b"},
        {"http://a, http://b", " http://b"},
        {"http://u@a", "http://u@a"},
        {"http://[::1", "http://[::1"},
        {"http://[::1]x", "http://[::1]x"},
        {"http://a:b:c", "http://a:b:c"},
        {"ftp://a", "ftp://a"},
        {"null", "null"},
        {"*", "*"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_str bad = {0};
        bool good = as_origin_list_is_valid(as_str_of(rows[i].list), &bad);

        if (good != !rows[i].bad || (rows[i].bad && !as_str_eq(bad, as_str_of(rows[i].bad))))
            fail_msg("%s: %d '%.*s'", rows[i].list, good, AS_STR_FMT(bad));
    }
}

static void list_contains(void **state AS_UNUSED)
{
    struct as_str list = AS_STR("http://a:1,https://B.example,http://[::1]:2");

    assert_true(as_origin_list_contains(list, AS_STR("http://a:1")));
    assert_true(as_origin_list_contains(list, AS_STR("HTTPS://b.example")));
    assert_true(as_origin_list_contains(list, AS_STR("http://[::1]:2")));
    assert_false(as_origin_list_contains(list, AS_STR("http://a")));
    assert_false(as_origin_list_contains(list, AS_STR("https://a:1")));
    assert_false(as_origin_list_contains(list, AS_STR("http://a:12")));
    assert_false(as_origin_list_contains(list, AS_STR("http://a:1,https://B.example")));
    assert_false(as_origin_list_contains(list, (struct as_str){0}));
    assert_false(as_origin_list_contains((struct as_str){0}, AS_STR("http://a:1")));
    assert_false(as_origin_list_contains(AS_STR(""), AS_STR("")));
    assert_true(as_origin_list_has_host(list, AS_STR("A")));
    assert_true(as_origin_list_has_host(list, AS_STR("b.example")));
    assert_true(as_origin_list_has_host(list, AS_STR("::1")));
    assert_false(as_origin_list_has_host(list, AS_STR("example")));
    assert_false(as_origin_list_has_host(list, AS_STR("a:1")));
    assert_false(as_origin_list_has_host(list, (struct as_str){0}));
}

static void origins_and_authorities(void **state AS_UNUSED)
{
    assert_true(as_origin_is_authority(AS_STR("http://a:1"), AS_STR("A:1")));
    assert_true(as_origin_is_authority(AS_STR("https://a:1"), AS_STR("a:1")));
    assert_false(as_origin_is_authority(AS_STR("http://a"), AS_STR("a:1")));
    assert_false(as_origin_is_authority(AS_STR("a"), AS_STR("a")));
    assert_false(as_origin_is_authority(AS_STR("null"), AS_STR("")));
    assert_false(as_origin_is_authority(AS_STR("http://"), AS_STR("")));
    assert_false(as_origin_is_authority((struct as_str){0}, (struct as_str){0}));
}

static void hosts(void **state AS_UNUSED)
{
    static const char *const rows[][2] = {
        {"a", "a"}, {"a:1", "a"}, {"[::1]:2", "::1"}, {"[::1", ""}, {"[fe80::1]", "fe80::1"},
        {"", ""},   {":1", ""}};

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        assert_true(as_str_eq(as_origin_host(as_str_of(rows[i][0])), as_str_of(rows[i][1])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(list_contains),
        cmocka_unit_test(origins_and_authorities),
        cmocka_unit_test(hosts),
    };

    return cmocka_run_group_tests_name("origin", tests, NULL, NULL);
}
