#include "base/id.h"

#include "unit.h"

static void expect(struct as_str got, const char *want)
{
    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.p, want, got.n);
}

static void an_id_has_an_application_and_a_name(void **state AS_UNUSED)
{
    struct as_id id;
    struct as_str s = as_id_make(&id, AS_STR("shop"), AS_STR("ranker"));

    expect(s, "shop#ranker");
    assert_int_equal(s.p[s.n], 0);
    expect(as_id_application(s), "shop");
    expect(as_id_name(s), "ranker");
    expect(as_id_name(AS_STR("shop#ranker-0")), "ranker-0");
    assert_true(as_id_is(s, AS_STR("shop"), AS_STR("ranker")));
    assert_false(as_id_is(s, AS_STR("default"), AS_STR("ranker")));
    assert_false(as_id_is(s, AS_STR("shop"), AS_STR("rank")));
}

static void a_name_alone_is_of_the_default_application(void **state AS_UNUSED)
{
    assert_false(as_id_is_full(AS_STR("echo")));
    assert_false(as_id_is_full(AS_STR("")));
    assert_true(as_id_is_full(AS_STR("default#echo")));
    expect(as_id_application(AS_STR("echo")), "default");
    expect(as_id_name(AS_STR("echo")), "echo");
    expect(as_id_application(AS_STR("")), "default");
    expect(as_id_name(AS_STR("")), "");
}

static void people_do_not_see_the_default_application(void **state AS_UNUSED)
{
    expect(as_id_shown(AS_STR("default#echo-0")), "echo-0");
    expect(as_id_shown(AS_STR("defaults#echo-0")), "defaults#echo-0");
    expect(as_id_shown(AS_STR("echo-0")), "echo-0");
    assert_string_equal(as_id_shown_z("default#echo"), "echo");
}

static void a_name_is_resolved_in_its_application(void **state AS_UNUSED)
{
    struct as_id id;

    expect(as_id_resolve(&id, AS_STR("shop"), AS_STR("side")), "shop#side");
    expect(as_id_resolve(&id, AS_STR("shop"), AS_STR("other/side")), "other#side");
    expect(as_id_resolve(&id, AS_STR("shop"), AS_STR("other#side")), "other#side");
}

static void an_id_of_the_longest_names_fits(void **state AS_UNUSED)
{
    char application[AS_ID_APPLICATION_MAX], name[AS_ID_NAME_MAX + 1];
    struct as_id id;

    memset(application, 'a', sizeof(application));
    memset(name, 'n', sizeof(name));
    assert_int_equal(as_id_make(&id, (struct as_str){application, sizeof(application)},
                                (struct as_str){name, AS_ID_NAME_MAX})
                         .n,
                     AS_ID_MAX);
    assert_int_equal(strlen(id.text), AS_ID_MAX);
    assert_int_equal(as_id_make(&id, (struct as_str){application, sizeof(application)},
                                (struct as_str){name, AS_ID_NAME_MAX + 1})
                         .n,
                     0);
    assert_string_equal(id.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_has_an_application_and_a_name),
        cmocka_unit_test(a_name_alone_is_of_the_default_application),
        cmocka_unit_test(people_do_not_see_the_default_application),
        cmocka_unit_test(a_name_is_resolved_in_its_application),
        cmocka_unit_test(an_id_of_the_longest_names_fits),
    };

    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
