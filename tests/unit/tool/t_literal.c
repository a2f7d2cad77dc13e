/* Specification of tool/tensor/literal and tool/tensor/print: text becomes a tensor, and a tensor
 * is printed as text. */
#include "tool/tensor/literal.h"

#include "base/rand.h"
#include "tool/tensor/print.h"
#include "unit.h"

static struct as_literal l;
static struct as_buf why;

static int parse(enum as_dtype t, const char *text)
{
    size_t n = strlen(text);
    char *exact =
        malloc(n + 1); /* a block of its own, so that a sanitizer detects a read beyond it */
    int rc;

    as_literal_fini(&l);
    l = (struct as_literal){.n = 0};
    why.n = 0;
    memcpy(exact, text, n);
    rc = as_literal_read(t, (struct as_str){exact, n}, &l, &why);
    as_buf_reserve(&why, 1)[0] = 0;
    free(exact);
    return rc;
}

/* INT32 text, its elements and its shape as text ("-": no brackets). */
static void check(const char *text, const char *values, const char *shape)
{
    struct as_tensor t = {.dtype = AS_DT_INT32, .ndim = 1, .shape = l.shape};
    struct as_buf b = {0};
    int64_t n;

    assert_int_equal(parse(AS_DT_INT32, text), 0);
    n = (int64_t)l.n;
    t.shape = &n;
    t.data = l.data.p;
    assert_int_equal(l.data.n, 4 * l.n);
    as_print_values(&b, &t, 0);
    as_buf_str(&b, l.lists ? " [" : " -");
    for (uint32_t i = 0; l.lists && i < l.ndim; i++)
        as_buf_printf(&b, "%s%lld", i ? "," : "", (long long)l.shape[i]);
    as_buf_str(&b, l.lists ? "]" : "");
    as_buf_add(&b, "", 1);
    assert_true(strncmp((char *)b.p, values, strlen(values)) == 0);
    assert_string_equal((char *)b.p + strlen(values) + 1, shape);
    as_buf_fini(&b);
}

static void check_refused(enum as_dtype t, const char *text, const char *want)
{
    assert_int_equal(parse(t, text), AS_EINVALID);
    assert_string_equal(why.p, want);
}

static void values_without_brackets(void **state AS_UNUSED)
{
    check("1,2,3", "[1, 2, 3]", "-");
    check(" 1 , 2\n3\t4 ", "[1, 2, 3, 4]", "-");
    check("5", "[5]", "-");
    check("", "[]", "-");
    check("  ", "[]", "-");
}

static void lists_have_a_shape(void **state AS_UNUSED)
{
    check("[1,2,3]", "[1, 2, 3]", "[3]");
    check("[[1,2],[3,4],[5,6]]", "[1, 2, 3, 4, 5, 6]", "[3,2]");
    check(" [ [1 2]\n [3 4] ] ", "[1, 2, 3, 4]", "[2,2]");
    check("[[[7]]]", "[7]", "[1,1,1]");
    check("[]", "[]", "[0]");
    check("[[],[]]", "[]", "[2,0]");
    check("[ [ ] , [ ] ]", "[]", "[2,0]");
}

static void errors_name_value_and_position(void **state AS_UNUSED)
{
    check_refused(AS_DT_INT32, "1,2,x", "value 3 at position 5, 'x', is not a whole number");
    check_refused(AS_DT_INT8, "[[1,2],[3,300]]",
                  "value 4 at position 11, '300', is outside -128 … 127 (INT8)");
    check_refused(AS_DT_INT32, "1,,2", "at position 3: a value is missing");
    check_refused(AS_DT_INT32, "1,", "at position 3: a value is missing");
    check_refused(AS_DT_INT32, "[1,]", "at position 4: a value is missing");
    check_refused(AS_DT_INT32, "[,1]", "at position 2: a value is missing");
    check_refused(AS_DT_INT32, "[1,2", "at position 5: the list does not end");
    check_refused(AS_DT_INT32, "[", "at position 2: the list does not end");
    check_refused(AS_DT_INT32, "[1]]", "at position 4: unexpected text after the list");
    check_refused(AS_DT_INT32, "1]", "at position 2: a value is missing");
    check_refused(AS_DT_INT32, "1[2]", "at position 2: a value is missing");
    check_refused(AS_DT_INT32, "[[1,2],[3]]",
                  "at position 10: this list has 1 entries, the lists before have 2");
    check_refused(AS_DT_INT32, "[[1],2]",
                  "at position 6: unexpected value: the lists before have lists at this depth");
    check_refused(AS_DT_INT32, "[1,[2]]",
                  "at position 4: unexpected list: the lists before have values at this depth");
    check_refused(AS_DT_INT32, "[[],[[]]]",
                  "at position 6: unexpected list: the lists before have values at this depth");
    check_refused(
        AS_DT_FP32, "[1.5, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]",
        "value 2 at position 7, 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', is not a number");
}

static void dimensions_are_bounded(void **state AS_UNUSED)
{
    char text[2 * AS_MAX_DIMS + 3];

    memset(text, '[', AS_MAX_DIMS);
    memset(text + AS_MAX_DIMS, ']', AS_MAX_DIMS);
    text[2 * AS_MAX_DIMS] = 0;
    assert_int_equal(parse(AS_DT_INT32, text), 0);
    assert_int_equal(l.ndim, AS_MAX_DIMS);
    memset(text, '[', AS_MAX_DIMS + 1);
    check_refused(AS_DT_INT32, text, "at position 33: more than 32 dimensions");
}

static void check_bytes(const char *text, const char *want, size_t n)
{
    assert_int_equal(parse(AS_DT_BYTES, text), 0);
    assert_int_equal(l.data.n, n);
    if (n)
        assert_memory_equal(l.data.p, want, n);
    assert_int_equal(as_tensor_check_bytes(l.data.p, l.data.n, l.n), 0);
}

static void plain_text_is_one_element(void **state AS_UNUSED)
{
    check_bytes("hello, world", "\14\0\0\0hello, world", 16);
    check_bytes("", "\0\0\0\0", 4);
    check_bytes("say \"x\"", "\7\0\0\0say \"x\"", 11);
    assert_false(l.lists);
}

static void strings_are_quoted_in_lists(void **state AS_UNUSED)
{
    check_bytes("[\"a\",\"bb\"]", "\1\0\0\0a\2\0\0\0bb", 11);
    assert_true(l.lists);
    check_bytes("\"[x]\"", "\3\0\0\0[x]", 7);
    assert_false(l.lists);
    check_bytes("\"a\", \"b\"", "\1\0\0\0a\1\0\0\0b", 10);
    check_bytes("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "\10\0\0\0\"\\/\b\f\n\r\t", 12);
    check_bytes("[\"\\xff\\x00\"]", "\2\0\0\0\xff\0", 6);
    check_bytes("[\"\\u00fc\\u4e16\\ud83d\\ude00\"]",
                "\11\0\0\0\xc3\xbc\xe4\xb8\x96\xf0\x9f\x98\x80", 13);
    check_bytes("[]", "", 0);
}

static void malformed_strings_are_refused(void **state AS_UNUSED)
{
    check_refused(AS_DT_BYTES, "[a]", "at position 2: strings in lists must be in quotes");
    check_refused(AS_DT_BYTES, "[\"a", "at position 4: the string does not end");
    check_refused(AS_DT_BYTES, "\"\\", "at position 3: the string does not end");
    check_refused(AS_DT_BYTES, "[\"a\"\"b\"]", "at position 5: a comma is missing");
    check_refused(AS_DT_BYTES, "\"\\q\"", "at position 4: unknown escape \\q");
    check_refused(AS_DT_BYTES, "\"\\x4\"", "at position 5: expected 2 hexadecimal digits");
    check_refused(AS_DT_BYTES, "\"\\u12\"", "at position 6: expected 4 hexadecimal digits");
    check_refused(AS_DT_BYTES, "\"\\ud800\"", "at position 8: \\ud800 is half of a surrogate pair");
    check_refused(AS_DT_BYTES, "\"\\ud800\\u0041\"",
                  "at position 14: \\u0041 is not the second half of a surrogate pair");
}

static void random_text_is_parsed_or_refused(void **state AS_UNUSED)
{
    static const char letters[] = "[[[]]]\"\\,, 0179-x.eun";
    struct as_rand r = {5};

    for (int i = 0; i < 200000; i++) {
        enum as_dtype t = i % 3 ? AS_DT_INT16 : AS_DT_BYTES;
        char text[13];
        size_t n = as_rand_below(&r, sizeof(text));

        for (size_t k = 0; k < n; k++)
            text[k] = letters[as_rand_below(&r, sizeof(letters) - 1)];
        text[n] = 0;
        if (parse(t, text) == 0) {
            uint64_t elements = l.n;

            if (l.lists)
                assert_int_equal(as_tensor_elements(t, l.shape, l.ndim, &elements), 0);
            assert_int_equal(elements, l.n);
            if (t == AS_DT_BYTES)
                assert_int_equal(as_tensor_check_bytes(l.data.p, l.data.n, l.n), 0);
            else
                assert_int_equal(l.data.n, 2 * l.n);
        } else {
            assert_true(why.n > 0);
        }
    }
}

/* --- printing --- */

static void check_print(const char *text, const char *want, uint64_t most)
{
    struct as_tensor t = {.dtype = text[0] == '[' && strchr(text, '"') ? AS_DT_BYTES : AS_DT_FP32};
    struct as_buf b = {0};

    assert_int_equal(parse(t.dtype, text), 0);
    t.ndim = l.ndim;
    t.shape = l.shape;
    t.data = l.data.p;
    t.nbytes = l.data.n;
    as_print_values(&b, &t, most);
    as_buf_add(&b, "", 1);
    assert_string_equal(b.p, want);
    if (!most) { /* the printed text is parsed to the same tensor */
        struct as_literal first = l;

        l = (struct as_literal){.n = 0};
        assert_int_equal(parse(t.dtype, (char *)b.p), 0);
        assert_int_equal(l.ndim, first.ndim);
        assert_memory_equal(l.shape, first.shape, 8 * l.ndim);
        assert_int_equal(l.data.n, first.data.n);
        if (l.data.n)
            assert_memory_equal(l.data.p, first.data.p, l.data.n);
        as_literal_fini(&first);
    }
    as_buf_fini(&b);
}

static void values_are_printed_row_by_row(void **state AS_UNUSED)
{
    check_print("[1,2.5,-0]", "[1, 2.5, -0]", 0);
    check_print("[[1,2],[3,4]]", "[[1, 2],\n [3, 4]]", 0);
    check_print("[[[1],[2]],[[3],[4]]]", "[[[1],\n  [2]],\n [[3],\n  [4]]]", 0);
    check_print("[[],[]]", "[[], []]", 0);
    check_print("[nan,inf,-inf]", "[nan, inf, -inf]", 0);
    check_print("[\"a\\n\\\"\", \"\\u00fc\", \"\\xff\\n\\\"\"]",
                "[\"a\\u000a\\\"\", \"\xc3\xbc\", \"\\xff\\x0a\\x22\"]", 0);
    check_print("[[1,2],[3,4]]", "[[1, 2],\n [3, … (1 more values; --max-values all)", 3);
    check_print("[[1,2],[3,4]]", "[[1, 2],\n [3, 4]]", 4);
}

static void json_has_flat_data(void **state AS_UNUSED)
{
    static const int64_t shape[] = {2, 1};
    struct as_tensor t = {
        {"x\"", 2}, AS_DT_BYTES, 2, shape, (const uint8_t *)"\1\0\0\0a\1\0\0\0\xff", 10};
    struct as_buf b = {0};

    as_print_json_tensor(&b, &t);
    as_buf_add(&b, "", 1);
    assert_string_equal(b.p, "{\"name\":\"x\\\"\",\"datatype\":\"BYTES\",\"shape\":[2,1],"
                             "\"data_base64\":[\"YQ==\",\"/w==\"]}");
    b.n = 0;
    t.data = (const uint8_t *)"\1\0\0\0a\2\0\0\0\xc3\xbc";
    as_print_json_tensor(&b, &t);
    as_buf_add(&b, "", 1);
    assert_non_null(strstr((char *)b.p, "\"data\":[\"a\",\"\xc3\xbc\"]"));
    b.n = 0;
    t.dtype = AS_DT_FP32;
    t.data = (const uint8_t *)"\0\0\xc0\x7f\0\0\x80\x3f";
    as_print_json_tensor(&b, &t);
    as_buf_add(&b, "", 1);
    assert_non_null(strstr((char *)b.p, "\"data\":[\"NaN\",1]"));
    as_buf_fini(&b);
}

static void control_bytes_are_replaced(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    as_buf_str(&b, "a\x1b[2Jb\tc\n\x7f\r\xc3\xbc");
    as_print_sanitize(&b);
    as_buf_add(&b, "", 1);
    assert_string_equal(b.p, "a?[2Jb\tc\n??\xc3\xbc");
    as_buf_fini(&b);
}

static int fini(void **state AS_UNUSED)
{
    as_literal_fini(&l);
    as_buf_fini(&why);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_without_brackets),
        cmocka_unit_test(lists_have_a_shape),
        cmocka_unit_test(errors_name_value_and_position),
        cmocka_unit_test(dimensions_are_bounded),
        cmocka_unit_test(plain_text_is_one_element),
        cmocka_unit_test(strings_are_quoted_in_lists),
        cmocka_unit_test(malformed_strings_are_refused),
        cmocka_unit_test(random_text_is_parsed_or_refused),
        cmocka_unit_test(values_are_printed_row_by_row),
        cmocka_unit_test(json_has_flat_data),
        cmocka_unit_test(control_bytes_are_replaced),
    };

    return cmocka_run_group_tests_name("literal", tests, NULL, fini);
}
