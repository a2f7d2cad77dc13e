/* Specification of wire/grpc/grpc: framing, timeouts, status messages, metadata. */
#include "wire/grpc/grpc.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Reads `n` bytes that arrive in two parts; returns messages as "<len>text", '!' for the flag. */
static int read_cut(const uint8_t *p, size_t n, size_t cut, struct as_buf *out,
                    struct as_grpc_reader *r)
{
    const uint8_t *part[2] = {p, p + cut};
    size_t left[2] = {cut, n - cut};

    *r = (struct as_grpc_reader){0};
    for (int i = 0; i < 2; i++) {
        const uint8_t *q;
        uint64_t len;
        bool compressed;
        enum as_grpc_step step;

        while ((step = as_grpc_read(r, &part[i], &left[i], &q, &len, &compressed))) {
            if (step == AS_GRPC_BAD)
                return AS_EINVALID;
            if (step == AS_GRPC_MESSAGE)
                as_buf_printf(out, "<%u%s>", (unsigned)len, compressed ? "!" : "");
            else
                as_buf_add(out, q, (size_t)len);
        }
        assert_int_equal(left[i], 0);
    }
    return 0;
}

static void check_at_every_cut(const void *bytes, size_t n, const char *want, bool at_boundary)
{
    for (size_t cut = 0; cut <= n; cut++) {
        struct as_buf out = {0};
        struct as_grpc_reader r;

        assert_int_equal(read_cut(bytes, n, cut, &out, &r), 0);
        as_buf_add(&out, "", 1);
        assert_string_equal((char *)out.p, want);
        assert_int_equal(as_grpc_at_boundary(&r), at_boundary);
        as_buf_fini(&out);
    }
}

static void test_a_message_may_be_cut_anywhere(void **state)
{
    (void)state;
    check_at_every_cut("\0\0\0\0\5hello", 10, "<5>hello", true);
    check_at_every_cut("\1\0\0\0\5hello", 10, "<5!>hello", true);
    check_at_every_cut("\0\0\0\0\5hello\1\0\0\0\1x", 16, "<5>hello<1!>x", true);
}

static void test_empty_messages_and_bodies_are_legal(void **state)
{
    (void)state;
    check_at_every_cut("", 0, "", true);
    check_at_every_cut("\0\0\0\0\0", 5, "<0>", true);
    check_at_every_cut("\0\0\0\0\0\0\0\0\0\0", 10, "<0><0>", true);
}

static void test_an_end_inside_of_a_message_is_not_at_a_boundary(void **state)
{
    (void)state;
    check_at_every_cut("\0", 1, "", false);
    check_at_every_cut("\0\0\0\0", 4, "", false);
    check_at_every_cut("\0\0\0\0\5hell", 9, "<5>hell", false);
    check_at_every_cut("\0\0\0\0\1x\0\0", 8, "<1>x", false);
}

static void test_messages_are_counted(void **state)
{
    static const uint8_t three[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 0, 0, 0, 0, 0};
    struct as_grpc_reader r;
    struct as_buf out = {0};

    (void)state;
    assert_int_equal(read_cut(three, sizeof(three), 7, &out, &r), 0);
    assert_int_equal(r.messages, 3);
    as_buf_fini(&out);
}

static void test_a_length_is_big_endian_and_may_use_all_32_bits(void **state)
{
    struct as_grpc_reader r = {0};
    const uint8_t *p = (const uint8_t *)"\0\xff\xfe\xfd\xfc", *q;
    uint8_t out[AS_GRPC_PREFIX];
    size_t n = 5;
    uint64_t len;
    bool compressed;

    (void)state;
    assert_int_equal(as_grpc_read(&r, &p, &n, &q, &len, &compressed), AS_GRPC_MESSAGE);
    assert_int_equal(len, 0xfffefdfc);
    assert_false(compressed);
    assert_int_equal(as_grpc_read(&r, &p, &n, &q, &len, &compressed), AS_GRPC_MORE);
    as_grpc_prefix(out, 0xfffefdfc);
    assert_memory_equal(out, "\0\xff\xfe\xfd\xfc", 5);
}

static void test_other_flag_bytes_are_bad_at_once(void **state)
{
    struct as_buf out = {0};
    struct as_grpc_reader r;

    (void)state;
    assert_int_equal(read_cut((const uint8_t *)"\2", 1, 0, &out, &r), AS_EINVALID);
    assert_int_equal(read_cut((const uint8_t *)"\x80\0\0\0\0", 5, 1, &out, &r), AS_EINVALID);
    assert_int_equal(read_cut((const uint8_t *)"\0\0\0\0\0\3", 6, 3, &out, &r), AS_EINVALID);
    as_buf_fini(&out);
}

static void test_timeouts(void **state)
{
    static const struct {
        const char *text;
        as_ns want;
    } good[] = {
        {"1H", 3600 * AS_SEC},
        {"1M", 60 * AS_SEC},
        {"1S", AS_SEC},
        {"1m", AS_MS},
        {"1u", AS_US},
        {"1n", 1},
        {"0n", 0},
        {"00000001S", AS_SEC},
        {"99999999S", AS_SEC * 99999999},
        {"99999999M", 60 * AS_SEC * 99999999},
        {"05124095H", 3600 * AS_SEC * 5124095},
        {"05124096H", AS_NEVER - 1},
        {"99999999H", AS_NEVER - 1},
    };
    static const char *const bad[] = {"",    "1",   "S",    "1s",  "1h",         "1 S", " 1S",
                                      "-1S", "+1S", "1.5S", "1SS", "100000000n", "1S ", "m1"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(good); i++) {
        as_ns got = 12345;

        assert_int_equal(as_grpc_timeout(as_str_of(good[i].text), &got), 0);
        assert_int_equal(got, good[i].want);
    }
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        as_ns got = 12345;

        assert_int_equal(as_grpc_timeout(as_str_of(bad[i]), &got), AS_EINVALID);
        assert_int_equal(got, 12345);
    }
}

static void check_message(const char *text, size_t max, const char *want)
{
    char out[256];
    size_t n = as_grpc_encode_message(out, max, as_str_of(text));

    assert_true(n <= max);
    out[n] = 0;
    assert_string_equal(out, want);
}

static void test_messages_are_percent_encoded(void **state)
{
    (void)state;
    check_message("", 100, "");
    check_message("plain ~ text!", 100, "plain ~ text!");
    check_message("100%", 100, "100%25");
    check_message("a\nb\r\tc\x7f", 100, "a%0Ab%0D%09c%7F");
    check_message("\xc3\xa9", 100, "%C3%A9");
    check_message("\xe2\x82\xac \xf0\x9f\x98\x80", 100, "%E2%82%AC %F0%9F%98%80");
}

/* A field's value must not begin or end with a space. */
static void test_spaces_at_the_ends_are_encoded(void **state)
{
    (void)state;
    check_message(" a b ", 100, "%20a b%20");
    check_message(" ", 100, "%20");
    check_message("   ", 100, "%20 %20");
    check_message("a ", 3, "a");
    check_message("a  b", 3, "a"); /* cut there */
    check_message("a  b", 4, "a  b");
}

static void test_bytes_that_are_no_utf8_are_encoded_too(void **state)
{
    (void)state;
    check_message("\x80\xff", 100, "%80%FF");
    check_message("\xc3", 100, "%C3");
    check_message("\xc3(", 100, "%C3(");
    check_message("\xe2\x82", 100, "%E2%82");
}

static void test_messages_are_cut_at_whole_characters(void **state)
{
    (void)state;
    check_message("abc", 3, "abc");
    check_message("abc", 2, "ab");
    check_message("abc", 0, "");
    check_message("a%", 4, "a%25");
    check_message("a%", 3, "a");
    check_message("\xc3\xa9", 6, "%C3%A9");
    check_message("\xc3\xa9", 5, "");
    check_message("x\xe2\x82\xac", 10, "x%E2%82%AC");
    check_message("x\xe2\x82\xac", 9, "x");
    check_message("\xf0\x9f\x98\x80y", 11, "");
}

static void test_content_types(void **state)
{
    static const char *const ours[] = {"application/grpc", "application/grpc+proto",
                                       "application/grpc;charset=utf-8",
                                       "application/grpc+proto;x"};
    static const char *const others[] = {"",
                                         "application/grp",
                                         "application/grpc-web",
                                         "application/grpc+json",
                                         "application/grpc+prot",
                                         "application/grpc+proton",
                                         "application/json"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(ours); i++)
        assert_true(as_grpc_is_content_type(as_str_of(ours[i])));
    for (size_t i = 0; i < AS_COUNT(others); i++)
        assert_false(as_grpc_is_content_type(as_str_of(others[i])));
    assert_false(as_grpc_is_content_type((struct as_str){0}));
}

static void test_reserved_keys(void **state)
{
    static const char *const reserved[] = {"",
                                           ":path",
                                           "te",
                                           "grpc-",
                                           "content-type",
                                           "grpc-timeout",
                                           "grpc-anything",
                                           "grpc-encoding"};
    static const char *const free_to_use[] = {"x-request-id",
                                              "user-agent",
                                              "authorization",
                                              "grpc",
                                              "tea",
                                              "grpc-previous-rpc-attempts",
                                              "grpc-retry-pushback-ms"};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(reserved); i++)
        assert_true(as_grpc_is_reserved(as_str_of(reserved[i])));
    for (size_t i = 0; i < AS_COUNT(free_to_use); i++)
        assert_false(as_grpc_is_reserved(as_str_of(free_to_use[i])));
}

static void test_binary_values(void **state)
{
    static const struct {
        const char *text, *want;
    } good[] = {{"", ""},           {"Zg==", "f"},          {"Zg", "f"},
                {"Zm8=", "fo"},     {"Zm8", "fo"},          {"Zm9v", "foo"},
                {"Zm9vYg", "foob"}, {"Zm9vYmFy", "foobar"}, {"+/+/", "\xfb\xff\xbf"}};
    static const char *const bad[] = {
        "Z", "Zg=", "Zm9vY", "=", "====", "Z===", "Zm=v", "Zm9 ", "Zm-_", "Zg==Zg==", "Zg\n="};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(good); i++) {
        struct as_str text = as_str_of(good[i].text);
        uint8_t *out = malloc(AS_GRPC_BIN_BYTES(text.n)); /* a sanitizer finds a write beyond it */
        size_t n = 99;

        assert_int_equal(as_grpc_decode_bin(text, out, &n), 0);
        assert_int_equal(n, strlen(good[i].want));
        assert_memory_equal(out, good[i].want, n);
        free(out);
    }
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        uint8_t out[16];
        size_t n = 99;

        assert_int_equal(as_grpc_decode_bin(as_str_of(bad[i]), out, &n), AS_EINVALID);
        assert_int_equal(n, 99);
    }
}

static void test_binary_values_are_written_without_padding(void **state)
{
    static const struct {
        const char *bytes, *want;
    } rows[] = {{"", ""},
                {"f", "Zg"},
                {"fo", "Zm8"},
                {"foo", "Zm9v"},
                {"foobar", "Zm9vYmFy"},
                {"\xfb\xff\xbf", "+/+/"}};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        char out[32] = {0};
        size_t n = strlen(rows[i].bytes);

        as_grpc_encode_bin(out, (const uint8_t *)rows[i].bytes, n);
        assert_string_equal(out, rows[i].want);
        assert_int_equal(AS_GRPC_BIN_CHARS(n), strlen(rows[i].want));
    }
}

static void test_values_joined_by_commas(void **state)
{
    static const struct {
        const char *text, *want;
    } rows[] = {{"", "<>"},           {"Zg", "<Zg>"}, {"Zg==,Zm8=", "<Zg==><Zm8=>"},
                {"a,,b", "<a><><b>"}, {",", "<><>"},  {" a ,\tb", "<a><b>"}};

    (void)state;
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_str rest = as_str_of(rows[i].text), value;
        struct as_buf out = {0};

        while (as_grpc_next_bin(&rest, &value))
            as_buf_printf(&out, "<%.*s>", AS_STR_FMT(value));
        as_buf_add(&out, "", 1);
        assert_string_equal((char *)out.p, rows[i].want);
        as_buf_fini(&out);
    }
}

static void test_keys_of_binary_values(void **state)
{
    (void)state;
    assert_true(as_grpc_is_bin(AS_STR("x-bin")));
    assert_true(as_grpc_is_bin(AS_STR("trace-proto-bin")));
    assert_false(as_grpc_is_bin(AS_STR("-bin"))); /* all suffix, no name */
    assert_false(as_grpc_is_bin(AS_STR("bin")));
    assert_false(as_grpc_is_bin(AS_STR("x-bin2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_may_be_cut_anywhere),
        cmocka_unit_test(test_empty_messages_and_bodies_are_legal),
        cmocka_unit_test(test_an_end_inside_of_a_message_is_not_at_a_boundary),
        cmocka_unit_test(test_messages_are_counted),
        cmocka_unit_test(test_a_length_is_big_endian_and_may_use_all_32_bits),
        cmocka_unit_test(test_other_flag_bytes_are_bad_at_once),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_messages_are_percent_encoded),
        cmocka_unit_test(test_spaces_at_the_ends_are_encoded),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_encoded_too),
        cmocka_unit_test(test_messages_are_cut_at_whole_characters),
        cmocka_unit_test(test_content_types),
        cmocka_unit_test(test_reserved_keys),
        cmocka_unit_test(test_binary_values),
        cmocka_unit_test(test_binary_values_are_written_without_padding),
        cmocka_unit_test(test_values_joined_by_commas),
        cmocka_unit_test(test_keys_of_binary_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
