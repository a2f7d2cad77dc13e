/* Specification of wire/json/json: reading any text, elements of tensors, writing. What is accepted
 * in general is compared with Python's json in tests/python/test_json.py. */
#include "json_case.h"
#include "wire/json/json_text.h"

static int open_text(const char *z)
{
    struct as_str s = keep_text(z, ']');

    return as_json_open(got.j, &got.arena, (const uint8_t *)s.p, s.n, &got.root);
}

/* --- reading --- */

/* A text of its own needs no padding, and goes when it is closed: the text that was given may go at
 * once. */
static void a_copy_is_read(void **state AS_UNUSED)
{
    static const char text[] = "{\"a\": \"x\\ty\", \"b\": \"plain\"}";
    char *given = test_malloc(sizeof(text) - 1); /* what is behind it is not to be read */
    struct as_json_text t;
    struct as_json_value root;
    struct as_str a, b;
    const struct as_json_row rows[] = {{"a", AS_JSON_FIELD_STR, &a}, {"b", AS_JSON_FIELD_STR, &b}};

    memcpy(given, text, sizeof(text) - 1);
    assert_int_equal(as_json_text_open(&t, (struct as_str){given, sizeof(text) - 1}, &root), 0);
    test_free(given);
    assert_int_equal(as_json_read(t.json, &root, rows, 2), 0);
    assert_int_equal(as_json_expect_end(t.json), 0);
    assert_str(a, "x\ty");
    assert_str(b, "plain");
    as_json_text_close(&t);
    assert_int_equal(as_json_text_open(&t, AS_STR("{\"a\""), &root), AS_EPROTO);
    assert_non_null(strstr(as_json_why(t.json), "not JSON"));
    as_json_text_close(&t);
    assert_int_equal(as_json_text_open(&t, (struct as_str){0}, &root), AS_EPROTO);
    as_json_text_close(&t);
}

static void members_come_in_order(void **state AS_UNUSED)
{
    struct as_json_items it, in;
    struct as_str s;
    uint64_t u;
    double d;
    bool b;

    assert_int_equal(open_text("{\"a\": 1, \"b\\n\": [true, 2.5], \"a\": \"x\\u00e9\"}"), 0);
    assert_int_equal(got.root.type, AS_JSON_OBJECT);
    assert_int_equal(as_json_items(got.j, &got.root, &it), 0);
    assert_int_equal(as_json_next(got.j, &it), 1);
    assert_str(it.key, "a");
    assert_int_equal(as_json_u64(got.j, &it.value, &u), 0);
    assert_int_equal(u, 1);
    assert_int_equal(as_json_next(got.j, &it), 1);
    assert_str(it.key, "b\n");
    assert_int_equal(as_json_items(got.j, &it.value, &in), 0);
    assert_int_equal(as_json_next(got.j, &in), 1);
    assert_int_equal(as_json_bool(got.j, &in.value, &b), 0);
    assert_true(b);
    assert_int_equal(as_json_next(got.j, &in), 1);
    assert_int_equal(as_json_f64(got.j, &in.value, &d), 0);
    assert_true(d == 2.5);
    assert_int_equal(as_json_next(got.j, &in), 0);
    assert_int_equal(as_json_next(got.j, &it), 1); /* the second "a" is returned, too */
    assert_int_equal(as_json_string(got.j, &it.value, &s), 0);
    assert_str(s, "x\xc3\xa9");
    assert_int_equal(as_json_next(got.j, &it), 0);
    assert_int_equal(as_json_expect_end(got.j), 0);
    as_json_close(got.j);
}

static void values_not_read_are_checked(void **state AS_UNUSED)
{
    struct as_json_items it;

    assert_int_equal(open_text("{\"a\": [1, {\"b\": nul}], \"c\": 1}"), 0);
    assert_int_equal(as_json_items(got.j, &got.root, &it), 0);
    assert_int_equal(as_json_next(got.j, &it), 1);
    assert_int_equal(as_json_next(got.j, &it), AS_EPROTO);
    assert_string_equal(as_json_why(got.j), "not JSON at byte 16: expected a value");
    as_json_close(got.j);
}

static void errors_have_a_position(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "not JSON: the text is empty"},
        {"7", "not JSON at byte 0: expected an object or an array"},
        {"[1,2", "not JSON at byte 3: expected the end of the object or array"},
        {"[\"a]", "not JSON: a string is not closed"},
        {"[\"\x01\"]", "not JSON: a control character in a string is not escaped"},
        {"[\"\xff\"]", "not JSON: the text is not valid UTF-8"},
        {"[1 2]", "not JSON at byte 3: expected ',' or ']'"},
        {"{\"a\" 2}", "not JSON at byte 5: expected ':'"},
        {"{\"a\":2 \"b\":3}", "not JSON at byte 7: expected ',' or '}'"},
        {"{7:2}", "not JSON at byte 1: expected a string"},
        {"[\"\\q\"]", "not JSON at byte 1: a bad escape in a string"},
        {"[] ]", "not JSON at byte 3: something follows the end"},
        {"[[]", "not JSON at byte 3: expected ',' or ']'"},
        {"[1.]", "not JSON at byte 1: expected a value"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        int err = open_text(rows[i].text);

        if (!err)
            err = as_json_skip(got.j, &got.root);
        if (!err)
            err = as_json_expect_end(got.j);
        assert_int_equal(err, AS_EPROTO);
        assert_string_equal(as_json_why(got.j), rows[i].why);
        as_json_close(got.j);
    }
}

static void depth_has_a_limit(void **state AS_UNUSED)
{
    char text[2 * (AS_JSON_DEPTH + 1) + 1];

    for (size_t n = AS_JSON_DEPTH; n <= AS_JSON_DEPTH + 1; n++) {
        memset(text, '[', n);
        memset(text + n, ']', n);
        text[2 * n] = 0;
        assert_int_equal(open_text(text), 0);
        assert_int_equal(as_json_skip(got.j, &got.root), n > AS_JSON_DEPTH ? AS_EPROTO : 0);
        as_json_close(got.j);
    }
    assert_string_equal(as_json_why(got.j), "not JSON at byte 100: nested deeper than 100 levels");
}

static void another_type_is_refused_and_read(void **state AS_UNUSED)
{
    struct as_json_items it;
    struct as_str s;
    uint64_t u;
    int64_t i;
    double d;
    bool b;

    assert_int_equal(open_text("[1, \"x\", 18446744073709551616, -1, 1.5, 1e999, {}]"), 0);
    assert_int_equal(as_json_items(got.j, &got.root, &it), 0);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_string(got.j, &it.value, &s), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_u64(got.j, &it.value, &u), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_u64(got.j, &it.value, &u), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_u64(got.j, &it.value, &u), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_i64(got.j, &it.value, &i), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_f64(got.j, &it.value, &d), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_bool(got.j, &it.value, &b), AS_EINVALID);
    assert_int_equal(as_json_next(got.j, &it), 0);
    as_json_close(got.j);
}

static void integers_have_64_bits(void **state AS_UNUSED)
{
    struct as_json_items it;
    uint64_t u;
    int64_t i;

    open_text(
        "[18446744073709551615, 9223372036854775807, -9223372036854775808, -9223372036854775809, "
        "9223372036854775808, -0]");
    as_json_items(got.j, &got.root, &it);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_u64(got.j, &it.value, &u), 0);
    assert_true(u == UINT64_MAX);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_i64(got.j, &it.value, &i), 0);
    assert_true(i == INT64_MAX);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_i64(got.j, &it.value, &i), 0);
    assert_true(i == INT64_MIN);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_i64(got.j, &it.value, &i), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_i64(got.j, &it.value, &i), AS_EINVALID);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_u64(got.j, &it.value, &u), 0);
    assert_int_equal(u, 0);
    as_json_close(got.j);
}

static void a_value_may_be_deferred(void **state AS_UNUSED)
{
    struct as_json_value later;
    struct as_json_elements e;
    struct as_json_items it;
    int32_t out[3];
    size_t len;

    assert_int_equal(open_text("{\"data\":[1,2,3],\"b\":null}"), 0);
    as_json_items(got.j, &got.root, &it);
    as_json_next(got.j, &it);
    assert_int_equal(as_json_defer(got.j, &it.value, &later, &len), 0);
    assert_int_equal(len, 7);
    assert_int_equal(as_json_next(got.j, &it), 1);
    assert_int_equal(as_json_next(got.j, &it), 0);
    assert_int_equal(as_json_expect_end(got.j), 0);
    assert_int_equal(as_json_elements(got.j, &later, AS_DT_INT32, 3, (uint8_t *)out, 12, &e), 0);
    assert_int_equal(out[2], 3);
    as_json_close(got.j);
}

static void the_index_of_a_large_text_is_freed(void **state AS_UNUSED)
{
    size_t n = 4u << 20;
    char *text = malloc(n + 1);

    memset(text, ' ', n);
    text[0] = '[';
    text[n - 1] = ']';
    text[n] = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_text(text), 0);
        assert_int_equal(as_json_skip(got.j, &got.root), 0);
        as_json_close(got.j);
    }
    free(text);
    assert_int_equal(open_text("[]"), 0);
    as_json_close(got.j);
}

/* --- elements --- */

static struct as_json_elements e;
static uint8_t out[256];

static int elements(enum as_dtype t, uint64_t max, const char *text)
{
    int err = open_text(text);

    memset(out, 0xaa, sizeof(out));
    if (!err)
        err = as_json_elements(got.j, &got.root, t, max, out, sizeof(out), &e);
    as_json_close(got.j);
    return err;
}

static void elements_may_be_nested(void **state AS_UNUSED)
{
    static const int16_t want[] = {1, 2, 3, 4, 5, 6};

    assert_int_equal(elements(AS_DT_INT16, 6, "[[1,2,3],[4,5,6]]"), 0);
    assert_int_equal(e.count, 6);
    assert_int_equal(e.bytes, 12);
    assert_int_equal(e.ndim, 2);
    assert_int_equal(e.shape[0], 2);
    assert_int_equal(e.shape[1], 3);
    assert_memory_equal(out, want, 12);
    assert_int_equal(elements(AS_DT_INT16, 0, "[[],[]]"), 0);
    assert_int_equal(e.ndim, 2);
    assert_int_equal(e.shape[1], 0);
}

static void elements_beyond_max_are_counted(void **state AS_UNUSED)
{
    assert_int_equal(elements(AS_DT_UINT8, 2, "[1,2,3,4,5]"), 0);
    assert_int_equal(e.count, 5);
    assert_int_equal(e.bytes, 2);
    assert_int_equal(out[1], 2);
    assert_int_equal(out[2], 0xaa);
    assert_int_equal(elements(AS_DT_BYTES, 1, "[\"ab\",\"c\"]"), 0);
    assert_int_equal(e.count, 2);
    assert_int_equal(e.bytes, 6);
    assert_memory_equal(out, "\2\0\0\0ab\xaa", 7);
}

static void elements_must_match_the_datatype(void **state AS_UNUSED)
{
    static const struct {
        enum as_dtype t;
        const char *text, *why;
    } rows[] = {
        {AS_DT_UINT8, "[1,256]", "data[1]: 256 does not fit UINT8"},
        {AS_DT_UINT8, "[-1]", "data[0]: -1 does not fit UINT8"},
        {AS_DT_INT8, "[128]", "data[0]: 128 does not fit INT8"},
        {AS_DT_INT8, "[-129]", "data[0]: -129 does not fit INT8"},
        {AS_DT_INT64, "[9223372036854775808]", "data[0]: 9223372036854775808 does not fit INT64"},
        {AS_DT_UINT64, "[18446744073709551616]",
         "data[0]: 18446744073709551616 does not fit UINT64"},
        {AS_DT_INT32, "[1.0]", "data[0]: 1.0 is not an integer, which is required by INT32"},
        {AS_DT_INT32, "[\"1\"]", "data[0] is a string, INT32 takes integers"},
        {AS_DT_INT32, "[null]", "data[0] is null, INT32 takes integers"},
        {AS_DT_FP32, "[true]", "data[0] is a bool, FP32 takes numbers"},
        {AS_DT_FP32, "[3.5e38]", "data[0]: 3.5e38 does not fit FP32"},
        {AS_DT_FP64, "[-1e309]", "data[0]: -1e309 does not fit FP64"},
        {AS_DT_FP16, "[65520]", "data[0]: 65520 does not fit FP16"},
        {AS_DT_BF16, "[3.4e38]", "data[0]: 3.4e38 does not fit BF16"},
        {AS_DT_BOOL, "[1]", "data[0] is a number, BOOL takes true and false"},
        {AS_DT_BYTES, "[\"a\",1]", "data[1] is a number, BYTES takes strings"},
        {AS_DT_INT32, "{}", "data[0] is an object, INT32 takes integers"},
        {AS_DT_INT32, "[1,[2]]", "data[1] is an array among elements, INT32 takes integers"},
        {AS_DT_INT32, "[[1,2],[3]]", "data is nested unevenly (at element 3)"},
        {AS_DT_INT32, "[[1],2]", "data is nested unevenly (at element 1)"},
        {AS_DT_INT32, "[[1],[[2]]]", "data is nested unevenly (at element 1)"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(elements(rows[i].t, 8, rows[i].text), AS_EINVALID);
        assert_string_equal(e.why, rows[i].why);
    }
    assert_int_equal(elements(AS_DT_INT32, 8, "[NaN]"), AS_EPROTO);
    assert_int_equal(elements(AS_DT_FP32, 8, "[Nan]"), AS_EPROTO);
}

static void sixteen_bits_at_their_limits(void **state AS_UNUSED)
{
    static const uint16_t half[] = {0x7bff, 0x0001, 0x8001, 0x0000, 0x8000, 0x7c00, 0xfc00, 0x3c01};
    static const uint16_t brain[] = {0x7f7f, 0x3f80, 0x3f81, 0x0001};

    assert_int_equal(
        elements(AS_DT_FP16, 8,
                 "[65519.99, 5.9604644775390625e-8, -3e-8, 2.9802322387695312e-8, -0.0, "
                 "Infinity, -Infinity, 1.00048828125000000000000000001]"),
        0);
    assert_memory_equal(out, half, sizeof(half));
    assert_int_equal(
        elements(AS_DT_BF16, 4,
                 "[3.3895313892515355e38, 1.00390625, 1.003906250000000000000001, 9.2e-41]"),
        0);
    assert_memory_equal(out, brain, sizeof(brain));
}

static void more_levels_than_dimensions_are_refused(void **state AS_UNUSED)
{
    char text[80];

    for (int n = AS_MAX_DIMS; n <= AS_MAX_DIMS + 1; n++) {
        memset(text, '[', (size_t)n);
        text[n] = '1';
        memset(text + n + 1, ']', (size_t)n);
        text[2 * n + 1] = 0;
        assert_int_equal(elements(AS_DT_INT8, 1, text), n > AS_MAX_DIMS ? AS_EINVALID : 0);
    }
    assert_string_equal(e.why, "data is nested deeper than 32 levels");
}

/* --- writing --- */

static void commas_are_added(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    as_json_put_open(&b, '{');
    as_json_put_key(&b, "a");
    as_json_put_u64(&b, UINT64_MAX);
    as_json_put_key(&b, "b");
    as_json_put_open(&b, '[');
    as_json_put_i64(&b, INT64_MIN);
    as_json_put_f64(&b, 0.1);
    as_json_put_f64(&b, 1e300);
    as_json_put_f64(&b, 3);
    as_json_put_f64(&b, (double)__builtin_nanf(""));
    as_json_put_bool(&b, true);
    as_json_put_null(&b);
    as_json_put_close(&b, ']');
    as_json_put_escaped_key(&b, AS_STR("\""));
    as_json_put_cstr(&b, "x\n\x01\x7f\\");
    as_json_put_close(&b, '}');
    assert_str(as_buf_slice(&b),
               "{\"a\":18446744073709551615,\"b\":[-9223372036854775808,0.1,1e+300,3.0,null,"
               "true,null],\"\\\"\":\"x\\n\\u0001\\u007f\\\\\"}");
    as_buf_fini(&b);
    as_json_put_error(&b, AS_STR("bad \xff byte"));
    assert_str(as_buf_slice(&b), "{\"error\":\"bad \\ufffd byte\"}");
    as_buf_fini(&b);
}

#define PRINTED(t, a)                                                                              \
    ((struct as_str){(char *)text, as_json_put_elements(text, t, (const uint8_t *)(a), sizeof(a))})

static void elements_have_the_shortest_text(void **state AS_UNUSED)
{
    static const uint64_t u64[] = {
        0, 9, 10, 99999999, 100000000, 9999999999999999, 10000000000000000, UINT64_MAX};
    static const int64_t i64[] = {INT64_MIN, -100000000, -1, INT64_MAX};
    static const float f32[] = {0.1f, 1, -0.0f, 1e10f, 3.4028235e38f, 1e-45f};
    static const uint16_t f16[] = {0x3c00, 0x0001, 0x7c00, 0xfc00, 0x7e00, 0xc000};
    static const int8_t i8[] = {-128, 0, 99, 100, 127};
    static const uint8_t truth[] = {0, 1};
    uint8_t text[256];

    assert_str(PRINTED(AS_DT_FP32, f32), "0.1,1.0,-0.0,1e+10,3.4028235e+38,1e-45");
    assert_str(PRINTED(AS_DT_FP16, f16), "1.0,5.9604645e-08,Infinity,-Infinity,NaN,-2.0");
    assert_str(PRINTED(AS_DT_INT8, i8), "-128,0,99,100,127");
    assert_str(PRINTED(AS_DT_BOOL, truth), "false,true");
    assert_str(PRINTED(AS_DT_UINT64, u64),
               "0,9,10,99999999,100000000,9999999999999999,10000000000000000,18446744073709551615");
    assert_str(PRINTED(AS_DT_INT64, i64), "-9223372036854775808,-100000000,-1,9223372036854775807");
    assert_int_equal(as_json_put_elements(text, AS_DT_INT8, text, 0), 0);
    assert_int_equal(as_json_elements_max(AS_DT_BYTES, (const uint8_t *)"\1\0\0\0\xff", 5),
                     UINT64_MAX);
    assert_int_equal(as_json_elements_max(AS_DT_BYTES, (const uint8_t *)"\1\0\0\0\n", 5), 5);
}

/* Escapes at every offset of the eight bytes that are tested together, and next to bytes above 127.
 */
static void escapes_are_found_at_every_offset(void **state AS_UNUSED)
{
    static const struct {
        uint8_t byte;
        const char *text;
    } rows[] = {{'"', "\\\""},     {'\\', "\\\\"},    {'\n', "\\n"}, {0, "\\u0000"},
                {0x1f, "\\u001f"}, {0x7f, "\\u007f"}, {' ', " "},    {'!', "!"},
                {'#', "#"},        {'[', "["},        {']', "]"},    {'~', "~"}};
    char raw[32], want[64];
    uint8_t text[128];

    for (size_t n = 1; n < 20; n++) {
        for (size_t at = 0; at < n; at++) {
            for (size_t i = 0; i < AS_COUNT(rows); i++) {
                for (size_t k = 0; k + 1 < n; k += 2)
                    memcpy(raw + k, "\xc3\xa9", 2);
                raw[n - 1] = 'x';
                if (at + 1 < n && at % 2 == 0)
                    raw[at + 1] = 'y';
                if (at % 2)
                    raw[at - 1] = 'z';
                raw[at] = (char)rows[i].byte;
                snprintf(want, sizeof(want), "\"%.*s%s%.*s\"", (int)at, raw, rows[i].text,
                         (int)(n - at - 1), raw + at + 1);
                assert_int_equal(as_json_string_len((struct as_str){raw, n}), strlen(want));
                assert_str((struct as_str){(char *)text,
                                           as_json_copy_string(text, (struct as_str){raw, n})},
                           want);
            }
        }
    }
}

/* Whole numbers that are printed without an exponent get ".0". */
static void elements_max_fits_the_longest_elements(void **state AS_UNUSED)
{
    static const float f32[] = {-1234567823360.0f, -1.17549435e-38f, -8388608.5f};
    static const double f64[] = {-1234567890123456774144.0, -2.2250738585072014e-308};
    uint8_t text[64];

    for (size_t i = 0; i < AS_COUNT(f32); i++)
        assert_true(as_json_put_elements(text, AS_DT_FP32, (const uint8_t *)&f32[i], 4) <
                    as_json_elements_max(AS_DT_FP32, (const uint8_t *)&f32[i], 4));
    for (size_t i = 0; i < AS_COUNT(f64); i++)
        assert_true(as_json_put_elements(text, AS_DT_FP64, (const uint8_t *)&f64[i], 8) <
                    as_json_elements_max(AS_DT_FP64, (const uint8_t *)&f64[i], 8));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, up, down)
    const struct CMUnitTest tests[] = {
        T(a_copy_is_read),
        T(members_come_in_order),
        T(values_not_read_are_checked),
        T(errors_have_a_position),
        T(depth_has_a_limit),
        T(another_type_is_refused_and_read),
        T(integers_have_64_bits),
        T(a_value_may_be_deferred),
        T(the_index_of_a_large_text_is_freed),
        T(elements_may_be_nested),
        T(elements_beyond_max_are_counted),
        T(elements_must_match_the_datatype),
        T(sixteen_bits_at_their_limits),
        T(more_levels_than_dimensions_are_refused),
        T(commas_are_added),
        T(elements_have_the_shortest_text),
        T(escapes_are_found_at_every_offset),
        T(elements_max_fits_the_longest_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
