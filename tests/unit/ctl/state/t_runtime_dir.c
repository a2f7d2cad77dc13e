/* Specification of ctl/state/runtime_dir: private folders, one server each, found by port. */
#include "ctl/state/runtime_dir.h"

#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64];

static int make_base(void **state AS_UNUSED)
{
    snprintf(base, sizeof(base), "/tmp/as_runtime_XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state AS_UNUSED)
{
    return rmdir(base); /* fails when a test or the module left something */
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", base, name);
    return lstat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void check_refused(const char *where, int want, const char *why)
{
    struct as_runtime_dir d;
    struct as_buf err = {0};

    assert_int_equal(as_runtime_dir_open(&d, where, 8000, &err), want);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, why));
    as_buf_fini(&err);
    as_runtime_dir_close(&d); /* also after a failed open */
}

static void the_base_follows_option_and_environment(void **state AS_UNUSED)
{
    char *p;

    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    p = as_runtime_base("/x");
    assert_string_equal(p, "/x");
    free(p);
    p = as_runtime_base("");
    assert_string_equal(p, "/run/user/1/anyserve");
    free(p);
    setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
    p = as_runtime_base("");
    assert_string_not_equal(p, "not/absolute/anyserve");
    free(p);
    unsetenv("XDG_RUNTIME_DIR");
    p = as_runtime_base("");
    if (geteuid() == 0)
        assert_string_equal(p, "/run/anyserve");
    else
        assert_memory_equal(p, "/tmp/anyserve-", 14);
    free(p);
}

static void check_lasting(const char *option, const char *want)
{
    char *p = as_runtime_persistent_base(option);

    assert_string_equal(p, want);
    free(p);
}

/* The login's folder is removed at logout; one that was chosen stays. */
static void the_lasting_base(void **state AS_UNUSED)
{
    uid_t root = geteuid();
    char *p;

    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    setenv("HOME", "/home/u", 1);
    unsetenv("XDG_STATE_HOME");
    if (root == 0) {
        check_lasting("", "/run/anyserve");
        assert_int_equal(seteuid(12345), 0);
    }
    check_lasting("/x", "/x");
    check_lasting("", "/home/u/.local/state/anyserve/run");
    setenv("XDG_STATE_HOME", "/state", 1);
    check_lasting("", "/state/anyserve/run");
    setenv("XDG_STATE_HOME", "not/absolute", 1);
    check_lasting("", "/home/u/.local/state/anyserve/run");
    setenv("XDG_RUNTIME_DIR", "/run", 1);
    check_lasting("", "/run/anyserve");
    setenv("XDG_RUNTIME_DIR", "/run/users/1", 1);
    check_lasting("", "/run/users/1/anyserve");
    unsetenv("XDG_RUNTIME_DIR");
    check_lasting("", "/home/u/.local/state/anyserve/run");
    setenv("HOME", "", 1);
    unsetenv("XDG_STATE_HOME");
    p = as_runtime_persistent_base("");
    assert_memory_equal(p, "/tmp/anyserve-", 14);
    free(p);
    assert_int_equal(seteuid(root), 0);
}

/* The one that was asked for, else the only one. */
static void which_server_is_meant(void **state AS_UNUSED)
{
    static const struct {
        bool given;
        uint16_t port, want;
        bool chosen_runs;
    } rows[] = {{true, 70, 70, true},
                {true, 8000, 8000, true},
                {true, 71, 71, false},
                {false, 8000, 8000, false}, /* two servers, and no port was given */
                {false, 71, 71, false}};
    struct as_runtime_dir d, other;
    struct as_runtime_search f;
    struct as_buf err = {0}, text = {0};

    as_runtime_find(&f, base, false, 8000);
    assert_false(f.chosen_runs);
    assert_int_equal(f.chosen.port, 8000);
    assert_string_equal(f.chosen.base, base);
    as_runtime_search_fini(&f);
    assert_int_equal(as_runtime_dir_open(&d, base, 70, &err), 0);
    as_runtime_find(&f, base, false, 8000);
    assert_true(f.chosen_runs);
    assert_int_equal(f.chosen.port, 70);
    as_runtime_search_fini(&f);
    assert_int_equal(as_runtime_dir_open(&other, base, 8000, &err), 0);
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        as_runtime_find(&f, base, rows[i].given, rows[i].port);
        assert_int_equal(f.chosen.port, rows[i].want);
        assert_int_equal(f.chosen_runs, rows[i].chosen_runs);
        assert_int_equal(f.n, 2);
        assert_int_equal(f.n_matching, rows[i].given ? rows[i].chosen_runs : 2);
        as_runtime_search_fini(&f);
    }
    as_runtime_find(&f, base, true, 71);
    as_runtime_put_servers(&f, &text);
    as_buf_printf(&err, "\n  Running in %s; choose one with --port: 70 8000", base);
    assert_true(as_str_eq(as_buf_slice(&text), as_buf_slice(&err)));
    as_runtime_search_fini(&f);
    as_buf_fini(&text);
    as_buf_fini(&err);
    as_runtime_dir_close(&other);
    as_runtime_dir_close(&d);
}

/* As long as the option's table allows, and one byte more. */
static void the_length_of_a_path_is_bounded(void **state AS_UNUSED)
{
    char path[AS_RUNTIME_BASE_MAX + 2];
    struct as_runtime_dir d;
    struct as_buf err = {0};

    memset(path, 'x', sizeof(path));
    memcpy(path, "/nonexistent/", 13);
    path[AS_RUNTIME_BASE_MAX] = 0;
    assert_int_not_equal(as_runtime_dir_open(&d, path, 65535, &err), AS_EINVALID);
    path[AS_RUNTIME_BASE_MAX] = 'x';
    path[AS_RUNTIME_BASE_MAX + 1] = 0;
    check_refused(path, AS_EINVALID, "too long a path for a socket");
    as_buf_fini(&err);
}

static void a_server_gets_a_private_folder_and_leaves_nothing(void **state AS_UNUSED)
{
    struct as_runtime_dir d;
    struct as_buf err = {0};
    char token[AS_RUNTIME_TOKEN_LEN + 1], again[AS_RUNTIME_TOKEN_LEN + 1];

    chmod(base, 0755);
    assert_int_equal(as_runtime_dir_open(&d, base, 8000, &err), 0);
    assert_int_equal(mode_of(""), 0700);
    assert_int_equal(mode_of("8000"), 0700);
    assert_int_equal(as_runtime_read_token(base, 8000, token), AS_ENOTFOUND);
    assert_int_equal(as_runtime_dir_write_token(&d, &err), 0);
    assert_int_equal(mode_of("8000/join-token"), 0600);
    assert_int_equal(mode_of("8000/driver-token"), 0600);
    assert_int_equal(as_runtime_read_token(base, 8000, token), 0);
    assert_int_equal(strspn(token, "0123456789abcdef"), AS_RUNTIME_TOKEN_LEN);
    as_runtime_dir_close(&d);
    assert_int_equal(as_runtime_dir_open(&d, base, 8000, &err), 0);
    assert_int_equal(as_runtime_dir_write_token(&d, &err), 0);
    assert_int_equal(as_runtime_read_token(base, 8000, again), 0);
    assert_string_not_equal(token, again);
    as_runtime_dir_close(&d);
    assert_int_equal(err.n, 0);
}

static void logs_go_with_the_server(void **state AS_UNUSED)
{
    struct as_runtime_dir d;
    struct as_buf err = {0};
    char path[160];

    assert_int_equal(as_runtime_dir_open(&d, base, 8000, &err), 0);
    assert_int_equal(mode_of("8000/logs"), 0700);
    for (int i = 0; i < 300; i++) { /* more than one read of the folder brings */
        snprintf(path, sizeof(path), "%s/8000/logs/replica-with-a-name-of-some-length-%d.log", base,
                 i);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    as_runtime_dir_remove(&d);
    assert_int_equal(mode_of("8000"), 0);
    as_runtime_dir_close(&d);
}

/* How many servers live in a folder; the ports of the first two. */
static uint32_t living(const char *folder, uint16_t ports[2])
{
    struct as_runtime_search f;

    as_runtime_find(&f, folder, false, 1);
    for (uint32_t i = 0; i < AS_MIN(f.n, 2u); i++)
        ports[i] = f.servers[i].port;
    as_runtime_search_fini(&f);
    return f.n;
}

static void one_folder_for_one_server(void **state AS_UNUSED)
{
    struct as_runtime_dir d, other;
    struct as_buf err = {0};
    uint16_t ports[2];

    assert_int_equal(as_runtime_dir_open(&d, base, 8000, &err), 0);
    check_refused(base, AS_EEXISTS, "another server holds");
    assert_int_equal(as_runtime_dir_open(&other, base, 70, &err), 0);
    assert_int_equal(living(base, ports), 2);
    assert_int_equal(ports[0], 70);
    assert_int_equal(ports[1], 8000);
    assert_true(as_runtime_is_running(base, 70) && as_runtime_is_running(base, 8000));
    assert_false(as_runtime_is_running(base, 7));
    as_runtime_dir_close(&other);
    assert_false(as_runtime_is_running(base, 70));
    assert_int_equal(living(base, ports), 1);
    as_runtime_dir_close(&d);
    assert_int_equal(living(base, ports), 0);
    assert_int_equal(living("/nonexistent", ports), 0);
}

/* The one that ends removes the file that the next one has opened already. */
static void two_servers_never_lock_it_both(void **state AS_UNUSED)
{
    struct {
        _Atomic uint32_t holders, both, had;
    } *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[2];

    for (size_t k = 0; k < AS_COUNT(pid); k++) {
        pid[k] = fork();
        for (int i = 0; pid[k] == 0 && i < 300; i++) {
            struct as_runtime_dir d;
            struct as_buf err = {0};
            int rc = as_runtime_dir_open(&d, base, 8000, &err);

            if (rc == 0) {
                shared->both += ++shared->holders > 1;
                shared->had++;
                shared->holders--;
                as_runtime_dir_close(&d);
            } else if (rc != AS_EEXISTS) {
                fprintf(stderr, "%.*s\n", AS_STR_FMT(as_buf_slice(&err)));
                _exit(1);
            }
            as_buf_fini(&err);
        }
        if (pid[k] == 0)
            _exit(0);
    }
    for (size_t k = 0; k < AS_COUNT(pid); k++) {
        int status;

        assert_int_equal(waitpid(pid[k], &status, 0), pid[k]);
        assert_int_equal(status, 0);
    }
    assert_true(shared->had > 0);
    assert_int_equal(shared->both, 0);
    munmap(shared, sizeof(*shared));
}

static void what_a_killed_server_left_is_taken_over(void **state AS_UNUSED)
{
    struct as_runtime_dir d;
    struct as_buf err = {0};
    uint16_t ports[2];
    pid_t pid = fork();

    if (pid == 0) {
        if (as_runtime_dir_open(&d, base, 8000, &err) == 0)
            as_runtime_dir_write_token(&d, &err);
        _exit(0); /* as if killed: nothing is removed */
    }
    waitpid(pid, NULL, 0);
    assert_int_equal(mode_of("8000/join-token"), 0600);
    assert_int_equal(living(base, ports), 0);
    assert_int_equal(as_runtime_dir_open(&d, base, 8000, &err), 0);
    assert_int_equal(mode_of("8000/join-token"), 0);
    assert_int_equal(as_runtime_dir_write_token(&d, &err), 0);
    as_runtime_dir_close(&d);
}

static void links_files_and_strangers_are_refused(void **state AS_UNUSED)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/link", base);
    assert_int_equal(symlink("/tmp", path), 0);
    check_refused(path, AS_EDENIED, "is a symbolic link");
    unlink(path);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    check_refused(path, AS_EDENIED, "is a file");
    unlink(path);
    if (geteuid() == 0) { /* only root can make a folder of another user */
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chown(path, 12345, 12345), 0);
        check_refused(path, AS_EDENIED, "belongs to user 12345");
        rmdir(path);
    }
    check_refused("/nonexistent/x", AS_EIO, "cannot make");
}

static void a_path_must_fit_a_socket(void **state AS_UNUSED)
{
    char path[AS_RUNTIME_PATH_MAX], longest[AS_RUNTIME_PATH_MAX];
    size_t room = AS_RUNTIME_PATH_MAX - 1 - strlen("/8000/s");

    memset(longest, 'x', sizeof(longest));
    longest[room] = 0;
    assert_int_equal(as_runtime_path(path, longest, 8000, "s"), 0);
    assert_int_equal(strlen(path), AS_RUNTIME_PATH_MAX - 1);
    longest[room] = 'x';
    longest[room + 1] = 0;
    assert_int_equal(as_runtime_path(path, longest, 8000, "s"), AS_EINVALID);
    check_refused(longest, AS_EINVALID, "shorter --runtime-dir");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base_follows_option_and_environment),
        cmocka_unit_test(the_lasting_base),
        cmocka_unit_test(the_length_of_a_path_is_bounded),
        cmocka_unit_test_setup_teardown(which_server_is_meant, make_base, remove_base),
        cmocka_unit_test_setup_teardown(a_server_gets_a_private_folder_and_leaves_nothing,
                                        make_base, remove_base),
        cmocka_unit_test_setup_teardown(logs_go_with_the_server, make_base, remove_base),
        cmocka_unit_test_setup_teardown(one_folder_for_one_server, make_base, remove_base),
        cmocka_unit_test_setup_teardown(two_servers_never_lock_it_both, make_base, remove_base),
        cmocka_unit_test_setup_teardown(what_a_killed_server_left_is_taken_over, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(links_files_and_strangers_are_refused, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_path_must_fit_a_socket, make_base, remove_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
