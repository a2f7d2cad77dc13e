/* Specification of io/process/resource_holder: the process that has a port or a file open, and
 * whether it is a server. */
#include "io/process/resource_holder.h"

#include "io/socket/listen.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as_holder_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state AS_UNUSED)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/8123/lock", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/8123", folder);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/file", folder);
    unlink(path);
    return rmdir(folder);
}

/* Starts another process, in which `takes` opens the resource before this returns. */
static pid_t other(void (*takes)(void))
{
    int fds[2];
    pid_t pid;
    char c;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        takes();
        (void)!write(fds[1], "", 1);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &c, 1), 1);
    close(fds[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void open_file(void)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/file", folder);
    if (open(path, O_CREAT | O_RDWR, 0600) < 0)
        _exit(1);
}

static void hold_lock(void)
{
    char path[128], pid[16];
    int fd, n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());

    snprintf(path, sizeof(path), "%s/8123", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/8123/lock", folder);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || write(fd, pid, (size_t)n) != n)
        _exit(1);
    open_file();
}

static void says(const struct as_resource_holder *h, const char *want)
{
    struct as_buf b = {0};

    as_resource_holder_write(h, &b);
    assert_true(as_str_eq(as_buf_slice(&b), as_str_of(want)));
    as_buf_fini(&b);
}

/* The port is bound here, so that it is known, and closed here, so that only the child has it. */
static void finds_the_listener_of_a_port(void **state AS_UNUSED)
{
    struct as_resource_holder h;
    int fd, e;
    uint16_t port;
    char text[64];
    pid_t pid;

    assert_int_equal(as_listen_tcp("127.0.0.1", 0, &fd, 1, &port, &e), 1);
    assert_false(as_resource_holder_of_port(&h, port)); /* only this process has it */
    pid = other(open_file);
    close(fd);
    assert_true(as_resource_holder_of_port(&h, port));
    assert_int_equal(h.pid, pid);
    assert_false(h.is_server);
    assert_string_equal(h.program, "t_resource_hold"); /* the kernel shortens names to 15 bytes */
    snprintf(text, sizeof(text), "pid %d", (int)pid);
    says(&h, text);
    end(pid);
    assert_false(as_resource_holder_of_port(&h, port));
}

static void finds_the_process_with_an_open_file(void **state AS_UNUSED)
{
    char path[128];
    struct as_resource_holder h;
    pid_t pid = other(open_file);

    snprintf(path, sizeof(path), "%s/./file", folder); /* another spelling of the path */
    assert_true(as_resource_holder_of_file(&h, path));
    assert_int_equal(h.pid, pid);
    assert_false(h.is_server);
    end(pid);
    assert_false(as_resource_holder_of_file(&h, path));
    snprintf(path, sizeof(path), "%s/nothing", folder);
    assert_false(as_resource_holder_of_file(&h, path));
}

/* By the lock of its folder. */
static void a_server_is_known_by_its_lock(void **state AS_UNUSED)
{
    char path[128], cwd[256], text[512];
    struct as_resource_holder h, same;
    pid_t pid = other(hold_lock);

    snprintf(path, sizeof(path), "%s/file", folder);
    assert_true(as_resource_holder_of_file(&h, path));
    assert_true(h.is_server);
    assert_int_equal(h.pid, pid);
    assert_int_equal(h.port, 8123);
    assert_string_equal(h.runtime_dir, folder);
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_string_equal(h.started_in, cwd);
    snprintf(text, sizeof(text), "pid %d, started in %s, runtime directory %s", (int)pid, cwd,
             folder);
    says(&h, text);
    assert_true(as_resource_holder_of_folder(&same, folder, 8123));
    assert_int_equal(same.pid, pid);
    says(&same, text);
    end(pid);
    assert_false(
        as_resource_holder_of_folder(&h, folder, 8123)); /* the file exists, but the lock is free */
    assert_false(as_resource_holder_of_folder(&h, folder, 8124));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_listener_of_a_port),
        cmocka_unit_test(finds_the_process_with_an_open_file),
        cmocka_unit_test(a_server_is_known_by_its_lock),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
