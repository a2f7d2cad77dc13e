/* Specification of ctl/state/token: files with a token that nobody else may read. */
#include "ctl/state/token.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int make_folder(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as_token_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/token", folder);
    return 0;
}

static int remove_folder(void **state AS_UNUSED)
{
    unlink(path);
    return rmdir(folder);
}

static void write_file(const void *p, size_t n, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void check_token(const char *at, int want, const char *text)
{
    char token[AS_TOKEN_MAX + 1] = "untouched";
    struct as_buf err = {0};

    assert_int_equal(as_token_read(at, token, &err), want);
    as_buf_add(&err, "", 1);
    if (want) {
        assert_string_equal(token, "untouched");
        assert_non_null(strstr((char *)err.p, text));
        assert_non_null(strstr((char *)err.p, at));
    } else {
        assert_string_equal(token, text);
    }
    as_buf_fini(&err);
}

static void check_text(const char *text, int want, const char *result)
{
    write_file(text, strlen(text), 0600);
    check_token(path, want, result);
}

static void a_line_is_a_token(void **state AS_UNUSED)
{
    check_text("secret", 0, "secret");
    check_text("secret\n", 0, "secret");
    check_text("aZ09-._~+/==\r\n", 0, "aZ09-._~+/==");
}

static void other_texts_are_refused(void **state AS_UNUSED)
{
    check_text("", AS_EINVALID, "is empty");
    check_text("\n", AS_EINVALID, "is empty");
    check_text("two\nlines\n", AS_EINVALID, "one line");
    check_text("a b", AS_EINVALID, "one line");
    check_text("==", AS_EINVALID, "one line");
    check_text("a=b", AS_EINVALID, "one line");
    check_text("\xc3\xa9", AS_EINVALID, "one line");
    write_file("a\0b", 3, 0600);
    check_token(path, AS_EINVALID, "one line");
}

static void the_length_is_bounded(void **state AS_UNUSED)
{
    char text[AS_TOKEN_MAX + 64];

    memset(text, 't', sizeof(text));
    text[AS_TOKEN_MAX] = 0;
    check_text(text, 0, text);
    strcpy(text + AS_TOKEN_MAX, "\r\n");
    write_file(text, strlen(text), 0600);
    text[AS_TOKEN_MAX] = 0;
    check_token(path, 0, text);
    strcpy(text + AS_TOKEN_MAX, "t");
    check_text(text, AS_EINVALID, "at most 1024");
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    check_text(text, AS_EINVALID, "at most 1024");
}

static void a_file_that_others_may_use_is_refused(void **state AS_UNUSED)
{
    static const mode_t bad[] = {0644, 0640, 0620, 0601, 0602, 0666};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        write_file("secret", 6, bad[i]);
        check_token(path, AS_EDENIED, "chmod 600");
        unlink(path);
    }
    write_file("secret", 6, 0400);
    check_token(path, 0, "secret");
}

static void a_file_of_another_user_is_refused(void **state AS_UNUSED)
{
    if (geteuid() != 0)
        return; /* only root can make such a file */
    write_file("secret", 6, 0600);
    assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
    check_token(path, AS_EDENIED, "belongs to user 65534");
}

static void a_file_that_is_not_regular_is_refused(void **state AS_UNUSED)
{
    char link[96];

    check_token(path, AS_ENOTFOUND, "No such file");
    check_token(folder, AS_EINVALID, "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not hang */
    check_token(path, AS_EINVALID, "not a regular file");
    unlink(path);
    check_text("secret", 0, "secret");
    snprintf(link, sizeof(link), "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    check_token(link, 0, "secret"); /* as secrets are mounted */
    unlink(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_a_token, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(other_texts_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_length_is_bounded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_others_may_use_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_of_another_user_is_refused, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_regular_is_refused, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
