/* Specification of wire/http/http_field: which names and values may be sent in a header. */
#include "wire/http/http_field.h"

#include "unit.h"

static void names(void **state AS_UNUSED)
{
    static const char good[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";

    for (int c = 0; c < 256; c++) {
        char name[] = {'a', (char)c, 'b'};
        bool want = c && strchr(good, c);

        assert_int_equal(as_http_field_is_name((struct as_str){name, 3}), want);
        assert_int_equal(as_http_field_is_name((struct as_str){name, 2}), want);
        assert_int_equal(as_http_field_is_name((struct as_str){name + 1, 2}), want);
    }
    assert_false(as_http_field_is_name((struct as_str){0}));
    assert_false(as_http_field_is_name(AS_STR("")));
}

static void values(void **state AS_UNUSED)
{
    for (int c = 0; c < 256; c++) {
        char value[] = {'a', (char)c, 'b'};
        bool inside = (c >= 0x20 && c != 0x7f) || c == '\t';
        bool outside = inside && c != ' ' && c != '\t';

        assert_int_equal(as_http_field_is_value((struct as_str){value, 3}), inside);
        assert_int_equal(as_http_field_is_value((struct as_str){value, 2}), outside);
        assert_int_equal(as_http_field_is_value((struct as_str){value + 1, 2}), outside);
    }
    assert_true(as_http_field_is_value((struct as_str){0}));
    assert_true(as_http_field_is_value(AS_STR("")));
    assert_false(as_http_field_is_value(AS_STR(" ")));
}

static void fields_of_the_connection(void **state AS_UNUSED)
{
    static const char *const rows[] = {"connection", "keep-alive",        "proxy-connection", "te",
                                       "trailer",    "transfer-encoding", "upgrade"};
    struct as_http_header two[] = {{AS_STR("a"), AS_STR("b")}, {AS_STR("c"), AS_STR("d")}};

    assert_true(as_http_fields_are_valid(two, 2));
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        two[1].name = as_str_of(rows[i]);
        assert_true(as_http_field_is_hop_by_hop(two[1].name));
        assert_false(as_http_field_is_valid(&two[1]));
        assert_false(as_http_fields_are_valid(two, 2));
        assert_true(as_http_fields_are_valid(two, 1));
    }
    assert_false(as_http_field_is_hop_by_hop(AS_STR("content-length")));
    assert_false(as_http_field_is_hop_by_hop(AS_STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(values),
        cmocka_unit_test(fields_of_the_connection),
    };

    return cmocka_run_group_tests_name("field", tests, NULL, NULL);
}
