/* Specification of ctl/state/key_file: the file of API keys is read, changed whole, or refused. */
#include "ctl/state/key_file.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96], other[96];

static int make_folder(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as_keys_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/keys", folder);
    snprintf(other, sizeof(other), "%s/link", folder);
    return 0;
}

static int remove_folder(void **state AS_UNUSED)
{
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

static void write_file(const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static char *read_file(void)
{
    static char text[200000];
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, text, sizeof(text) - 1);

    assert_true(n >= 0);
    text[n] = 0;
    close(fd);
    return text;
}

static struct as_key_line key(const char *name, uint8_t digest)
{
    return (struct as_key_line){.name = as_str_of(name),
                                .models = AS_STR("*"),
                                .applications = AS_STR("*"),
                                .digest = {digest}};
}

static void check_load(uint32_t most, int want, const char *why)
{
    struct as_key_table *t = NULL;
    struct as_buf err = {0};

    assert_int_equal(as_key_file_load(path, most, NULL, &t, &err), want);
    if (want) {
        assert_null(t);
        if (!strstr(as_buf_cstr(&err), why) || !strstr(as_buf_cstr(&err), path))
            fail_msg("%s", as_buf_cstr(&err));
    }
    as_key_table_unref(t);
    as_buf_fini(&err);
}

#define D "0000000000000000000000000000000000000000000000000000000000000"

static void errors_name_the_line(void **state AS_UNUSED)
{
    char place[128];

    check_load(9, AS_ENOTFOUND, "cannot open the file of API keys");
    write_file("# only a comment\n\n");
    check_load(1, 0, NULL);
    write_file("# c\nname=a sha256=" D "001\nname=b sha256=1\n");
    snprintf(place, sizeof(place), "%s:3: 'sha256' must be", path);
    check_load(9, AS_EINVALID, place);
    write_file("name=a sha256=" D "001\r\nname=a sha256=" D "002"); /* without an end */
    check_load(9, AS_EINVALID, ":2: there are two keys with the name 'a'");
    write_file("name=a sha256=" D "001\nname=b sha256=" D "002\n");
    check_load(2, 0, NULL);
    check_load(1, AS_EFULL, ":2: there are more than 1 keys");
    assert_int_equal(chmod(path, 0640), 0);
    check_load(2, AS_EDENIED, "chmod 600");
}

static void long_lines(void **state AS_UNUSED)
{
    static char text[200000];
    size_t n;

    memset(text, '#', sizeof(text) - 1);
    write_file(text);
    check_load(9, AS_EINVALID, ":1: the line is longer than 4096 bytes");
    /* many lines, over several reads, of the greatest length */
    n = 0;
    while (n + AS_KEY_LINE_MAX + 1 < sizeof(text)) {
        n += AS_KEY_LINE_MAX;
        text[n++] = '\n';
    }
    text[n] = 0;
    write_file(text);
    check_load(9, 0, NULL);
    strcpy(text + n, "x\n");
    write_file(text);
    check_load(9, AS_EINVALID, ":49: a line is made of NAME=VALUE");
}

/* A comment of this length, behind so many bytes of other lines, before a last line. */
static void write_long(size_t before, size_t length, const char *end, const char *last)
{
    static char text[200000];

    memset(text, '#', sizeof(text));
    for (size_t i = 0; i < before; i += 64)
        text[AS_MIN(i + 63, before - 1)] = '\n';
    strcpy(text + before + length, end);
    strcat(text + before + length, last);
    write_file(text);
}

/* The same wherever it stands: a reading takes 64 KiB at once. */
static void the_longest_line(void **state AS_UNUSED)
{
    static const size_t befores[] = {0, 64, 61440, 61500, 65535, 65536, 65600};
    static const char *const ends[] = {"\n", "\r\n", ""};
    struct as_key_line a = key("a", 1);
    struct as_buf err = {0};

    for (size_t i = 0; i < AS_COUNT(befores); i++) {
        for (size_t k = 0; k < AS_COUNT(ends); k++) {
            const char *last = ends[k][0] ? "name=x sha256=" D "003\n" : "";

            write_long(befores[i], AS_KEY_LINE_MAX, ends[k], last);
            check_load(9, 0, NULL);
            assert_int_equal(as_key_file_add(path, &a, 0, &err), 0);
            write_long(befores[i], AS_KEY_LINE_MAX + 1, ends[k], last);
            check_load(9, AS_EINVALID, "the line is longer than 4096 bytes");
            assert_int_equal(as_key_file_add(path, &a, 0, &err), AS_EINVALID);
            assert_non_null(strstr(as_buf_cstr(&err), "the line is longer than 4096 bytes"));
            as_buf_fini(&err);
        }
    }
}

static void keys_come_and_go(void **state AS_UNUSED)
{
    struct as_key_line a = key("a", 1), b = key("b", 2);
    struct as_buf err = {0};
    struct stat st;
    char *text;

    assert_int_equal(as_key_file_add(path, &a, 0, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(read_file()[0] == '#');
    assert_int_equal(as_key_file_add(path, &a, 0, &err), AS_EEXISTS);
    as_buf_fini(&err);
    write_file("# mine\n\n  name=x   sha256=" D "003 tenant=t\n# last, without an end");
    assert_int_equal(as_key_file_add(path, &b, 0, &err), 0);
    text = read_file();
    assert_non_null(strstr(text, "# mine\n\n  name=x   sha256=" D "003 tenant=t\n# last, without "
                                 "an end\nname=b sha256=02"));
    assert_int_equal(as_key_file_revoke(path, AS_STR("x"), 0, &err), 0);
    text = read_file();
    assert_non_null(strstr(text, "# mine\n\n# last, without an end\nname=b sha256=02"));
    assert_int_equal(as_key_file_revoke(path, AS_STR("x"), 0, &err), AS_ENOTFOUND);
    as_buf_fini(&err);
    /* to a bad file nothing is added, but of it a key may be revoked */
    write_file("name=x sha256=" D "003\nbad\n");
    assert_int_equal(as_key_file_add(path, &b, 0, &err), AS_EINVALID);
    assert_non_null(strstr(as_buf_cstr(&err), ":2: "));
    as_buf_fini(&err);
    assert_int_equal(as_key_file_revoke(path, AS_STR("x"), 0, &err), 0);
    assert_string_equal(read_file(), "bad\n");
}

static void links_stay(void **state AS_UNUSED)
{
    struct as_key_line a = key("a", 1);
    struct as_buf err = {0};
    struct stat st;

    write_file("");
    assert_int_equal(symlink("keys", other), 0);
    assert_int_equal(as_key_file_add(other, &a, 0, &err), 0);
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_non_null(strstr(read_file(), "name=a"));
}

static void a_link_to_nothing_stays(void **state AS_UNUSED)
{
    struct as_key_line a = key("a", 1);
    struct as_buf err = {0};
    struct stat st;

    assert_int_equal(symlink("keys", other), 0);
    assert_int_equal(as_key_file_add(other, &a, 0, &err), AS_ENOTFOUND);
    assert_non_null(strstr(as_buf_cstr(&err), other));
    assert_non_null(strstr(as_buf_cstr(&err), "is a symbolic link to a file that does not exist"));
    as_buf_fini(&err);
    assert_int_equal(lstat(other, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(access(path, F_OK), -1);
}

/* Who may read the folder can lock it, and that holds nobody up. */
static void changes_wait_for_each_other_alone(void **state AS_UNUSED)
{
    struct as_key_line a = key("a", 1);
    int of_folder = open(folder, O_RDONLY | O_DIRECTORY), lock;
    char fresh[128];
    struct as_buf err = {0};
    struct stat st;

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    assert_int_equal(flock(of_folder, LOCK_EX), 0);
    assert_int_equal(as_key_file_add(path, &a, 0, &err), 0);
    assert_int_equal(access(fresh, F_OK), -1);
    close(of_folder);
    /* another change has just begun … */
    lock = open(fresh, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(as_key_file_revoke(path, AS_STR("a"), 0, &err), AS_EAGAIN);
    assert_non_null(strstr(as_buf_cstr(&err), fresh));
    as_buf_fini(&err);
    assert_non_null(strstr(read_file(), "name=a"));
    assert_int_equal(stat(fresh, &st), 0); /* it is the other one's */
    /* … and was interrupted: what it has written is not used */
    assert_int_equal(write(lock, "old", 3), 3);
    close(lock);
    assert_int_equal(as_key_file_revoke(path, AS_STR("a"), 0, &err), 0);
    assert_null(strstr(read_file(), "name=a"));
    assert_null(strstr(read_file(), "old"));
    assert_int_equal(access(fresh, F_OK), -1);
}

/* The file may be in a folder that everybody may write to. */
static void what_is_in_the_way_stays(void **state AS_UNUSED)
{
    struct as_key_line a = key("a", 1);
    struct as_buf err = {0};
    char fresh[128];
    int fd;

    snprintf(fresh, sizeof(fresh), "%s.new", path);
    fd = open(fresh, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(as_key_file_add(path, &a, 0, &err), AS_EDENIED);
    assert_non_null(strstr(as_buf_cstr(&err), "is in the way: remove it"));
    as_buf_fini(&err);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(link(fresh, other), 0);
    assert_int_equal(as_key_file_add(path, &a, 0, &err), AS_EDENIED);
    as_buf_fini(&err);
    close(fd);
    assert_int_equal(unlink(fresh), 0);
    assert_int_equal(symlink(other, fresh), 0);
    assert_int_equal(as_key_file_add(path, &a, 0, &err), AS_EIO);
    as_buf_fini(&err);
    assert_int_equal(unlink(fresh), 0);
    assert_int_equal(as_key_file_add(path, &a, 0, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(errors_name_the_line, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(long_lines, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(keys_come_and_go, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(links_stay, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(the_longest_line, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_link_to_nothing_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(changes_wait_for_each_other_alone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_in_the_way_stays, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
