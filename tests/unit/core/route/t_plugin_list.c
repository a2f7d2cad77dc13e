/* Specification of core/route/plugin_list. */
#include "core/route/plugin_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static bool splits(const char *entry, const char *name, const char *path)
{
    struct as_str n, p;

    return as_plugin_split(as_str_of(entry), &n, &p) && as_str_eq(n, as_str_of(name)) &&
           as_str_eq(p, as_str_of(path));
}

static void test_name_and_file(void **state AS_UNUSED)
{
    char longest[AS_PLUGIN_NAME_MAX + 3];
    struct as_str n, p;

    assert_true(splits("a-B_9=./x.so", "a-B_9", "./x.so"));
    assert_true(splits("a=/p=q.so", "a", "/p=q.so"));
    assert_true(splits("shop#model=x.so", "shop#model", "x.so"));
    assert_false(as_plugin_split(AS_STR("x.so"), &n, &p));
    assert_false(as_plugin_split(AS_STR("=x.so"), &n, &p));
    assert_false(as_plugin_split(AS_STR("a="), &n, &p));
    assert_false(as_plugin_split(AS_STR("a b=x.so"), &n, &p));
    assert_false(as_plugin_split(AS_STR(""), &n, &p));
    memset(longest, 'n', sizeof(longest));
    longest[AS_PLUGIN_NAME_MAX] = '=';
    assert_true(as_plugin_split((struct as_str){longest, AS_PLUGIN_NAME_MAX + 2}, &n, &p));
    longest[AS_PLUGIN_NAME_MAX] = 'n';
    longest[AS_PLUGIN_NAME_MAX + 1] = '=';
    assert_false(as_plugin_split((struct as_str){longest, AS_PLUGIN_NAME_MAX + 3}, &n, &p));
}

static bool is_wrong(const char *list, const char *entry)
{
    struct as_str bad = {0};

    return !as_plugin_list_is_valid(as_str_of(list), &bad) && as_str_eq(bad, as_str_of(entry));
}

static void test_a_list(void **state AS_UNUSED)
{
    struct as_str bad;
    char list[4096]; /* as long as the option may be */
    size_t n = 0;

    assert_true(as_plugin_list_is_valid(AS_STR(""), &bad));
    assert_true(as_plugin_list_is_valid(AS_STR("a=b.so,c=d.so"), &bad));
    assert_true(as_plugin_list_has(AS_STR("a=b.so,c=d.so"), AS_STR("c")));
    assert_false(as_plugin_list_has(AS_STR("a=b.so,c=d.so"), AS_STR("b.so")));
    assert_false(as_plugin_list_has(AS_STR(""), AS_STR("")));
    assert_true(is_wrong("a=b.so,c", "c"));
    assert_true(is_wrong("a=b.so,", ""));
    assert_true(is_wrong(",a=b.so", ""));
    assert_true(is_wrong("a=b.so,c=d.so,a=e.so", "a=b.so")); /* the name comes twice */
    for (uint32_t i = 0; n + 10 < sizeof(list); i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%sp%u=f", i ? "," : "", i);
    assert_true(as_plugin_list_is_valid(as_str_of(list), &bad));
    snprintf(list + n, sizeof(list) - n, ",p0=f");
    assert_false(as_plugin_list_is_valid(as_str_of(list), &bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_and_file),
        cmocka_unit_test(test_a_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
