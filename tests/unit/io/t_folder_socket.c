/* Specification of io/socket/folder_socket: only our own sockets, below a given folder, are
 * connected to. */
#include "io/socket/folder_socket.h"

#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char root[] = "/tmp/as-beneath-XXXXXX"; /* root/dir is the folder, root/other is not */
static char dir[64], other[64], path[512];
static const char *why;

static const char *in(const char *folder, const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* A listener, left open: the process ends soon. */
static int listen_at(const char *at, int type, int backlog)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type, 0);

    assert_true(strlen(at) < sizeof(a.sun_path));
    strcpy(a.sun_path, at);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static int set_up(void **state AS_UNUSED)
{
    if (!mkdtemp(root))
        return -1;
    snprintf(dir, sizeof(dir), "%s/dir", root);
    snprintf(other, sizeof(other), "%s/other", root);
    return mkdir(dir, 0700) || mkdir(other, 0700) || mkdir(in(dir, "sub"), 0700);
}

static int tear_down(void **state AS_UNUSED)
{
    char cmd[96];

    snprintf(cmd, sizeof(cmd), "rm -rf %s", root);
    return system(cmd);
}

static int rest_of(const char *text, struct as_str *ret)
{
    return as_folder_socket_relative_path(dir, as_str_of(text), ret, &why);
}

static int connect_rest(const char *rest)
{
    uint32_t pid = 0;
    int fd = -1, err = as_folder_socket_connect(dir, as_str_of(rest), &fd, &pid, &why);

    if (err)
        return err;
    assert_int_equal(pid, getpid());
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    return 0;
}

static void test_paths_below_the_folder(void **state AS_UNUSED)
{
    struct as_str rest;
    char twice[80];

    assert_int_equal(rest_of(in(dir, "w.sock"), &rest), 0);
    assert_true(as_str_eq(rest, AS_STR("w.sock")));
    assert_int_equal(rest_of(in(dir, "sub/w.sock"), &rest), 0);
    assert_true(as_str_eq(rest, AS_STR("sub/w.sock")));
    /* the folder may be written with slashes at its end */
    snprintf(twice, sizeof(twice), "%s//", dir);
    assert_int_equal(as_folder_socket_relative_path(twice, as_str_of(in(dir, "x")), &rest, &why),
                     0);
    assert_true(as_str_eq(rest, AS_STR("x")));
}

static void test_a_folder_with_two_names(void **state AS_UNUSED)
{
    struct as_str rest;
    char alias[80];

    snprintf(alias, sizeof(alias), "%s/alias", root);
    assert_int_equal(symlink(dir, alias), 0);
    assert_int_equal(as_folder_socket_relative_path(alias, as_str_of(in(alias, "x")), &rest, &why),
                     0);
    assert_int_equal(as_folder_socket_relative_path(alias, as_str_of(in(dir, "x")), &rest, &why),
                     0);
    assert_true(as_str_eq(rest, AS_STR("x")));
}

static void test_paths_outside_the_folder(void **state AS_UNUSED)
{
    char longer[128];
    struct as_str rest;

    snprintf(longer, sizeof(longer), "%ser/w.sock", dir);
    assert_int_equal(rest_of(longer, &rest), AS_EDENIED); /* only has the same prefix */
    assert_int_equal(rest_of(in(other, "w.sock"), &rest), AS_EDENIED);
    assert_int_equal(rest_of(dir, &rest), AS_EDENIED);
    assert_int_equal(rest_of("/w.sock", &rest), AS_EDENIED);
}

static void test_invalid_paths(void **state AS_UNUSED)
{
    static const char *const names[] = {"../other/w", "sub/../w", "./w", "sub//w",
                                        "sub/",       "..",       "w/."};
    struct as_str rest, cut = {"/tmp/a\0b", 8};
    char longest[AS_FOLDER_SOCKET_PATH_MAX + 2];

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        assert_int_equal(rest_of(in(dir, names[i]), &rest), AS_EINVALID);
        assert_non_null(strstr(why, "segment"));
    }
    assert_int_equal(rest_of("", &rest), AS_EINVALID);
    assert_int_equal(rest_of("w.sock", &rest), AS_EINVALID);
    assert_int_equal(as_folder_socket_relative_path(dir, cut, &rest, &why), AS_EINVALID);
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, dir, strlen(dir));
    longest[strlen(dir)] = '/';
    longest[AS_FOLDER_SOCKET_PATH_MAX] = 0;
    assert_int_equal(rest_of(longest, &rest), 0);
    longest[AS_FOLDER_SOCKET_PATH_MAX] = 'a';
    longest[AS_FOLDER_SOCKET_PATH_MAX + 1] = 0;
    assert_int_equal(rest_of(longest, &rest), AS_EINVALID);
}

static void test_connects_to_a_listener(void **state AS_UNUSED)
{
    listen_at(in(dir, "ok"), SOCK_STREAM, 8);
    listen_at(in(dir, "sub/ok"), SOCK_STREAM, 8);
    assert_int_equal(connect_rest("ok"), 0);
    assert_int_equal(connect_rest("sub/ok"), 0);
}

/* Longer than a socket address: bound by a relative name, from its own folder. */
static void test_a_long_path(void **state AS_UNUSED)
{
    char deep[300], rest[320], home[256];

    memset(deep, 'd', 150);
    deep[150] = '/';
    memset(deep + 151, 'e', 100);
    deep[251] = 0;
    assert_non_null(getcwd(home, sizeof(home)));
    assert_int_equal(chdir(dir), 0);
    deep[150] = 0;
    assert_int_equal(mkdir(deep, 0700), 0);
    deep[150] = '/';
    assert_int_equal(mkdir(deep, 0700), 0);
    assert_int_equal(chdir(deep), 0);
    listen_at("s", SOCK_STREAM, 8);
    assert_int_equal(chdir(home), 0);
    snprintf(rest, sizeof(rest), "%s/s", deep);
    assert_int_equal(connect_rest(rest), 0);
}

static void test_symlinks_are_refused(void **state AS_UNUSED)
{
    listen_at(in(other, "real"), SOCK_STREAM, 8);
    assert_int_equal(symlink("../other/real", in(dir, "link")), 0);
    assert_int_equal(symlink(other, in(dir, "folder")), 0);
    listen_at(in(dir, "beside"), SOCK_STREAM, 8);
    assert_int_equal(symlink("beside", in(dir, "short")), 0);
    assert_int_equal(connect_rest("link"), AS_EDENIED);
    assert_non_null(strstr(why, "symlink"));
    assert_int_equal(connect_rest("folder/real"), AS_EDENIED);
    /* even one to a path below the folder */
    assert_int_equal(connect_rest("short"), AS_EDENIED);
}

static void test_files_that_are_not_listeners(void **state AS_UNUSED)
{
    int fd;

    assert_int_equal(connect_rest("nothing"), AS_EUNAVAILABLE);
    assert_int_equal(connect_rest("sub"), AS_EDENIED);
    fd = open(in(dir, "file"), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(connect_rest("file"), AS_EDENIED);
    assert_string_equal(why, "it is not a socket");
    assert_int_equal(connect_rest("file/x"), AS_EDENIED);
    listen_at(in(dir, "dgram"), SOCK_DGRAM, 0);
    assert_int_equal(connect_rest("dgram"), AS_EDENIED);
    close(listen_at(in(dir, "dead"), SOCK_STREAM, 8));
    assert_int_equal(connect_rest("dead"), AS_EUNAVAILABLE);
    assert_string_equal(why, "nobody listens there");
}

static void test_another_users_socket(void **state AS_UNUSED)
{
    if (geteuid() != 0)
        skip();
    listen_at(in(dir, "foreign"), SOCK_STREAM, 8);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(connect_rest("foreign"), AS_EDENIED);
    assert_string_equal(why, "the socket belongs to another user");
}

static void test_a_full_backlog(void **state AS_UNUSED)
{
    uint32_t pid;
    int fd, err = 0;

    listen_at(in(dir, "full"), SOCK_STREAM, 1);
    for (int i = 0; i < 16 && !err; i++)
        err = as_folder_socket_connect(dir, AS_STR("full"), &fd, &pid, &why);
    assert_int_equal(err, AS_EAGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_below_the_folder),
        cmocka_unit_test(test_a_folder_with_two_names),
        cmocka_unit_test(test_paths_outside_the_folder),
        cmocka_unit_test(test_invalid_paths),
        cmocka_unit_test(test_connects_to_a_listener),
        cmocka_unit_test(test_a_long_path),
        cmocka_unit_test(test_symlinks_are_refused),
        cmocka_unit_test(test_files_that_are_not_listeners),
        cmocka_unit_test(test_another_users_socket),
        cmocka_unit_test(test_a_full_backlog),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
