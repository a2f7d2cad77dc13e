/* Specification of io/process/proc: how a child starts and ends, and which processes end with it.
 */
#include "io/process/proc.h"

#include "base/buf.h"
#include "io/process/core_dump.h"
#include "unit.h"

#include <time.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const env[] = {"AS_T=from the spec", NULL};

static struct as_proc_spec shell(const char *const argv[4])
{
    return (struct as_proc_spec){
        .path = "sh", .argv = argv, .env = env, .in = -1, .out = -1, .err = -1, .group = true};
}

#define SHELL(script) shell((const char *const[4]){"sh", "-c", script, NULL})

/* Reads all output of a script, until no process has the pipe open. */
static void read_all(int fd, struct as_buf *b)
{
    ssize_t n;

    while ((n = read(fd, as_buf_reserve(b, 4096), 4096)) > 0)
        b->n += (size_t)n;
    as_buf_add(b, "", 1);
}

static int run(struct as_proc_spec spec, struct as_buf *out)
{
    struct as_proc p;
    int fd[2], e;

    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    spec.out = fd[1];
    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    close(fd[1]);
    read_all(fd[0], out);
    close(fd[0]);
    return as_proc_wait(&p);
}

static void running_out_of_descriptors_is_reported(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("exit 0");
    struct rlimit old, few;
    struct as_proc p;
    int e = 0, rc;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 20;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    rc = as_proc_spawn(&p, &spec, &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, AS_EIO);
    assert_int_equal(e, EMFILE);
}

static void a_child_gets_its_environment_and_null_input(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    int status;

    setenv("AS_T", "ours", 1);
    setenv("AS_KEPT", "kept", 1);
    status = run(SHELL("cat; echo $AS_T $AS_KEPT; env | grep -c ^AS_T="), &out);
    assert_int_equal(status, 0);
    assert_string_equal((char *)out.p, "from the spec kept\n1\n");
    as_buf_fini(&out);
}

static void a_batch_child_is_scheduled_as_such(void **state AS_UNUSED)
{
    /* field 41 of proc(5)'s stat: the policy, SCHED_BATCH is 3 */
    struct as_proc_spec spec = SHELL("awk '{print $41}' /proc/self/stat");
    struct as_buf plain = {0}, batch = {0};

    assert_int_equal(run(spec, &plain), 0);
    spec.batch = true;
    assert_int_equal(run(spec, &batch), 0);
    if (sched_getscheduler(0) == SCHED_OTHER) {
        assert_string_equal((char *)plain.p, "0\n");
        assert_string_equal((char *)batch.p, "3\n");
    } else { /* somebody chose a policy for us: the child keeps it */
        assert_string_equal((char *)batch.p, (char *)plain.p);
    }
    as_buf_fini(&plain);
    as_buf_fini(&batch);
}

static void a_child_starts_in_its_folder(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("pwd");
    struct as_buf out = {0};
    struct as_proc p;
    int e = 0;

    spec.dir = "/proc";
    assert_int_equal(run(spec, &out), 0);
    assert_string_equal((char *)out.p, "/proc\n");
    as_buf_fini(&out);
    spec.dir = "/does/not/exist";
    assert_int_equal(as_proc_spawn(&p, &spec, &e), AS_ENOTFOUND);
    assert_int_equal(e, ENOENT);
}

static void a_child_runs_on_its_cpus_only(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("grep Cpus_allowed_list /proc/self/status");
    struct as_buf out = {0};
    cpu_set_t ours;
    char list[16], want[64];
    unsigned cpu = 0;
    int e = 0;
    struct as_proc p;

    assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
    while (!CPU_ISSET(cpu, &ours))
        cpu++;
    snprintf(list, sizeof(list), "%u", cpu);
    snprintf(want, sizeof(want), "Cpus_allowed_list:\t%u\n", cpu);
    spec.cpus = list;
    assert_int_equal(run(spec, &out), 0);
    assert_string_equal((char *)out.p, want);
    as_buf_fini(&out);
    spec.cpus = "0-";
    assert_int_equal(as_proc_spawn(&p, &spec, &e), AS_EINVALID);
    spec.cpus = "1023"; /* the highest number, which this machine does not have */
    assert_int_equal(as_proc_spawn(&p, &spec, &e), AS_EINVALID);
}

static void lists_of_cpus(void **state AS_UNUSED)
{
    static const char *const bad[] = {
        "",   "a",  "-1",  "1-", "3-1", "1,", ",1", "1;2", "1024", "0-1024", "99999999999999999999",
        " 1", "+1", "1--2"};

    assert_int_equal(as_proc_count_cpus("0"), 1);
    assert_int_equal(as_proc_count_cpus("0-3,8"), 5);
    assert_int_equal(as_proc_count_cpus("1,1-2"), 2);
    assert_int_equal(as_proc_count_cpus("0-1023"), 1024);
    for (size_t i = 0; i < AS_COUNT(bad); i++)
        assert_int_equal(as_proc_count_cpus(bad[i]), 0);
}

static void a_child_is_limited_to_its_memory(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("ulimit -d; dd bs=1M count=1 if=/dev/zero of=/dev/null &&"
                                     " ! dd bs=200M count=1 if=/dev/zero of=/dev/null");
    struct as_buf out = {0};
    int status, null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    spec.memory = 64u << 20;
    spec.err = null; /* "memory exhausted" */
    status = run(spec, &out);
    assert_string_equal((char *)out.p, "65536\n");
    assert_int_equal(status, 0);
    close(null);
    as_buf_fini(&out);
}

/* Our own core files are forbidden by this limit, those of children are not. */
static void a_child_may_leave_a_core_file_where_we_may_not(void **state AS_UNUSED)
{
    struct rlimit old, own, mine;
    struct as_buf out = {0};

    assert_int_equal(getrlimit(RLIMIT_CORE, &old), 0);
    own = (struct rlimit){.rlim_cur = AS_MIN((rlim_t)4096, old.rlim_max), .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_CORE, &own), 0);
    assert_false(as_core_dump_restore());
    for (int i = 0; i < 2; i++) { /* the second time does nothing */
        as_core_dump_forbid();
        assert_int_equal(getrlimit(RLIMIT_CORE, &mine), 0);
        assert_int_equal(mine.rlim_cur, AS_MIN((rlim_t)1, old.rlim_max));
        assert_int_equal(mine.rlim_max, old.rlim_max);
    }
    assert_int_equal(run(SHELL("ulimit -c"), &out), 0);
    assert_int_equal(strtoul((char *)out.p, NULL, 10) * 512, own.rlim_cur); /* in blocks */
    assert_int_equal(getrlimit(RLIMIT_CORE, &mine), 0);
    assert_int_equal(mine.rlim_cur, AS_MIN((rlim_t)1, old.rlim_max));
    assert_true(as_core_dump_restore());
    assert_int_equal(getrlimit(RLIMIT_CORE, &mine), 0);
    assert_int_equal(mine.rlim_cur, own.rlim_cur);
    setrlimit(RLIMIT_CORE, &old);
    as_buf_fini(&out);
}

static void a_child_gets_exactly_its_descriptors(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    int a[2], b[2], stray;
    int fds[2];
    struct as_proc_spec spec = SHELL("echo one >&3; echo two >&4; ls /proc/self/fd");
    struct as_buf one = {0}, two = {0};

    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    stray = open("/dev/null", O_RDONLY); /* not close-on-exec, by mistake */
    fds[0] = b[1];                       /* crossed, so that 3 gets the higher one */
    fds[1] = a[1];
    spec.fds = fds;
    spec.n_fds = 2;
    assert_int_equal(run(spec, &out), 0);
    close(a[1]);
    close(b[1]);
    read_all(b[0], &one);
    read_all(a[0], &two);
    assert_string_equal((char *)one.p, "one\n");
    assert_string_equal((char *)two.p, "two\n");
    assert_string_equal((char *)out.p, "0\n1\n2\n3\n4\n5\n"); /* 5 is opened by ls */
    close(stray);
    close(a[0]);
    close(b[0]);
    as_buf_fini(&out);
    as_buf_fini(&one);
    as_buf_fini(&two);
}

static void a_child_starts_with_default_signals(void **state AS_UNUSED)
{
    struct as_buf out = {0};
    unsigned long long blocked, ignored;
    sigset_t set, old;
    struct sigaction ign = {.sa_handler = SIG_IGN}, before;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &old);
    sigaction(SIGPIPE, &ign, &before);
    run(SHELL("grep -E 'Sig(Blk|Ign)' /proc/self/status"), &out);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGPIPE, &before, NULL);
    assert_int_equal(sscanf((char *)out.p, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    /* 32 and 33 belong to the C library, whose sigaction refuses them; they are inherited */
    assert_int_equal(ignored & ~0x180000000ull, 0);
    as_buf_fini(&out);
}

static void a_program_that_cannot_start_is_reported(void **state AS_UNUSED)
{
    struct as_proc p;
    struct as_proc_spec spec = SHELL("");
    int e = 0;

    spec.path = "/nonexistent/python";
    assert_int_equal(as_proc_spawn(&p, &spec, &e), AS_ENOTFOUND);
    assert_int_equal(e, ENOENT);
    spec.path = "/etc/passwd";
    assert_int_equal(as_proc_spawn(&p, &spec, &e), AS_EDENIED);
    assert_int_equal(e, EACCES);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left to reap */
    assert_int_equal(errno, ECHILD);
}

static void the_pidfd_becomes_readable_at_the_end(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("read x; exit 7");
    struct as_proc p;
    struct pollfd pfd;
    int in[2], e, status;

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    spec.in = in[0];
    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    close(in[0]);
    pfd = (struct pollfd){.fd = p.pidfd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 0), 0);
    assert_int_equal(as_proc_reap(&p, &status), AS_EAGAIN);
    close(in[1]);
    assert_int_equal(poll(&pfd, 1, 10000), 1);
    assert_int_equal(as_proc_reap(&p, &status), 0);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(p.pid, 0);
    assert_int_equal(fcntl(pfd.fd, F_GETFD), -1); /* closed */
    as_proc_signal(&p, SIGKILL);                  /* harmless now */
}

/* The pipe ends when the last process that has its write end has ended. */
static void the_group_dies_with_its_leader(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("sleep 1000 & echo up; exec sleep 1000");
    struct as_buf rest = {0};
    struct as_proc p;
    char up[3];
    int out[2], e, status;

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    spec.out = out[1];
    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    close(out[1]);
    assert_int_equal(read(out[0], up, 3), 3);
    assert_int_equal(getpgid(p.pid), p.pid);
    kill(p.pid, SIGTERM); /* the leader only */
    status = as_proc_wait(&p);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    read_all(out[0], &rest);
    assert_int_equal(rest.n, 1);
    close(out[0]);
    as_buf_fini(&rest);
}

/* The child spawns a process with a death signal, writes its pid and is killed. */
static void a_death_signal_ends_the_child_of_a_killed_parent(void **state AS_UNUSED)
{
    int out[2];
    pid_t middle, inner = 0;
    struct pollfd pfd;
    char end;

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    middle = fork();
    if (middle == 0) {
        struct as_proc_spec spec = SHELL("exec sleep 1000");
        struct as_proc p;
        int e;

        spec.death_signal = SIGKILL;
        spec.out = out[1];
        if (as_proc_spawn(&p, &spec, &e) == 0 && write(out[1], &p.pid, sizeof(p.pid)) > 0)
            pause();
        _exit(1);
    }
    close(out[1]);
    assert_int_equal(read(out[0], &inner, sizeof(inner)), (int)sizeof(inner));
    assert_int_equal(kill(inner, 0), 0);
    kill(middle, SIGKILL);
    waitpid(middle, NULL, 0);
    pfd = (struct pollfd){.fd = out[0], .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 10000), 1);
    assert_int_equal(read(out[0], &end, 1), 0); /* `sleep` had the last write end */
    close(out[0]);
}

static bool not_ours(void *ctx, pid_t pid)
{
    return *(pid_t *)ctx == pid;
}

/* Process 1 of a container inherits orphans, and so does a subreaper. */
static void orphans_are_reaped_and_owned_children_are_not(void **state AS_UNUSED)
{
    struct as_proc_spec spec = SHELL("setsid sh -c 'echo up; read x' & exit 0");
    struct as_proc p;
    struct pollfd pfd;
    char up[3];
    pid_t none = 0;
    siginfo_t si;
    int in[2], out[2], e;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    spec.in = in[0];
    spec.out = out[1];
    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    close(in[0]);
    close(out[1]);
    assert_int_equal(read(out[0], up, 3), 3);
    pfd = (struct pollfd){.fd = p.pidfd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 10000), 1);
    assert_true(as_proc_reap_orphans(not_ours, &p.pid)); /* p is dead, and is left to its owner */
    as_proc_wait(&p);
    close(in[1]);
    assert_int_equal(waitid(P_ALL, 0, &si, WEXITED | WNOWAIT), 0); /* the orphan has ended */
    assert_false(as_proc_reap_orphans(not_ours, &none));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    close(out[0]);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* Starts a process whose parent is not this process. */
static pid_t start_leader(const char *script, int *ret_out)
{
    int out[2];
    pid_t pid;

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        dup2(out[1], 1);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    *ret_out = out[0];
    return pid;
}

static void a_pidfd_needs_the_right_parent(void **state AS_UNUSED)
{
    int out, fd;
    pid_t pid = start_leader("echo up; exec sleep 1000", &out);
    char up[3];

    assert_int_equal(read(out, up, 3), 3);
    assert_int_equal(as_proc_open_pidfd(pid, getppid()), -1); /* it is not the parent */
    assert_int_equal(as_proc_open_pidfd(0, getpid()), -1);
    assert_int_equal(as_proc_open_pidfd(1, getpid()), -1);
    fd = as_proc_open_pidfd(pid, getpid());
    assert_true(fd >= 0);
    as_proc_kill_group(-1, pid); /* a process has that number; it could be another one */
    as_proc_kill_group(fd, 0);
    as_proc_kill_group(fd, 1);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    as_proc_kill_group(fd, pid);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(as_proc_open_pidfd(pid, getpid()), -1);
    as_proc_kill_group(fd, pid);
    close(fd);
    close(out);
}

static void the_group_is_killed_without_its_leader(void **state AS_UNUSED)
{
    /* by a descriptor of the leader, and without one */
    for (int held = 0; held < 2; held++) {
        int out, fd;
        pid_t pid = start_leader("sleep 1000 & echo up; read x", &out);
        char up[3];

        assert_int_equal(read(out, up, 3), 3);
        fd = held ? as_proc_open_pidfd(pid, getpid()) : -1;
        assert_true(!held || fd >= 0);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        as_proc_kill_group(fd, pid);
        assert_int_equal(read(out, up, 1), 0); /* no process has the other end */
        if (fd >= 0)
            close(fd);
        close(out);
    }
}

static void wait_statuses_are_described(void **state AS_UNUSED)
{
    char text[48];

    assert_string_equal(as_proc_describe(3 << 8, text), "exit code 3");
    assert_string_equal(as_proc_describe(SIGSEGV, text), "signal 11 (SIGSEGV)");
    assert_string_equal(as_proc_describe(SIGKILL, text), "signal 9 (SIGKILL)");
}

static void a_process_began_when_it_was_started(void **state AS_UNUSED)
{
    int64_t before = (int64_t)time(NULL) * 1000, began;
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    began = as_proc_started_at(pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    /* the kernel counts hundredths; time() has whole seconds */
    assert_in_range(began, before - 20, before + 60000);
    assert_int_equal(as_proc_started_at(pid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_out_of_descriptors_is_reported),
        cmocka_unit_test(a_child_gets_its_environment_and_null_input),
        cmocka_unit_test(a_batch_child_is_scheduled_as_such),
        cmocka_unit_test(a_child_starts_in_its_folder),
        cmocka_unit_test(a_child_runs_on_its_cpus_only),
        cmocka_unit_test(lists_of_cpus),
        cmocka_unit_test(a_child_is_limited_to_its_memory),
        cmocka_unit_test(a_child_may_leave_a_core_file_where_we_may_not),
        cmocka_unit_test(a_child_gets_exactly_its_descriptors),
        cmocka_unit_test(a_child_starts_with_default_signals),
        cmocka_unit_test(a_program_that_cannot_start_is_reported),
        cmocka_unit_test(the_pidfd_becomes_readable_at_the_end),
        cmocka_unit_test(the_group_dies_with_its_leader),
        cmocka_unit_test(a_death_signal_ends_the_child_of_a_killed_parent),
        cmocka_unit_test(orphans_are_reaped_and_owned_children_are_not),
        cmocka_unit_test(a_pidfd_needs_the_right_parent),
        cmocka_unit_test(the_group_is_killed_without_its_leader),
        cmocka_unit_test(wait_statuses_are_described),
        cmocka_unit_test(a_process_began_when_it_was_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
