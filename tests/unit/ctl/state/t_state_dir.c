/* Specification of ctl/state/state_dir: the folder's path, owner and mode, and its lock. */
#include "ctl/state/state_dir.h"

#include "temporary_folder.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[96];
static struct as_buf err;

static int make_base(void **state AS_UNUSED)
{
    if (make_temporary_folder() < 0)
        return -1;
    snprintf(folder, sizeof(folder), "%s/deep/state", temporary_folder);
    as_buf_init(&err);
    return 0;
}

static int remove_base(void **state AS_UNUSED)
{
    as_buf_fini(&err);
    return remove_temporary_folder();
}

static const char *error_text(void)
{
    as_buf_add(&err, "", 1);
    return (const char *)err.p;
}

static void the_default_folder_follows_xdg(void **state AS_UNUSED)
{
    char *f;

    setenv("XDG_STATE_HOME", "/somewhere", 1);
    f = as_state_dir_path("");
    assert_string_equal(f, "/somewhere/anyserve");
    free(f);
    f = as_state_dir_path("/mine");
    assert_string_equal(f, "/mine");
    free(f);
    /* a relative path is ignored */
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", "/home/me", 1);
    f = as_state_dir_path("");
    assert_string_equal(f, geteuid() == 0 ? "/var/lib/anyserve" : "/home/me/.local/state/anyserve");
    free(f);
}

static void one_server_locks_a_folder(void **state AS_UNUSED)
{
    char path[160];
    struct stat st;
    int fd, other = -1;

    assert_int_equal(as_state_dir_lock(folder, &fd, &err), 0);
    snprintf(path, sizeof(path), "%s/" AS_STATE_DIR_LOCK, folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(as_state_dir_lock(folder, &other, &err), AS_EEXISTS);
    assert_int_equal(other, -1);
    assert_non_null(strstr(error_text(), "another server uses"));
    close(fd);
    assert_int_equal(as_state_dir_lock(folder, &fd, &err), 0);
    close(fd);
    /* a folder cannot be a lock file */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    err.n = 0;
    assert_int_equal(as_state_dir_lock(folder, &fd, &err), AS_EIO);
    assert_non_null(strstr(error_text(), AS_STATE_DIR_LOCK ": Is a directory"));
}

static void it_is_private(void **state AS_UNUSED)
{
    struct stat st;

    assert_int_equal(as_state_dir_make(folder, &err), 0);
    assert_int_equal(as_state_dir_make(folder, &err), 0);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(chmod(folder, 0720), 0);
    assert_int_equal(as_state_dir_make(folder, &err), AS_EDENIED);
    assert_non_null(strstr(error_text(), "others may write to the state folder"));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(close(creat(folder, 0600)), 0);
    err.n = 0;
    assert_int_equal(as_state_dir_make(folder, &err), AS_EDENIED);
    assert_non_null(strstr(error_text(), "is not a folder"));
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, make_base, remove_base)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(it_is_private),
        IN_FOLDER(one_server_locks_a_folder),
        cmocka_unit_test(the_default_folder_follows_xdg),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
