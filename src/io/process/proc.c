#include "io/process/proc.h"

#include "base/str.h"
#include "io/process/core_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIDFD_GROUP 4u /* PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9 */

extern char **environ;

/* `add`, then the variables of our environment that it does not override. The strings are not
 * copied. */
static char **merged_env(const char *const *add)
{
    size_t n = 0, k = 0;
    char **env;

    while (environ[n])
        n++;
    while (add && add[k])
        k++;
    env = as_xalloc((n + k + 1) * sizeof(*env));
    n = 0;
    for (size_t i = 0; i < k; i++)
        memcpy(&env[n++], &add[i], sizeof(add[i]));
    for (size_t i = 0; environ[i]; i++) {
        size_t name = strcspn(environ[i], "=") + 1;
        bool overridden = false;

        for (size_t j = 0; j < k && !overridden; j++)
            overridden = strncmp(environ[i], add[j], name) == 0;
        if (!overridden)
            env[n++] = environ[i];
    }
    return env;
}

static void reset_signals(void)
{
    static const uint64_t kernel_dfl[4]; /* handler, flags, restorer, mask: the kernel's struct */
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        sigaction(s, &dfl, NULL); /* fails for SIGKILL and SIGSTOP, which is harmless */
    /* The first real-time signals are libc's, and its sigaction refuses them. A parent that uses
     * posix_spawn (make, for example) leaves them ignored, so reset them by the system call. */
    for (int s = __SIGRTMIN; s < SIGRTMIN; s++)
        syscall(SYS_rt_sigaction, s, kernel_dfl, NULL, sizeof(kernel_dfl[0]));
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the child's descriptors to 0 …, by way of numbers above all targets, so that none is
 * overwritten before it was moved. exec closes all others. */
static bool place_fds(const struct as_proc_spec *spec)
{
    int from[3 + AS_PROC_FDS];
    int n = 3 + (int)spec->n_fds;

    from[0] = spec->in >= 0 ? spec->in : open("/dev/null", O_RDONLY | O_CLOEXEC);
    from[1] = spec->out >= 0 ? spec->out : 1;
    from[2] = spec->err >= 0 ? spec->err : 2;
    for (uint32_t i = 0; i < spec->n_fds; i++)
        from[3 + i] = spec->fds[i];
    for (int i = 0; i < n; i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, n);
        if (from[i] < 0)
            return false;
    }
    for (int i = 0; i < n; i++) {
        if (dup2(from[i], i) < 0)
            return false;
    }
    /* CLOSE_RANGE_CLOEXEC, since `report` is needed until exec. It fails before Linux 5.11, but our
     * own descriptors are all close-on-exec. */
    syscall(SYS_close_range, (unsigned)n, ~0u, 1u << 2);
    return true;
}

/* A list of CPUs as the kernel writes it: 0-3,8. */
static bool parse_cpus(const char *list, cpu_set_t *ret_set)
{
    unsigned long from, to;
    cpu_set_t set;

    CPU_ZERO(&set);
    do {
        if (!as_str_range(&list, &from, &to) || to >= CPU_SETSIZE)
            return false;
        for (; from <= to; from++)
            CPU_SET(from, &set);
    } while (*list++ == ',');
    if (list[-1])
        return false;
    *ret_set = set;
    return true;
}

uint32_t as_proc_count_cpus(const char *list)
{
    cpu_set_t set;

    return parse_cpus(list, &set) ? (uint32_t)CPU_COUNT(&set) : 0;
}

/* In the child. False: see errno. RLIMIT_DATA counts only private writable memory; RLIMIT_AS would
 * also count the address space that threads reserve and every mapped file. */
static bool apply_limits(const struct as_proc_spec *spec)
{
    struct rlimit data = {.rlim_cur = spec->memory, .rlim_max = spec->memory};
    cpu_set_t set;

    if (spec->cgroup && write(spec->cgroup->procs, "0", 1) != 1)
        return false;
    if (spec->memory && setrlimit(RLIMIT_DATA, &data) < 0)
        return false;
    if (spec->cpus &&
        (!parse_cpus(spec->cpus, &set) || sched_setaffinity(0, sizeof(set), &set) < 0))
        return false;
    return !spec->dir || chdir(spec->dir) == 0;
}

/* In the child, between fork and exec: system calls only. */
static void __attribute__((noreturn))
exec_child(const struct as_proc_spec *spec, char **env, pid_t parent, int report)
{
    char *const *argv;
    int e, lifted;

    memcpy(&argv, &spec->argv, sizeof(argv)); /* a cast of const; execvpe does not write to them */
    reset_signals();
    if (spec->group)
        setpgid(0, 0);
    if (spec->batch && sched_getscheduler(0) == SCHED_OTHER)
        (void)sched_setscheduler(0, SCHED_BATCH,
                                 &(struct sched_param){0}); /* a failure changes nothing */
    if (spec->death_signal && prctl(PR_SET_PDEATHSIG, spec->death_signal) == 0 &&
        getppid() != parent)
        _exit(127); /* the parent died before prctl */
    lifted = fcntl(report, F_DUPFD_CLOEXEC, 3 + AS_PROC_FDS);
    report = lifted < 0 ? report : lifted;
    as_core_dump_restore();
    if (lifted >= 0 && apply_limits(spec) && place_fds(spec))
        execvpe(spec->path, argv, env);
    e = lifted < 0 ? EMFILE : errno; /* fcntl fails with EINVAL above the limit of descriptors */
    if (write(report, &e, sizeof(e)) != sizeof(e))
        _exit(126);
    _exit(127);
}

static int err_of_errno(int e)
{
    return e == ENOENT || e == ENOTDIR ? AS_ENOTFOUND
           : e == EACCES               ? AS_EDENIED
           : e == EINVAL               ? AS_EINVALID
                                       : AS_EIO;
}

int as_proc_spawn(struct as_proc *ret_p, const struct as_proc_spec *spec, int *ret_errno)
{
    pid_t parent = getpid(), pid;
    int report[2], e = 0;
    char **env;
    ssize_t n;

    AS_ASSERT(spec->n_fds <= AS_PROC_FDS);
    if (spec->cpus && !as_proc_count_cpus(spec->cpus)) {
        *ret_errno = EINVAL;
        return AS_EINVALID;
    }
    if (pipe2(report, O_CLOEXEC) < 0) {
        *ret_errno = errno;
        return AS_EIO;
    }
    env = merged_env(spec->env);
    pid = fork();
    if (pid == 0)
        exec_child(spec, env, parent, report[1]);
    *ret_errno = errno;
    free(env);
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        return AS_EIO;
    }
    if (spec->group)
        setpgid(pid, pid); /* parent and child both do it, so that neither waits for the other */
    do {
        n = read(report[0], &e, sizeof(e));
    } while (n < 0 && errno == EINTR);
    close(report[0]);
    *ret_p = (struct as_proc){.pid = pid, .pidfd = -1, .group = spec->group};
    if (n == 0) {
        ret_p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
        if (ret_p->pidfd >= 0)
            return 0;
        e = errno;
        as_proc_signal(ret_p, SIGKILL);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *ret_errno = n < 0 ? EIO : e;
    return err_of_errno(*ret_errno);
}

void as_proc_signal(const struct as_proc *p, int signal)
{
    if (p->pid > 0)
        kill(p->group && signal == SIGKILL ? -p->pid : p->pid, signal);
}

int as_proc_reap(struct as_proc *p, int *ret_status)
{
    siginfo_t si = {0};
    pid_t pid;

    if (waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == 0)
        return AS_EAGAIN;
    /* before it is reaped: until then its number cannot be another group's */
    if (p->group)
        kill(-p->pid, SIGKILL);
    do {
        pid = waitpid(p->pid, ret_status, 0);
    } while (pid < 0 && errno == EINTR);
    AS_ASSERT(pid == p->pid);
    if (p->pidfd >= 0)
        close(p->pidfd);
    *p = (struct as_proc){.pid = 0, .pidfd = -1};
    return 0;
}

int as_proc_wait(struct as_proc *p)
{
    siginfo_t si;
    int status = 0;

    while (waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    AS_ASSERT(as_proc_reap(p, &status) == 0);
    return status;
}

bool as_proc_reap_orphans(bool (*ours)(void *ctx, pid_t pid), void *ctx)
{
    for (;;) {
        siginfo_t si = {0};

        if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || si.si_pid == 0)
            return false;
        if (ours(ctx, si.si_pid))
            return true;
        waitpid(si.si_pid, NULL, WNOHANG);
    }
}

bool as_proc_read_file(const char *path, char *ret_text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : 1;
    size_t len = 0;

    while (n > 0 && len + 1 < cap) {
        n = read(fd, ret_text + len, cap - 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    ret_text[len] = 0;
    return len > 0;
}

long as_proc_status_number(pid_t pid, const char *key)
{
    char path[40], text[4096];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    (void)as_proc_read_file(path, text, sizeof(text));
    at = strstr(text, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The 22nd number of /proc/PID/stat is in ticks since the machine has booted. The second one is the
 * program's name in parentheses, which may have spaces. */
int64_t as_proc_started_at(pid_t pid)
{
    char path[40], text[1024], *p;
    double now = seconds_of(CLOCK_REALTIME), up = seconds_of(CLOCK_BOOTTIME);

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    p = as_proc_read_file(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? (int64_t)((now - up +
                          (double)strtoull(p + 1, NULL, 10) / (double)sysconf(_SC_CLK_TCK)) *
                         1e3)
             : 0;
}

bool as_proc_is_traced(pid_t pid)
{
    return as_proc_status_number(pid, "\nTracerPid:") > 0;
}

/* --- processes that are not our children --- */

static int pidfd_signal(int pidfd, int signal, unsigned flags)
{
    return pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, flags);
}

int as_proc_open_pidfd(pid_t pid, pid_t parent)
{
    int fd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;

    /* The parent is checked when the pidfd is open: if the process still runs after that, what was
     * read is about this process and no other with the same number. */
    if (fd >= 0 &&
        (as_proc_status_number(pid, "\nPPid:") != parent || pidfd_signal(fd, 0, 0) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void as_proc_kill_group(int pidfd, pid_t pid)
{
    if (pid <= 1) /* kill(0) and kill(-1) mean our own group and all processes */
        return;
    if (pidfd_signal(pidfd, SIGKILL, PIDFD_GROUP) == 0 || (pidfd >= 0 && errno == ESRCH))
        return;
    /* a kernel before 6.9, or no pidfd */
    if (pidfd_signal(pidfd, 0, 0) == 0 || (kill(pid, 0) < 0 && errno == ESRCH))
        kill(-pid, SIGKILL);
}

const char *as_proc_describe(int status, char out[48])
{
    const char *name;

    if (WIFEXITED(status)) {
        snprintf(out, 48, "exit code %d", WEXITSTATUS(status));
        return out;
    }
    name = sigabbrev_np(WTERMSIG(status));
    snprintf(out, 48, "signal %d (%s%s)", WTERMSIG(status), name ? "SIG" : "", name ? name : "?");
    return out;
}
