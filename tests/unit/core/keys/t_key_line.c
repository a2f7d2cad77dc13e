/* Specification of core/keys/key_line and core/keys/glob: lines of the file of API keys. */
#include "core/keys/glob.h"
#include "core/keys/key_line.h"

#include "unit.h"

#define D   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define KEY "name=a sha256=" D

static void check_good(const char *text, struct as_key_line *ret_k)
{
    struct as_buf err = {0};

    assert_int_equal(as_key_line_parse(as_str_of(text), ret_k, &err), 0);
    assert_int_equal(err.n, 0);
}

static void check_bad(const char *text, const char *why)
{
    struct as_key_line k = {.rate = 77};
    struct as_buf err = {0};

    assert_int_equal(as_key_line_parse(as_str_of(text), &k, &err), AS_EINVALID);
    if (!strstr(as_buf_cstr(&err), why))
        fail_msg("%s: %s", text, as_buf_cstr(&err));
    assert_int_equal(k.rate, 77);
    as_buf_fini(&err);
}

static void fields_in_any_order(void **state AS_UNUSED)
{
    struct as_key_line k;

    check_good(KEY, &k);
    assert_true(as_str_eq(k.name, AS_STR("a")) && !k.tenant.n);
    assert_true(as_str_eq(k.models, AS_STR("*")) && as_str_eq(k.applications, AS_STR("*")));
    assert_int_equal(k.rate + k.in_flight, 0);
    assert_int_equal(k.expires, 0);
    assert_int_equal(k.digest[0], 0xe3);
    assert_int_equal(k.digest[31], 0x55);
    check_good("\t expires=1971-01-02  burst=7 rate=20/m models=x,y-* in-flight=3 tenant=t "
               "applications=shop sha256=" D "\tname=b ",
               &k);
    assert_int_equal(k.expires, 366 * 86400);
    assert_int_equal(k.rate, 20);
    assert_int_equal(k.rate_period, 60);
    assert_int_equal(k.burst, 7);
    assert_int_equal(k.in_flight, 3);
    assert_true(as_str_eq(k.models, AS_STR("x,y-*")) && as_str_eq(k.tenant, AS_STR("t")));
}

static void comments(void **state AS_UNUSED)
{
    assert_true(as_key_line_is_comment(AS_STR("")));
    assert_true(as_key_line_is_comment(AS_STR(" \t")));
    assert_true(as_key_line_is_comment(AS_STR("  # x")));
    assert_false(as_key_line_is_comment(AS_STR("name=a")));
}

static void bad_lines(void **state AS_UNUSED)
{
    char line[AS_KEY_LINE_MAX + 2];

    check_bad("name=a", "'sha256' is missing");
    check_bad("sha256=" D, "'name' is missing");
    check_bad("name=a b sha256=" D, "no '='");
    check_bad("name=a name=b sha256=" D, "'name' is given twice");
    check_bad(KEY " model=x", "did you mean 'models'?");
    check_bad(KEY " zzz=x", "unknown field; the fields are name, sha256");
    check_bad("name= sha256=" D, "'name' must be 1 to 64");
    check_bad("name=\"a\" sha256=" D, "'name' must be");
    check_bad("name=\xc3\xa4 sha256=" D, "'name' must be");
    check_bad("name=a sha256=E3", "64 hexadecimal digits in lower case");
    check_bad("name=a sha256=" D "0", "64 hexadecimal digits");
    check_bad(KEY " tenant=", "'tenant' must be");
    check_bad(KEY " models=", "'models' must be names");
    check_bad(KEY " models=a,,b", "'models' must be names");
    check_bad(KEY " models=,a", "'models' must be names");
    check_bad(KEY " applications=a,", "'applications' must be names");
    check_bad(KEY " rate=10", "N/s, N/m or N/h");
    check_bad(KEY " rate=/s", "N/s, N/m or N/h");
    check_bad(KEY " rate=0/s", "N/s, N/m or N/h");
    check_bad(KEY " rate=1000001/s", "from 1 to 1000000");
    check_bad(KEY " rate=1/d", "N/s, N/m or N/h");
    check_bad(KEY " burst=5", "'burst' is given without 'rate'");
    check_bad(KEY " rate=1/s burst=0", "'burst' must be a whole number from 1 to 1000000");
    check_bad(KEY " in-flight=0", "'in-flight' must be a whole number from 1 to 1000000");
    check_bad(KEY " in-flight=1000001", "'in-flight' must be");
    check_bad(KEY " in-flight=-1", "'in-flight' must be");
    check_bad(KEY " expires=tomorrow", "'expires' must be a date");
    /* N and N+1 bytes of a line */
    memset(line, 'x', sizeof(line));
    memcpy(line, KEY " models=", strlen(KEY " models="));
    line[AS_KEY_LINE_MAX + 1] = 0;
    check_bad(line, "longer than 4096 bytes");
    line[AS_KEY_LINE_MAX] = 0;
    check_good(line, &(struct as_key_line){0});
}

static void names(void **state AS_UNUSED)
{
    char name[AS_KEY_NAME_MAX + 1];
    struct as_buf err = {0};

    memset(name, 'n', sizeof(name));
    assert_int_equal(as_key_line_parse_name((struct as_str){name, AS_KEY_NAME_MAX}, &err), 0);
    assert_int_equal(as_key_line_parse_name((struct as_str){name, AS_KEY_NAME_MAX + 1}, &err),
                     AS_EINVALID);
    as_buf_fini(&err);
}

/* What may be a key, because it stands in the wrong place, is not shown. */
static void errors_show_no_key(void **state AS_UNUSED)
{
    static const char *const lines[] = {"as_SECRETSECRET", "as_SECRETSECRET=1",
                                        "name=a sha256=as_SECRETSECRET", KEY " rate=as_SECRET"};

    for (size_t i = 0; i < AS_COUNT(lines); i++) {
        struct as_buf err = {0};
        struct as_key_line k;

        assert_int_equal(as_key_line_parse(as_str_of(lines[i]), &k, &err), AS_EINVALID);
        assert_null(strstr(as_buf_cstr(&err), "SECRET"));
        as_buf_fini(&err);
    }
}

static void check_time(const char *text, uint64_t want)
{
    struct as_buf err = {0};
    uint64_t s = 0;

    assert_int_equal(as_key_line_parse_time(as_str_of(text), &s, &err), want ? 0 : AS_EINVALID);
    assert_int_equal(s, want);
    as_buf_fini(&err);
}

static void times(void **state AS_UNUSED)
{
    check_time("2027-01-31", 1801353600);
    check_time("2027-01-31T12:00:00Z", 1801396800);
    check_time("2027-01-31t12:00:00.25z", 1801396800);
    check_time("2027-01-31T12:00:00+01:30", 1801396800 - 5400);
    check_time("2027-01-31T12:00:00-01:30", 1801396800 + 5400);
    check_time("2028-02-29", 1835395200);
    check_time("9999-12-31T23:59:59Z", 253402300799);
    check_time("2027-02-29", 0);
    check_time("2100-02-29", 0);
    check_time("2027-13-01", 0);
    check_time("2027-00-01", 0);
    check_time("2027-04-31", 0);
    check_time("2027-04-00", 0);
    check_time("1970-12-31", 0);
    check_time("2027-01-31T12:00:00", 0);
    check_time("2027-01-31T24:00:00Z", 0);
    check_time("2027-01-31T12:60:00Z", 0);
    check_time("2027-01-31T12:00:60Z", 0);
    check_time("2027-01-31T12:00:00.Z", 0);
    check_time("2027-01-31T12:00:00+24:00", 0);
    check_time("2027-01-31T12:00:00ZZ", 0);
    check_time("2027-01-31 12:00:00Z", 0);
    check_time("2027-1-31", 0);
    check_time("2027-01-31T", 0);
    check_time("", 0);
}

static void what_is_written_is_read(void **state AS_UNUSED)
{
    static const char *const lines[] = {
        KEY "\n",
        KEY " tenant=t models=a,b applications=x? rate=5/h burst=2 in-flight=9 "
            "expires=2027-01-31T12:00:00Z\n",
        KEY " rate=10/s\n", KEY " rate=90/m burst=2\n"};

    for (size_t i = 0; i < AS_COUNT(lines); i++) {
        struct as_str line = {lines[i], strlen(lines[i]) - 1};
        struct as_buf out = {0}, err = {0};
        struct as_key_line k;

        assert_int_equal(as_key_line_parse(line, &k, &err), 0);
        as_key_line_put(&k, &out);
        assert_string_equal(as_buf_cstr(&out), lines[i]);
        as_buf_fini(&out);
    }
}

static void texts_of_keys(void **state AS_UNUSED)
{
    uint8_t bytes[AS_KEY_BYTES];
    char text[AS_KEY_TEXT + 1];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + 251);
    as_key_text(bytes, text);
    /* "as_" + base64.urlsafe_b64encode(bytes((i * 37 + 251) % 256 for i in range(32))).rstrip("=")
     */
    assert_string_equal(text, "as_-yBFao-02f4jSG2St9wBJktwlbrfBClOc5i94gcsUXY");
    assert_true(as_key_text_has_form(as_str_of(text)));
    assert_false(as_key_text_has_form((struct as_str){text, AS_KEY_TEXT - 1}));
    text[2] = '-';
    assert_false(as_key_text_has_form(as_str_of(text)));
    assert_false(as_key_text_has_form((struct as_str){0}));
}

static void patterns(void **state AS_UNUSED)
{
    static const struct {
        const char *list, *name;
        bool matches;
    } rows[] = {
        {"*", "", true},         {"*", "a", true},       {"", "", false},
        {"a", "a", true},        {"a", "ab", false},     {"ab", "a", false},
        {"?", "", false},        {"a?c", "abc", true},   {"a*c", "ac", true},
        {"a*c", "abcbc", true},  {"a*c", "abcb", false}, {"*a*b*", "xxaxxbxx", true},
        {"x,y", "y", true},      {"x,y", "x,y", false},  {"llm-*,iris", "iris", true},
        {"llm-*", "llm", false}, {"a**b", "ab", true},   {"*.?", "x.y", true},
    };
    char stars[64], name[4000];

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        assert_int_equal(as_glob_list_matches(as_str_of(rows[i].list), as_str_of(rows[i].name)),
                         rows[i].matches);
    /* no exponential time */
    for (size_t i = 0; i + 1 < sizeof(stars); i += 2)
        memcpy(stars + i, "*a", 2);
    memset(name, 'a', sizeof(name));
    name[sizeof(name) - 1] = 'b';
    assert_false(as_glob_matches((struct as_str){stars, 64}, (struct as_str){name, sizeof(name)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_in_any_order),
        cmocka_unit_test(comments),
        cmocka_unit_test(bad_lines),
        cmocka_unit_test(names),
        cmocka_unit_test(errors_show_no_key),
        cmocka_unit_test(times),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(texts_of_keys),
        cmocka_unit_test(patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
