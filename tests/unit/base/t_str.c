#include "base/utf8.h"

#include "base/err.h"
#include "unit.h"

static int natural(const char *a, const char *b)
{
    return as_str_compare_natural(as_str_of(a), as_str_of(b));
}

static void digit_runs_compare_as_numbers(void **state AS_UNUSED)
{
    assert_true(natural("2", "10") < 0);
    assert_true(natural("v2", "v10") < 0);
    assert_true(natural("v1.9", "v1.10") < 0);
    assert_true(natural("1.10.0", "1.9.9") > 0);
    assert_true(natural("a", "b") < 0);
    assert_true(natural("a", "a1") < 0);
    assert_true(natural("", "0") < 0);
    assert_int_equal(natural("x7", "x7"), 0);
    assert_int_equal(natural("", ""), 0);
}

static void numbers_of_any_length_compare(void **state AS_UNUSED)
{
    assert_true(natural("99999999999999999999999998", "99999999999999999999999999") < 0);
    assert_true(natural("9", "99999999999999999999999999") < 0);
}

static void leading_zeros_count_only_as_a_tie_break(void **state AS_UNUSED)
{
    assert_true(natural("01", "2") < 0);
    assert_true(natural("1", "01") < 0);
    assert_true(natural("01", "1") > 0);
    assert_true(natural("010", "9") > 0);
}

static void natural_order_is_antisymmetric(void **state AS_UNUSED)
{
    static const char *const v[] = {"", "0", "00", "1", "01", "1a", "a1", "a01", "a1b", "10", "9"};

    for (size_t i = 0; i < AS_COUNT(v); i++) {
        for (size_t j = 0; j < AS_COUNT(v); j++) {
            int ij = natural(v[i], v[j]), ji = natural(v[j], v[i]);

            assert_int_equal((ij > 0) - (ij < 0), (ji < 0) - (ji > 0));
            assert_true((ij == 0) == (i == j));
        }
    }
}

static void u64_accepts_exactly_its_range(void **state AS_UNUSED)
{
    uint64_t v = 7;

    assert_int_equal(as_str_u64(AS_STR("18446744073709551615"), &v), 0);
    assert_true(v == UINT64_MAX);
    v = 7;
    assert_int_equal(as_str_u64(AS_STR("18446744073709551616"), &v), AS_EINVALID);
    assert_int_equal(as_str_u64(AS_STR(""), &v), AS_EINVALID);
    assert_int_equal(as_str_u64(AS_STR("-1"), &v), AS_EINVALID);
    assert_int_equal(as_str_u64(AS_STR("1 "), &v), AS_EINVALID);
    assert_true(v == 7);
}

static void a_list_is_split_and_trimmed(void **state AS_UNUSED)
{
    struct as_str list = AS_STR(" gzip ; q=0\t,,br");

    assert_true(as_str_eq(as_str_split(&list, ','), AS_STR("gzip ; q=0")));
    assert_int_equal(as_str_split(&list, ',').n, 0);
    assert_true(as_str_eq(as_str_split(&list, ','), AS_STR("br")));
    assert_int_equal(list.n, 0);
    assert_true(as_str_eq(as_str_trim(AS_STR("\ta b ")), AS_STR("a b")));
    assert_int_equal(as_str_trim(AS_STR(" \t ")).n, 0);
    assert_true(as_str_eq_nocase(AS_STR("Chunked"), AS_STR("chunked")));
    assert_false(as_str_eq_nocase(AS_STR("chunked "), AS_STR("chunked")));
}

static void hexadecimal_digits_have_values(void **state AS_UNUSED)
{
    int sum = 0;

    for (int c = 0; c < 256; c++)
        sum += as_hex_digit((char)c) + 1;
    assert_int_equal(sum, 45 + 10 + 2 * (75 + 6)); /* no other character has one */
    assert_int_equal(as_hex_digit('7'), 7);
    assert_int_equal(as_hex_digit('F'), 15);
    assert_int_equal(as_hex_digit('a'), 10);
}

static void ranges_of_a_list_are_read(void **state AS_UNUSED)
{
    const char *p = "0-3,8";
    unsigned long from, to;

    assert_true(as_str_range(&p, &from, &to) && from == 0 && to == 3);
    assert_string_equal(p++, ",8");
    assert_true(as_str_range(&p, &from, &to) && from == 8 && to == 8);
    assert_string_equal(p, "");
    assert_false(as_str_range(&p, &from, &to));
    for (const char *bad = "-1\0"
                           "3-\0"
                           "3-x\0"
                           "4-3\0";
         *bad; bad += strlen(bad) + 1) {
        p = bad;
        assert_false(as_str_range(&p, &from, &to));
    }
}

static void percent_encoded_bytes_have_two_digits(void **state AS_UNUSED)
{
    assert_int_equal(as_str_percent(AS_STR("%2fx")), '/');
    assert_int_equal(as_str_percent(AS_STR("%00")), 0);
    assert_int_equal(as_str_percent(AS_STR("%2")), -1);
    assert_int_equal(as_str_percent(AS_STR("%2g")), -1);
    assert_int_equal(as_str_percent(AS_STR("a2f")), -1);
    assert_int_equal(as_str_percent(AS_STR("")), -1);
}

static void dup_ends_with_nul(void **state AS_UNUSED)
{
    char *p = as_str_dup((struct as_str){"abc", 2});

    assert_string_equal(p, "ab");
    free(p);
    p = as_str_dup((struct as_str){NULL, 0});
    assert_string_equal(p, "");
    free(p);
}

static void a_cut_text_ends_with_a_whole_character(void **state AS_UNUSED)
{
    struct as_str s = AS_STR("a\u00fc\u20ac\U0001f600b"); /* characters of 1, 2, 3, 4 and 1 bytes */
    const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};

    for (size_t max = 0; max < AS_COUNT(kept); max++) {
        assert_int_equal(as_utf8_cut(s, max).n, kept[max]);
        assert_ptr_equal(as_utf8_cut(s, max).p, s.p);
    }
    /* what is not UTF-8 loses three bytes at most */
    assert_int_equal(as_utf8_cut(AS_STR("\x80\x80\x80\x80\x80\x80\x80\x80"), 7).n, 4);
    assert_int_equal(as_utf8_cut((struct as_str){NULL, 0}, 5).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digit_runs_compare_as_numbers),
        cmocka_unit_test(numbers_of_any_length_compare),
        cmocka_unit_test(leading_zeros_count_only_as_a_tie_break),
        cmocka_unit_test(natural_order_is_antisymmetric),
        cmocka_unit_test(u64_accepts_exactly_its_range),
        cmocka_unit_test(a_list_is_split_and_trimmed),
        cmocka_unit_test(hexadecimal_digits_have_values),
        cmocka_unit_test(ranges_of_a_list_are_read),
        cmocka_unit_test(percent_encoded_bytes_have_two_digits),
        cmocka_unit_test(dup_ends_with_nul),
        cmocka_unit_test(a_cut_text_ends_with_a_whole_character),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
