/* Specification of conf/spec/spec: the key `code` of a deployment file. */
#include "conf/spec/spec.h"

#include "spec_case.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

static void code_is_a_word_or_a_copy(void **state AS_UNUSED)
{
    static const struct {
        const char *value;
        bool good;
    } cases[] = {{"copy", true},
                 {"live", true},
                 {"sha256:" HEX "f", true},
                 {"sha256:" HEX "f/a b/c.py", true},
                 {"sha256:" HEX "f/..x/.y/...py", true},
                 {"sha256:" HEX "f/a/-b.py", true},
                 {"sha256:" HEX "f/.a", true},
                 {"sha256:" HEX "f/../../x/app.py", false},
                 {"sha256:" HEX "f/a/../x.py", false},
                 {"sha256:" HEX "f/a/..", false},
                 {"sha256:" HEX "f/./x.py", false},
                 {"sha256:" HEX "f/a/.", false},
                 {"sha256:" HEX "f//abs/app.py", false},
                 {"sha256:" HEX "f/a//x.py", false},
                 {"sha256:" HEX "f/a/", false},
                 {"sha256:" HEX "f/-x.py", false},
                 {"sha256:" HEX, false},
                 {"sha256:" HEX "F", false},
                 {"sha256:" HEX "f/", false},
                 {"sha256:" HEX "ff", false},
                 {"pickle:" HEX "f", true},
                 {"pickle:" HEX "f/a.py", false},
                 {"pickle:" HEX, false},
                 {"pickle:" HEX "F", false},
                 {"pickle:" HEX "ff", false},
                 {"sha1:" HEX "f", false},
                 {"copied", false}};

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_spec_limits l = limits();
        char text[200];

        snprintf(text, sizeof(text), "applications: [{import_path: m, code: '%s'}]",
                 cases[i].value);
        as_spec_free(read_with(text, &l));
        if (cases[i].good)
            assert_string_equal((char *)err_text.p, "");
        else
            assert_non_null(strstr((char *)err_text.p, "code: the text"));
    }
}

static void code_needs_an_import_path(void **state AS_UNUSED)
{
    refused(
        "applications: [{command: [x], code: live}]",
        "f:1:37: code: only works with import_path; the program of a command is never copied\n");
}

static void prefixes_are_paths(void **state AS_UNUSED)
{
    static const struct {
        const char *value;
        bool good;
    } cases[] = {{"/", true},  {"/a", true},    {"/a/b.c-d", true}, {"//", false}, {"/a/", false},
                 {"a", false}, {"/{x}", false}, {"/a}", false},     {"/a b", true}};

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_spec_limits l = limits();
        char text[200];

        snprintf(text, sizeof(text), "applications: [{import_path: m, route_prefix: '%s'}]",
                 cases[i].value);
        as_spec_free(read_with(text, &l));
        if (cases[i].good)
            assert_string_equal((char *)err_text.p, "");
        else
            assert_non_null(strstr((char *)err_text.p, "is no path such as / or /shop"));
    }
}

static void a_prefix_belongs_to_one_application(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();

    refused(
        "applications: [{name: api, import_path: m, route_prefix: /x},\n"
        "  {name: other, import_path: m, route_prefix: /y},\n"
        "  {name: clash, import_path: m, route_prefix: /x}]",
        "f:3:47: route_prefix: Prefix /x is being used by application \"api\". Failed to deploy "
        "application \"clash\".\n");
    as_spec_free(
        read_with("applications: [{name: a, import_path: m}, {name: b, import_path: m}]", &l));
    assert_string_equal((char *)err_text.p, "");
}

static void arguments_are_an_object(void **state AS_UNUSED)
{
    struct as_spec_limits l = limits();
    struct as_spec *s = read_with("applications: [{import_path: m, args: {n: 3, word: x}}]", &l);

    assert_string_equal((char *)err_text.p, "");
    assert_string_equal(as_spec_str(as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0),
                                    AS_SPEC_APPLICATION_ARGS),
                        "{\"n\":3,\"word\":\"x\"}");
    as_spec_free(s);
    as_spec_free(read_with("applications: [{import_path: m, args: [1]}]", &l));
    assert_non_null(strstr((char *)err_text.p, "args: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_a_word_or_a_copy),
        cmocka_unit_test(code_needs_an_import_path),
        cmocka_unit_test(prefixes_are_paths),
        cmocka_unit_test(a_prefix_belongs_to_one_application),
        cmocka_unit_test(arguments_are_an_object),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
