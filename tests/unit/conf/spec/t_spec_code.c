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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_is_a_word_or_a_copy),
        cmocka_unit_test(code_needs_an_import_path),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
