/* Specification of io/process/server_processes: the processes of a server, and which of them are
 * stopped. */
#include "io/process/server_processes.h"

#include "io/process/runtime.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state AS_UNUSED)
{
    char path[128];

    snprintf(folder, sizeof(folder), "/tmp/as_family_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/8123", folder);
    return mkdir(path, 0700);
}

static int remove_folder(void **state AS_UNUSED)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/8123/lock", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/8123", folder);
    rmdir(path);
    return rmdir(folder);
}

/* The pid, when the process has its name. */
static pid_t child(const char *name)
{
    int fds[2];
    pid_t pid;
    char c;

    if (pipe(fds) < 0)
        _exit(1);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        (void)!write(fds[1], "", 1);
        for (;;)
            pause();
    }
    close(fds[1]); /* if it dies, that is the end of the pipe */
    (void)!read(fds[0], &c, 1);
    close(fds[0]);
    return pid;
}

struct server {
    pid_t supervisor, dispatcher, controller;
};

/* A process with the lock, as a supervisor has it, and children: dispatcher, worker, controller. */
static struct server start(void)
{
    struct server s;
    char path[128], pid[16];
    int fds[2], fd, n;

    assert_int_equal(pipe(fds), 0);
    s.supervisor = fork();
    assert_true(s.supervisor >= 0);
    if (s.supervisor == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(path, sizeof(path), "%s/8123/lock", folder);
        fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || write(fd, pid, (size_t)n) != n)
            _exit(1);
        s.supervisor = getpid();
        s.dispatcher = child(AS_SERVER_PROCESSES_DISPATCHER);
        child("as (odd) name");
        s.controller = child(AS_SERVER_PROCESSES_CONTROLLER);
        (void)!write(fds[1], &s, sizeof(s));
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &s, sizeof(s)), sizeof(s));
    close(fds[0]);
    return s;
}

static void end(const struct server *s)
{
    kill(s->supervisor, SIGKILL);
    waitpid(s->supervisor, NULL, 0);
}

static void is(const struct as_server_processes_entry *m, const char *role, pid_t pid,
               bool is_stopped)
{
    assert_string_equal(m->role, role);
    assert_int_equal(m->pid, pid);
    assert_int_equal(m->is_stopped, is_stopped);
}

static void says(struct as_buf *b, const char *want)
{
    assert_true(as_str_eq(as_buf_slice(b), as_str_of(want)));
    as_buf_drop(b, b->n);
}

static void processes_of_a_server_are_found(void **state AS_UNUSED)
{
    struct server s = start();
    struct as_server_processes f;
    struct as_buf b = {0};
    char text[128];

    as_server_processes_read(&f, folder, 8123);
    assert_int_equal(f.n, 3);
    is(&f.all[0], "supervisor", s.supervisor, false);
    is(&f.all[1], "dispatcher", s.dispatcher, false);
    is(&f.all[2], "controller", s.controller, false);
    assert_false(as_server_processes_put_stopped(&f, &b));
    says(&b, "");
    as_server_processes_put_name(&f, "controller", &b);
    snprintf(text, sizeof(text), "the controller (pid %d)", (int)s.controller);
    says(&b, text);
    as_buf_fini(&b);
    end(&s);
}

static void stopped_processes_are_reported(void **state AS_UNUSED)
{
    struct server s = start();
    struct as_server_processes f;
    struct as_buf b = {0};
    char text[256];

    kill(s.dispatcher, SIGSTOP);
    do {
        as_server_processes_read(&f, folder, 8123);
        assert_int_equal(f.n, 3);
    } while (!f.all[1].is_stopped);
    is(&f.all[0], "supervisor", s.supervisor, false);
    is(&f.all[2], "controller", s.controller, false);
    assert_true(as_server_processes_put_stopped(&f, &b));
    snprintf(text, sizeof(text),
             "\n  the dispatcher (pid %d) is stopped by a signal or a debugger; continue it with: "
             "kill -CONT %d",
             (int)s.dispatcher, (int)s.dispatcher);
    says(&b, text);
    as_buf_fini(&b);
    end(&s);
}

static void no_server_no_processes(void **state AS_UNUSED)
{
    struct server s = start();
    struct as_server_processes f;
    struct as_buf b = {0};

    as_server_processes_read(&f, folder, 8124);
    assert_int_equal(f.n, 0);
    end(&s);
    as_server_processes_read(&f, folder, 8123); /* its number is still in the file */
    assert_int_equal(f.n, 0);
    as_server_processes_put_name(&f, "dispatcher", &b);
    says(&b, "the dispatcher");
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_of_a_server_are_found),
        cmocka_unit_test(stopped_processes_are_reported),
        cmocka_unit_test(no_server_no_processes),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
