/* Specification of ctl/state/secret_file: which files of secrets are accepted. */
#include "ctl/state/secret_file.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define USER  12345u
#define GROUP 12346u /* the process's */
#define OTHER 12347u /* another one of the process's */
#define ALIEN 12348u

#define NO_ID (uint32_t) ACL_UNDEFINED_ID

static char folder[64], path[96];

static int make_file(void **state AS_UNUSED)
{
    int fd;

    snprintf(folder, sizeof(folder), "/tmp/as_secret_XXXXXX");
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/token", folder);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state AS_UNUSED)
{
    unlink(path);
    return rmdir(folder);
}

static int try_open(void)
{
    struct as_buf err = {0};
    int fd, rc = as_secret_file_open(path, "token file", &fd, &err);
    char mode[32];
    struct stat st;

    if (!rc) {
        close(fd);
    } else if (rc == AS_EDENIED && stat(path, &st) == 0 && st.st_mode & 077) {
        snprintf(mode, sizeof(mode), "(mode %04o)", st.st_mode & 07777);
        if (!strstr(as_buf_cstr(&err), "cannot open") && !strstr(as_buf_cstr(&err), "belongs to") &&
            (!strstr(as_buf_cstr(&err), mode) || !strstr(as_buf_cstr(&err), "chmod 600") ||
             !strstr(as_buf_cstr(&err), "0440")))
            rc = -1000;
    }
    as_buf_fini(&err);
    return rc;
}

/* In a process of that user, which is in both groups. */
static int try_open_as(uid_t user)
{
    gid_t groups[] = {GROUP, OTHER};
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (setgroups(2, groups) || setresgid(GROUP, GROUP, GROUP) || setresuid(user, user, user))
            _exit(99);
        _exit(-try_open());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void set(uid_t user, gid_t group, mode_t mode)
{
    assert_int_equal(chown(path, user, group), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void a_private_file(void **state AS_UNUSED)
{
    static const mode_t shared[] = {0640, 0440, 0604, 0660, 0610, 0620, 0644, 0444, 0601};

    assert_int_equal(try_open(), 0);
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(try_open(), 0);
    for (size_t i = 0; i < AS_COUNT(shared); i++) {
        assert_int_equal(chmod(path, shared[i]), 0);
        assert_int_equal(try_open(), AS_EDENIED);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(), AS_ENOTFOUND);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(try_open(), AS_EINVALID);
    assert_int_equal(rmdir(path), 0);
}

static void a_mounted_secret(void **state AS_UNUSED)
{
    static const mode_t shared[] = {0444, 0460, 0450, 0441, 0442, 0644};

    if (geteuid() != 0)
        skip();
    for (int i = 0; i < 2; i++) {
        gid_t group = i ? GROUP : OTHER;

        set(0, group, 0440);
        assert_int_equal(try_open_as(USER), 0);
        set(0, group, 0640);
        assert_int_equal(try_open_as(USER), 0);
        for (size_t k = 0; k < AS_COUNT(shared); k++) {
            set(0, group, shared[k]);
            assert_int_equal(try_open_as(USER), AS_EDENIED);
        }
        set(USER, group, 0440); /* its owner could make it private */
        assert_int_equal(try_open_as(USER), AS_EDENIED);
        set(USER + 1, group, 0440); /* somebody else's */
        assert_int_equal(try_open_as(USER), AS_EDENIED);
        set(0, group, 0440); /* root does not need the group */
        assert_int_equal(try_open_as(0), AS_EDENIED);
    }
    set(0, ALIEN, 0444);
    assert_int_equal(try_open_as(USER), AS_EDENIED);
    set(0, ALIEN, 0440);
    assert_int_equal(try_open_as(USER), AS_EDENIED);
    set(USER, GROUP, 0400);
    assert_int_equal(try_open_as(USER), 0);
}

struct acl {
    struct posix_acl_xattr_header header;
    struct posix_acl_xattr_entry entries[5];
};

/* As of `setfacl -m`: what the file had before belongs to the owner alone. */
static bool set_list(uint16_t tag, uint32_t id, uint16_t group_perm)
{
    struct acl a = {.header = {POSIX_ACL_XATTR_VERSION},
                    .entries = {{ACL_USER_OBJ, ACL_READ, NO_ID},
                                {tag, ACL_READ, id},
                                {ACL_GROUP_OBJ, group_perm, NO_ID},
                                {ACL_MASK, ACL_READ, NO_ID},
                                {ACL_OTHER, 0, NO_ID}}};

    if (tag == ACL_GROUP) { /* they are in the order of their tags */
        struct posix_acl_xattr_entry e = a.entries[1];

        a.entries[1] = a.entries[2];
        a.entries[2] = e;
    }
    return setxattr(path, "system.posix_acl_access", &a, sizeof(a), 0) == 0;
}

static void an_access_control_list(void **state AS_UNUSED)
{
    struct stat st;

    if (geteuid() != 0)
        skip();
    set(0, 0, 0400);
    if (!set_list(ACL_USER, USER, 0)) {
        assert_int_equal(errno, EOPNOTSUPP);
        skip();
    }
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0440);
    assert_int_equal(try_open_as(USER), 0); /* LoadCredential= */
    assert_int_equal(try_open_as(USER + 1), AS_EDENIED);
    assert_true(set_list(ACL_GROUP, OTHER, 0));
    assert_int_equal(try_open_as(USER), 0);
    assert_true(set_list(ACL_USER, USER, ACL_READ)); /* and the group root */
    assert_int_equal(try_open_as(USER), AS_EDENIED);
    set(0, GROUP, 0440); /* of which the process is, but another user may read it, too */
    assert_true(set_list(ACL_USER, USER, ACL_READ));
    assert_int_equal(try_open_as(USER), 0);
    assert_true(set_list(ACL_USER, USER + 1, ACL_READ));
    assert_int_equal(try_open_as(USER), AS_EDENIED);
    assert_true(set_list(ACL_GROUP, ALIEN, ACL_READ));
    assert_int_equal(try_open_as(USER), AS_EDENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_private_file, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_mounted_secret, make_file, remove_file),
        cmocka_unit_test_setup_teardown(an_access_control_list, make_file, remove_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
