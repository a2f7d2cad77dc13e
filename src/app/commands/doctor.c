#include "app/commands/doctor.h"

#include "app/client/control_client.h"
#include "app/client/print.h"
#include "app/commands/doctor_internal.h"
#include "conf/option/exit_code.h"
#include "ctl/state/state_dir.h"
#include "ctl/supervise/memory_limit.h"
#include "ctl/worker/interpreter.h"
#include "io/loop/clock.h"
#include "io/process/cgroup.h"
#include "io/process/cpu_limit.h"
#include "io/process/proc.h"
#include "io/process/server_processes.h"
#include "io/socket/listen.h"
#include "tool/server/record.h"
#include "tool/server/which_server.h"
#include "wire/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_WELL   16896u /* the default of --max-connections, and the server's own files */
#define FILES_LEAST  1024u
#define LOCKED_WELL  (64u << 20)
#define MEMORY_LEAST ((uint64_t)256 << 20)
#define SHM_WELL     ((uint64_t)64 << 20)
#define DISK_WELL    ((uint64_t)100 << 20)
#define SYNC_WELL    (100 * AS_MS)
#define SYNCS        3
#define PYTHON_WAIT  60000 /* ms */
#define ADDRESSES    4u
#define GIB(bytes)   ((double)(bytes) / (double)((uint64_t)1 << 30))

static const char *const verdicts[AS_DOCTOR_VERDICTS] = {"ok", "warn", "fail"};

void as_doctor_report(struct as_doctor *d, const char *check, enum as_doctor_verdict v,
                      const char *advice, const char *fmt, ...)
{
    struct as_buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    as_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    d->n[v]++;
    if (d->json) {
        as_json_put_open(&d->out, '{');
        as_json_put_member_string(&d->out, "check", as_str_of(check));
        as_json_put_member_string(&d->out, "verdict", as_str_of(verdicts[v]));
        as_json_put_member_string(&d->out, "text", as_buf_slice(&text));
        as_json_put_member_string(&d->out, "advice", as_str_of(v == AS_DOCTOR_OK ? "" : advice));
        as_json_put_close(&d->out, '}');
    } else {
        as_buf_printf(&d->out, "%-4s  %-8s  %.*s\n", verdicts[v], check,
                      AS_STR_FMT(as_buf_slice(&text)));
        if (v != AS_DOCTOR_OK && advice[0])
            as_buf_printf(&d->out, "                → %s\n", advice);
    }
    as_buf_fini(&text);
}

/* --- Python --- */

/* Appends what the interpreter prints to stdout and stderr. Returns its wait status, or -1. */
static int run_python(const char *python, const char *code, struct as_buf *out)
{
    const char *argv[] = {python, "-c", code, NULL};
    struct as_proc_spec spec = {
        .path = python, .argv = argv, .in = -1, .group = true, .death_signal = SIGKILL};
    struct as_proc p;
    int fds[2], e, rc;
    bool timed_out = false;
    ssize_t n = 1;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    spec.out = spec.err = fds[1];
    rc = as_proc_spawn(&p, &spec, &e);
    close(fds[1]);
    while (rc == 0 && n > 0) {
        struct pollfd pf = {.fd = fds[0], .events = POLLIN};

        timed_out = poll(&pf, 1, PYTHON_WAIT) <= 0;
        n = timed_out ? 0 : read(fds[0], as_buf_reserve(out, 4096), 4096);
        out->n += n > 0 && out->n < 65536 ? (size_t)n : 0;
    }
    close(fds[0]);
    if (rc < 0) {
        as_buf_printf(out, "cannot be started: %s", strerror(e));
        return -1;
    }
    if (timed_out)
        as_proc_signal(&p, SIGKILL);
    return as_proc_wait(&p);
}

static void check_python(struct as_doctor *d)
{
    static const char code[] = "import sys, numpy, anyserve, anyserve._native\n"
                               "print(anyserve.__version__, sys.version.split()[0])";
    struct as_interpreter python;
    struct as_buf out = {0}, line = {0};
    char version[64] = "", number[64] = "";
    int status;

    as_interpreter_choose(&python, as_option_str(d->opts, AS_OPT_PYTHON));
    status = run_python(python.path, code, &out);
    if (status == 0 && sscanf(as_buf_cstr(&out), "%63s %63s", version, number) == 2) {
        if (strcmp(version, AS_VERSION) == 0)
            as_doctor_report(d, "python", AS_DOCTOR_OK, "", "%s (%s): Python %s, anyserve %s",
                             python.path, python.why, number, version);
        else
            as_doctor_report(d, "python", AS_DOCTOR_FAIL,
                             "install both from one package, or choose another --python",
                             "%s has anyserve %s, but this program is %s", python.path, version,
                             AS_VERSION);
    } else {
        as_record_line(&line, as_buf_slice(&out), 200);
        as_doctor_report(d, "python", AS_DOCTOR_FAIL,
                         "install anyserve there, or choose another with --python",
                         "%s (%s) cannot load anyserve: %.*s", python.path, python.why,
                         AS_STR_FMT(as_buf_slice(&line)));
    }
    as_buf_fini(&line);
    as_buf_fini(&out);
    as_interpreter_fini(&python);
}

/* --- limits --- */

/* Appends this process's own limit if it differs from the server's. */
static void write_own_limit(struct as_buf *b, uint64_t its, uint64_t own, uint32_t shift,
                            const char *unit)
{
    if (own == its)
        return;
    if (own == UINT64_MAX)
        as_buf_str(b, "; a process started here: any number");
    else
        as_buf_printf(b, "; a process started here: %llu%s", (unsigned long long)own >> shift,
                      unit);
}

static uint64_t own_limit(int resource)
{
    struct rlimit r = {0};

    getrlimit((__rlimit_resource_t)resource, &r); /* a server raises its limit to the hard limit */
    return r.rlim_max == RLIM_INFINITY ? UINT64_MAX : r.rlim_max;
}

static void check_files(struct as_doctor *d)
{
    const struct as_doctor_server *s = &d->server;
    uint64_t own = own_limit(RLIMIT_NOFILE), n = own;
    struct as_buf text = {0};
    uint32_t open;

    if (s->dispatcher && as_doctor_read_limit(s->dispatcher, "Max open files", &n)) {
        as_buf_printf(&text, "the server's dispatcher may open %llu descriptors",
                      (unsigned long long)n);
        if (as_doctor_count_files(s->dispatcher, &open))
            as_buf_printf(&text, ", %u are open", open);
        write_own_limit(&text, n, own, 0, "");
    } else {
        as_buf_printf(&text, "a server started here may open %llu descriptors in each process",
                      (unsigned long long)n);
    }
    as_doctor_report(d, "files",
                     n < FILES_LEAST  ? AS_DOCTOR_FAIL
                     : n < FILES_WELL ? AS_DOCTOR_WARN
                                      : AS_DOCTOR_OK,
                     s->dispatcher
                         ? "raise the hard limit and start the server again: ulimit -Hn 65536, "
                           "LimitNOFILE=65536 in a unit, --ulimit nofile of a container"
                         : "raise the hard limit: ulimit -Hn 65536, LimitNOFILE=65536 in a unit, "
                           "--ulimit nofile of a container",
                     "%.*s", AS_STR_FMT(as_buf_slice(&text)));
    as_buf_fini(&text);
}

static void check_locked(struct as_doctor *d)
{
    const struct as_doctor_server *s = &d->server;
    pid_t pid = s->worker ? s->worker : s->dispatcher;
    uint64_t own = own_limit(RLIMIT_MEMLOCK), n = own;
    const char *who = "a server started here";
    struct as_buf text = {0};

    if (pid && as_doctor_read_limit(pid, "Max locked memory", &n))
        who = s->worker ? "the server's workers" : "the server";
    if (n == UINT64_MAX)
        as_buf_printf(&text, "%s may lock any amount of memory", who);
    else
        as_buf_printf(&text, "%s may lock %llu KiB of memory", who, (unsigned long long)n >> 10);
    if (pid)
        write_own_limit(&text, n, own, 10, " KiB");
    as_doctor_report(
        d, "memlock", n < LOCKED_WELL ? AS_DOCTOR_WARN : AS_DOCTOR_OK,
        "needed by models that pin memory for GPUs: ulimit -l unlimited, LimitMEMLOCK=infinity",
        "%.*s", AS_STR_FMT(as_buf_slice(&text)));
    as_buf_fini(&text);
}

static void check_memory(struct as_doctor *d)
{
    pid_t pid = d->server.dispatcher;
    uint64_t own = as_memory_limit(""), memory = pid ? as_memory_limit_of("", pid) : own;
    char other[64] = "";

    if (pid && memory != own)
        snprintf(other, sizeof(other), "; a process started here: %.1f GiB", GIB(own));
    if (memory)
        as_doctor_report(d, "memory", memory < MEMORY_LEAST ? AS_DOCTOR_WARN : AS_DOCTOR_OK,
                         "give it more memory",
                         "%s may use %.1f GiB; requests may hold a quarter of it%s",
                         pid ? "the server" : "a server started here", GIB(memory), other);
    else
        as_doctor_report(d, "memory", AS_DOCTOR_WARN, "set --max-inflight-bytes",
                         "the memory limit is unknown");
}

static void check_cpus(struct as_doctor *d)
{
    pid_t pid = d->server.dispatcher;
    uint64_t quota = as_cpu_limit_quota("", pid);
    uint32_t n = as_cpu_limit_affinity(pid);
    char limit[64] = "";

    if (quota)
        snprintf(limit, sizeof(limit), ", and the time of %g CPUs in each period of its quota",
                 (double)quota / 1000);
    as_doctor_report(d, "cpus", quota && quota < 1000 ? AS_DOCTOR_WARN : AS_DOCTOR_OK,
                     "give it a whole CPU: --cpus of a container, limits.cpu of a pod, CPUQuota= "
                     "of a unit",
                     "%s may run on %u CPUs%s", pid ? "the server" : "a server started here", n,
                     limit);
}

/* pid: a process of the server, or 0 for a server that would be started here. */
static void check_cgroup(struct as_doctor *d, pid_t pid)
{
    const char *whose = pid ? "the server that runs" : "a server started here";
    bool v2;
    int e = 0;

    if (as_cgroup_check("", pid ? pid : getpid(), &v2, &e) == 0)
        as_doctor_report(d, "cgroup", AS_DOCTOR_OK, "",
                         "%s limits `memory` of a deployment by a control group (%s)", whose,
                         v2 ? "memory.max" : "memory.limit_in_bytes");
    else
        as_doctor_report(
            d, "cgroup", AS_DOCTOR_WARN,
            "give the server a writable control group of its own: Delegate=memory in "
            "a unit, systemd-run -p Delegate=memory, a container with a writable /sys/fs/cgroup",
            "%s limits `memory` of a deployment only for each single process, by RLIMIT_DATA: %s",
            whose, as_cgroup_strerror(e));
}

/* --- the kernel --- */

static void check_kernel(struct as_doctor *d)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int memfd = memfd_create("anyserve-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *head;
    size_t n;
    bool robust = syscall(SYS_get_robust_list, 0, &head, &n) == 0;
    bool waitv = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == 0 || errno != ENOSYS;
    const char *missing = pidfd < 0 ? "pidfd_open" : memfd < 0 ? "memfd_create" : NULL;

    if (missing)
        as_doctor_report(d, "kernel", AS_DOCTOR_FAIL,
                         "Linux 5.10 and later have it, unless a sandbox forbids it",
                         "%s is missing: no server can run", missing);
    else if (!robust || !waitv)
        as_doctor_report(d, "kernel", AS_DOCTOR_WARN,
                         "Linux 5.16 and later have it, unless a sandbox forbids it",
                         "%s is missing: a dead worker is noticed later",
                         robust ? "futex_waitv" : "robust futex");
    else
        as_doctor_report(d, "kernel", AS_DOCTOR_OK, "",
                         "pidfd, memfd, robust futex and futex_waitv are there");
    if (pidfd >= 0)
        close(pidfd);
    if (memfd >= 0)
        close(memfd);
}

/* --- folders --- */

static void check_shm(struct as_doctor *d)
{
    static const char advice[] = "mount a tmpfs there; a container: --shm-size=1g";
    const char *whose = "";
    char path[64] = "/dev/shm";
    struct statvfs v;
    uint64_t left;

    if (d->server.dispatcher) { /* in a container the server has another /dev/shm */
        snprintf(path, sizeof(path), "/proc/%d/root/dev/shm", (int)d->server.dispatcher);
        whose = access(path, F_OK) == 0 ? "the server's " : "";
    }
    if (!whose[0])
        snprintf(path, sizeof(path), "/dev/shm");
    if (statvfs(path, &v) < 0 || (!whose[0] && access(path, W_OK) < 0)) {
        as_doctor_report(d, "shm", AS_DOCTOR_WARN, advice,
                         "%s/dev/shm cannot be used (%s), so clients cannot use shared memory",
                         whose, strerror(errno));
        return;
    }
    left = (uint64_t)v.f_bavail * v.f_frsize;
    as_doctor_report(d, "shm", left < SHM_WELL ? AS_DOCTOR_WARN : AS_DOCTOR_OK, advice,
                     "%.2f GiB are free in %s/dev/shm", GIB(left), whose);
}

/* Shortens the path to the nearest parent that exists: a server creates the missing folders. */
static void find_existing_parent(struct as_buf *path)
{
    while (access((char *)path->p, F_OK) < 0 && path->n > 2) {
        char *slash = strrchr((char *)path->p, '/');

        if (!slash)
            break;
        slash[slash == (char *)path->p] = 0;
        path->n = strlen((char *)path->p) + 1;
    }
}

/* Tries to make a folder: the mode alone does not tell (read-only mounts, root, quotas). */
static bool can_make(const char *folder)
{
    char *path = as_str_format("%s/.anyserve-doctor-%d", folder, (int)getpid());
    bool can = mkdir(path, 0700) == 0;

    if (can)
        rmdir(path);
    free(path);
    return can;
}

/* How long a small write with fsync takes; 0: it failed, errno. */
static as_ns time_of_sync(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    as_ns began = as_clock_now();
    char page[4096] = {0};
    bool ok = fd >= 0;

    for (int i = 0; i < SYNCS && ok; i++)
        ok = write(fd, page, sizeof(page)) == (ssize_t)sizeof(page) && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? (as_clock_now() - began) / SYNCS + 1 : 0;
}

/* whose: a text that follows the folder's name. */
static void check_folder(struct as_doctor *d, const char *check, const char *folder,
                         const char *whose, bool is_durable)
{
    struct statvfs v = {0};
    struct as_buf path = {0};
    as_ns took;

    as_buf_add(&path, folder, strlen(folder) + 1);
    find_existing_parent(&path);
    statvfs((char *)path.p, &v);
    took = time_of_sync((char *)path.p);
    if (!can_make((char *)path.p))
        as_doctor_report(d, check, AS_DOCTOR_FAIL,
                         is_durable ? "choose another --state-dir" : "choose another --runtime-dir",
                         "%s cannot be written to: %s", (char *)path.p, strerror(errno));
    else if ((uint64_t)v.f_bavail * v.f_frsize < DISK_WELL)
        as_doctor_report(d, check, AS_DOCTOR_WARN, "free some space", "%s%s has %.2f GiB left",
                         folder, whose, GIB((uint64_t)v.f_bavail * v.f_frsize));
    else if (is_durable && took > SYNC_WELL)
        as_doctor_report(
            d, check, AS_DOCTOR_WARN,
            "each deploy waits for such a write: choose a --state-dir on a faster disk",
            "a write to %s takes %.0f ms", folder, (double)took / (double)AS_MS);
    else if (is_durable && took)
        as_doctor_report(d, check, AS_DOCTOR_OK, "", "%s%s; a write takes %.1f ms", folder, whose,
                         (double)took / (double)AS_MS);
    else
        as_doctor_report(d, check, AS_DOCTOR_OK, "", "%s%s", folder, whose);
    as_buf_fini(&path);
}

/* The state folder of the server that runs, which may not be that of one started here. */
static void check_server_state(struct as_doctor *d)
{
    const char *folder = d->server.state_dir, *given = as_option_str(d->opts, AS_OPT_STATE_DIR);
    struct as_buf whose = {0};

    if (access(folder, F_OK) < 0) {
        as_doctor_report(d, "state", AS_DOCTOR_FAIL,
                         "the server keeps serving until it ends: deploy its file to a server with "
                         "another --state-dir",
                         "the server's state folder %s does not exist any more", folder);
        return;
    }
    as_buf_str(&whose, ", the server's");
    if (given[0] && strcmp(given, folder) != 0)
        as_buf_printf(&whose, ", not %s", given);
    check_folder(d, "state", folder, as_buf_cstr(&whose), true);
    as_buf_fini(&whose);
}

static void check_state(struct as_doctor *d)
{
    char *state = as_state_dir_path(as_option_str(d->opts, AS_OPT_STATE_DIR));

    if (d->server.state_dir)
        check_server_state(d);
    else if (state)
        check_folder(d, "state", state, "", true);
    else
        as_doctor_report(d, "state", AS_DOCTOR_WARN, "set $HOME, or choose a --state-dir",
                         "there is no home folder for the state of `anyserve start`");
    free(state);
}

static void check_folders(struct as_doctor *d)
{
    const char *base = d->server.base;
    char path[AS_RUNTIME_PATH_MAX];

    if (as_runtime_path(path, base, UINT16_MAX, AS_RUNTIME_MANAGE) < 0)
        as_doctor_report(d, "runtime", AS_DOCTOR_FAIL, "choose a shorter --runtime-dir",
                         "the path %s is too long for sockets", base);
    else
        check_folder(d, "runtime", base, "", false);
    check_state(d);
}

/* --- a server --- */

static void check_port(struct as_doctor *d)
{
    uint16_t port = d->server.port;
    int fds[ADDRESSES], e, n = as_listen_tcp("127.0.0.1", port, fds, ADDRESSES, &port, &e);

    for (int i = 0; i < n; i++)
        close(fds[i]);
    if (n > 0)
        as_doctor_report(d, "port", AS_DOCTOR_OK, "", "%u is free on 127.0.0.1", port);
    else
        as_doctor_report(d, "port", AS_DOCTOR_WARN, "choose another --port",
                         "cannot listen on port %u of 127.0.0.1: %s", port,
                         n == AS_EEXISTS ? "another program uses it" : strerror(e));
}

static void check_processes(struct as_doctor *d)
{
    struct as_server_processes f;
    char *base;
    uint16_t port = as_which_server_locate(d->opts, &base);

    as_server_processes_read(&f, base, port);
    free(base);
    for (uint32_t i = 0; i < f.n; i++) {
        char advice[64];

        snprintf(advice, sizeof(advice), "kill -CONT %d", (int)f.all[i].pid);
        if (f.all[i].is_stopped)
            as_doctor_report(d, "process", AS_DOCTOR_FAIL, advice,
                             "the %s (pid %d) is stopped, by a signal or a debugger", f.all[i].role,
                             (int)f.all[i].pid);
    }
}

int as_doctor_main(struct as_option_set *opts)
{
    struct as_doctor d = {.opts = opts, .json = as_option_bool(opts, AS_OPT_JSON)};
    int code;

    if (d.json)
        as_json_put_open(&d.out, '[');
    check_python(&d);
    check_kernel(&d);
    as_doctor_check_server(&d);
    if (!d.server.is_running)
        check_port(&d);
    check_files(&d);
    check_locked(&d);
    check_memory(&d);
    check_cpus(&d);
    check_cgroup(&d, d.server.dispatcher);
    check_shm(&d);
    check_folders(&d);
    check_processes(&d);
    if (d.json)
        as_json_put_close(&d.out, ']');
    else
        as_buf_printf(&d.out, "%u ok, %u warnings, %u failures", d.n[AS_DOCTOR_OK],
                      d.n[AS_DOCTOR_WARN], d.n[AS_DOCTOR_FAIL]);
    as_buf_str(&d.out, "\n");
    code = as_print_result(&d.out);
    as_doctor_server_fini(&d);
    return d.n[AS_DOCTOR_FAIL] ? AS_EXIT_CODE_FAILED : code;
}
