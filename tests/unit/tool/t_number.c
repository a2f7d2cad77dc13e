/* Specification of tool/tensor/number: every datatype at its bounds, parsed and printed exactly. */
#include "tool/tensor/number.h"

#include "base/err.h"
#include "base/rand.h"
#include "unit.h"

static void check_bits(enum as_dtype t, const char *text, uint64_t want)
{
    uint8_t out[8] = {0};
    uint64_t got;

    assert_int_equal(as_number_read(t, as_str_of(text), out), 0);
    memcpy(&got, out, 8);
    assert_true(got == want);
}

static void check_refused(enum as_dtype t, const char *text, int err, const char *want)
{
    struct as_buf why = {0};
    uint8_t out[8];

    assert_int_equal(as_number_read(t, as_str_of(text), out), err);
    as_number_why(t, err, &why);
    as_buf_add(&why, "", 1);
    assert_string_equal(why.p, want);
    as_buf_fini(&why);
}

static void integers_are_parsed_at_their_bounds(void **state AS_UNUSED)
{
    static const struct {
        enum as_dtype t;
        const char *least, *most, *below, *above, *why;
    } rows[] = {
        {AS_DT_INT8, "-128", "127", "-129", "128", "is outside -128 … 127 (INT8)"},
        {AS_DT_UINT8, "0", "255", "-1", "256", "is outside 0 … 255 (UINT8)"},
        {AS_DT_INT16, "-32768", "32767", "-32769", "32768", "is outside -32768 … 32767 (INT16)"},
        {AS_DT_UINT16, "0", "65535", "-1", "65536", "is outside 0 … 65535 (UINT16)"},
        {AS_DT_INT32, "-2147483648", "2147483647", "-2147483649", "2147483648",
         "is outside -2147483648 … 2147483647 (INT32)"},
        {AS_DT_UINT32, "0", "4294967295", "-1", "4294967296", "is outside 0 … 4294967295 (UINT32)"},
        {AS_DT_INT64, "-9223372036854775808", "9223372036854775807", "-9223372036854775809",
         "9223372036854775808", "is outside -9223372036854775808 … 9223372036854775807 (INT64)"},
        {AS_DT_UINT64, "0", "18446744073709551615", "-1", "18446744073709551616",
         "is outside 0 … 18446744073709551615 (UINT64)"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        const char *const bounds[] = {rows[i].least, rows[i].most};

        for (size_t k = 0; k < 2; k++) {
            char text[AS_NUMBER_TEXT];
            uint8_t out[8];

            assert_int_equal(as_number_read(rows[i].t, as_str_of(bounds[k]), out), 0);
            as_number_write(rows[i].t, out, k, text);
            assert_string_equal(text, bounds[k]);
        }
        check_refused(rows[i].t, rows[i].below, AS_ETOOBIG, rows[i].why);
        check_refused(rows[i].t, rows[i].above, AS_ETOOBIG, rows[i].why);
        check_refused(rows[i].t, "99999999999999999999999999", AS_ETOOBIG, rows[i].why);
    }
}

static void integers_have_these_forms(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"",    "-",  "+",  "1.0", "1e3", "0x",
                                        "0xg", "1 ", " 1", "--1", "١"};

    check_bits(AS_DT_INT32, "+7", 7);
    check_bits(AS_DT_INT32, "0x7fFFffff", 0x7fffffff);
    check_bits(AS_DT_INT32, "-0x80000000", 0x80000000);
    check_bits(AS_DT_INT64, "-0", 0);
    check_bits(AS_DT_UINT8, "-0", 0);
    for (size_t i = 0; i < AS_COUNT(wrong); i++)
        check_refused(AS_DT_INT32, wrong[i], AS_EINVALID, "is not a whole number");
}

static void bools_are_parsed(void **state AS_UNUSED)
{
    check_bits(AS_DT_BOOL, "true", 1);
    check_bits(AS_DT_BOOL, "False", 0);
    check_bits(AS_DT_BOOL, "1", 1);
    check_refused(AS_DT_BOOL, "2", AS_EINVALID, "is not true or false");
    check_refused(AS_DT_BOOL, "yes", AS_EINVALID, "is not true or false");
}

static void floats_are_rounded_correctly(void **state AS_UNUSED)
{
    check_bits(AS_DT_FP64, "0.1", 0x3fb999999999999a);
    check_bits(AS_DT_FP64, "-0", 0x8000000000000000);
    check_bits(AS_DT_FP64, "4.9e-324", 1);
    check_bits(AS_DT_FP64, "1e-999", 0);
    check_bits(AS_DT_FP32, "0.1", 0x3dcccccd);
    check_bits(AS_DT_FP32, "16777217", 0x4b800000); /* ties to even, not through a double */
    check_bits(AS_DT_FP32, "1.00000005960464477540", 0x3f800001);
    check_bits(AS_DT_FP32, "inf", 0x7f800000);
    check_bits(AS_DT_FP32, "-Infinity", 0xff800000);
    check_bits(AS_DT_FP32, "0x1.8p1", 0x40400000);
    /* FP16: 1, the largest, just below the rounding to infinity, subnormals, ties */
    check_bits(AS_DT_FP16, "1", 0x3c00);
    check_bits(AS_DT_FP16, "65504", 0x7bff);
    check_bits(AS_DT_FP16, "65519.99", 0x7bff);
    check_bits(AS_DT_FP16, "6e-8", 0x0001);
    check_bits(AS_DT_FP16, "2.9e-8", 0x0000);
    check_bits(AS_DT_FP16, "6.1e-5", 0x03ff);
    check_bits(AS_DT_FP16, "6.1035156e-05", 0x0400);
    check_bits(AS_DT_FP16, "2049", 0x6800);
    check_bits(AS_DT_FP16, "2051", 0x6802);
    check_bits(AS_DT_FP16, "-inf", 0xfc00);
    check_bits(AS_DT_BF16, "1", 0x3f80);
    check_bits(AS_DT_BF16, "3.3895e38", 0x7f7f);
    check_bits(AS_DT_BF16, "1e-40", 0x0001);
    check_refused(AS_DT_FP16, "65520", AS_ETOOBIG, "is too large for FP16");
    check_refused(AS_DT_BF16, "3.4e38", AS_ETOOBIG, "is too large for BF16");
    check_refused(AS_DT_FP32, "3.5e38", AS_ETOOBIG, "is too large for FP32");
    check_refused(AS_DT_FP64, "-1e999", AS_ETOOBIG, "is too large for FP64");
}

static uint64_t bits_of(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, 8);
    return bits;
}

static void malformed_floats_are_refused(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"",    "x",      "1,", "1 ",  " 1",
                                        "\t1", "nan(1)", "1e", "--1", "infin"};
    char *big = as_xalloc(2000);

    for (size_t i = 0; i < AS_COUNT(wrong); i++)
        check_refused(AS_DT_FP64, wrong[i], AS_EINVALID, "is not a number");
    memset(big, '1', 1999);
    check_refused(AS_DT_FP64, big, AS_EINVALID,
                  "is not a number"); /* over the longest text that is parsed */
    big[300] = 0;
    check_bits(AS_DT_FP64, big, bits_of(strtod(big, NULL)));
    free(big);
}

static void check_text(enum as_dtype t, const char *in, bool json, const char *want)
{
    char text[AS_NUMBER_TEXT];
    uint8_t out[8];

    assert_int_equal(as_number_read(t, as_str_of(in), out), 0);
    as_number_write(t, out, json, text);
    assert_string_equal(text, want);
}

static void the_shortest_text_is_printed(void **state AS_UNUSED)
{
    check_text(AS_DT_FP32, "0.1", true, "0.1");
    check_text(AS_DT_FP64, "0.1", true, "0.1");
    check_text(AS_DT_FP64, "0.30000000000000004", true, "0.30000000000000004");
    check_text(AS_DT_FP32, "16777216", true, "16777216");
    check_text(AS_DT_FP32, "3.4028235e38", true, "3.4028235e+38");
    check_text(AS_DT_FP16, "0.1", true, "0.1");
    check_text(AS_DT_FP16, "65504", true, "65504");
    check_text(AS_DT_BF16, "3.140625", true, "3.14");
    check_text(AS_DT_FP64, "-0", true, "-0");
    check_text(AS_DT_FP16, "1000", true, "1000");
    check_text(AS_DT_FP64, "999999999999999", true, "999999999999999");
    check_text(AS_DT_FP64, "1e15", true, "1e+15");
    check_text(AS_DT_FP32, "nan", true, "\"NaN\"");
    check_text(AS_DT_FP32, "nan", false, "nan");
    check_text(AS_DT_FP16, "-inf", true, "\"-Infinity\"");
    check_text(AS_DT_BF16, "inf", false, "inf");
    check_text(AS_DT_BOOL, "1", true, "true");
}

/* Every FP16 and BF16, and many of the others: the printed text is parsed to the same bits. */
static void every_float_is_parsed_again(void **state AS_UNUSED)
{
    static const enum as_dtype types[] = {AS_DT_FP16, AS_DT_BF16, AS_DT_FP32, AS_DT_FP64};
    struct as_rand r = {3};

    for (size_t k = 0; k < AS_COUNT(types); k++) {
        size_t size = as_dtype_size(types[k]);

        for (uint32_t i = 0; i < 65536; i++) {
            uint64_t v = size == 2 ? i : as_rand_next(&r) >> (64 - 8 * size);
            uint8_t bytes[8], back[8];
            char text[AS_NUMBER_TEXT];

            memcpy(bytes, &v, 8);
            as_number_write(types[k], bytes, false, text);
            if (strstr(text, "nan")) /* several bit patterns are NaN */
                continue;
            assert_int_equal(as_number_read(types[k], as_str_of(text), back), 0);
            assert_memory_equal(back, bytes, size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_parsed_at_their_bounds),
        cmocka_unit_test(integers_have_these_forms),
        cmocka_unit_test(bools_are_parsed),
        cmocka_unit_test(floats_are_rounded_correctly),
        cmocka_unit_test(malformed_floats_are_refused),
        cmocka_unit_test(the_shortest_text_is_printed),
        cmocka_unit_test(every_float_is_parsed_again),
    };

    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
