#include "app/doctor.h"

#include "app/contact.h"
#include "conf/exit_code.h"
#include "ctl/interp.h"
#include "ctl/memory.h"
#include "ctl/state_dir.h"
#include "io/cgroup.h"
#include "io/listen.h"
#include "io/proc.h"
#include "io/runtime.h"
#include "tool/record.h"
#include "wire/json.h"

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

#define FILES_WELL   16896u /* --max-connections unless set, and what we need beside */
#define FILES_LEAST  1024u
#define LOCKED_WELL  (64u << 20)
#define MEMORY_LEAST ((uint64_t)256 << 20)
#define SHM_WELL     ((uint64_t)64 << 20)
#define DISK_WELL    ((uint64_t)100 << 20)
#define SYNC_WELL    (100 * AS_MS)
#define SYNCS        3
#define PYTHON_WAIT  60000 /* ms */
#define ANSWER_WAIT  (3 * AS_SEC)
#define ADDRESSES    4u
#define GIB(bytes)   ((double)(bytes) / (double)((uint64_t)1 << 30))

enum verdict { OK, WARN, FAIL, VERDICTS };
static const char *const verdicts[VERDICTS] = {"ok", "warn", "fail"};

struct doctor {
    const struct as_option_set *opts;
    bool json;
    uint32_t n[VERDICTS];
    struct as_buf out;
};

/* advice: what to do about it; "" where nothing is. */
static void tell(struct doctor *d, const char *check, enum verdict v, const char *advice,
                 const char *fmt, ...) AS_PRINTF(5, 6);
static void tell(struct doctor *d, const char *check, enum verdict v, const char *advice,
                 const char *fmt, ...)
{
    struct as_buf text;
    va_list ap;

    as_buf_init(&text);
    va_start(ap, fmt);
    as_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    d->n[v]++;
    if (d->json) {
        as_json_put_open(&d->out, '{');
        as_json_put_at_string(&d->out, "check", as_str_of(check));
        as_json_put_at_string(&d->out, "verdict", as_str_of(verdicts[v]));
        as_json_put_at_string(&d->out, "text", as_buf_slice(&text));
        as_json_put_at_string(&d->out, "advice", as_str_of(v == OK ? "" : advice));
        as_json_put_close(&d->out, '}');
    } else {
        as_buf_printf(&d->out, "%-4s  %-8s  %.*s\n", verdicts[v], check,
                      AS_STR_FMT(as_buf_slice(&text)));
        if (v != OK && advice[0])
            as_buf_printf(&d->out, "                → %s\n", advice);
    }
    as_buf_fini(&text);
}

/* --- Python --- */

/* What it prints, with its errors; its wait status, or -1. */
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

static void check_python(struct doctor *d)
{
    static const char code[] = "import sys, numpy, anyserve, anyserve._native\n"
                               "print(anyserve.__version__, sys.version.split()[0])";
    struct as_interp python;
    struct as_buf out, line;
    char version[64] = "", number[64] = "";
    int status;

    as_interp_choose(&python, as_option_str(d->opts, AS_OPT_PYTHON));
    as_buf_init(&out);
    as_buf_init(&line);
    status = run_python(python.path, code, &out);
    as_buf_add(&out, "", 1);
    if (status == 0 && sscanf((char *)out.p, "%63s %63s", version, number) == 2) {
        if (strcmp(version, AS_VERSION) == 0)
            tell(d, "python", OK, "", "%s (%s): Python %s, anyserve %s", python.path, python.why,
                 number, version);
        else
            tell(d, "python", FAIL, "install both from one package, or choose another --python",
                 "%s has anyserve %s, this program is %s", python.path, version, AS_VERSION);
    } else {
        as_record_line(&line, (struct as_str){(char *)out.p, out.n - 1}, 200);
        tell(d, "python", FAIL, "install anyserve there, or choose another with --python",
             "%s (%s) cannot load anyserve: %.*s", python.path, python.why,
             AS_STR_FMT(as_buf_slice(&line)));
    }
    as_buf_fini(&line);
    as_buf_fini(&out);
    as_interp_fini(&python);
}

/* --- limits --- */

static void check_files(struct doctor *d)
{
    struct rlimit r = {0};

    getrlimit(RLIMIT_NOFILE, &r); /* the dispatcher takes all that it may have */
    tell(
        d, "files",
        r.rlim_max < FILES_LEAST  ? FAIL
        : r.rlim_max < FILES_WELL ? WARN
                                  : OK,
        "raise the hard limit: ulimit -Hn 65536, LimitNOFILE=65536 in a unit, --ulimit nofile of a "
        "container",
        "%llu descriptors may be open in a process", (unsigned long long)r.rlim_max);
}

static void check_locked(struct doctor *d)
{
    struct rlimit r = {0};

    getrlimit(RLIMIT_MEMLOCK, &r);
    if (r.rlim_max == RLIM_INFINITY)
        tell(d, "memlock", OK, "", "any amount of memory may be locked");
    else
        tell(d, "memlock", r.rlim_max < LOCKED_WELL ? WARN : OK,
             "matters to models that pin memory, for GPUs: ulimit -l unlimited, "
             "LimitMEMLOCK=infinity",
             "%llu KiB of memory may be locked", (unsigned long long)r.rlim_max >> 10);
}

static void check_memory(struct doctor *d)
{
    uint64_t memory = as_memory_limit("");

    if (memory)
        tell(d, "memory", memory < MEMORY_LEAST ? WARN : OK, "give it more",
             "%.1f GiB may be used; requests may hold a quarter of it", GIB(memory));
    else
        tell(d, "memory", WARN, "set --max-inflight-bytes", "how much may be used is not known");
}

/* pid: a server's, or 0: one that would be started here. */
static void check_cgroup(struct doctor *d, pid_t pid)
{
    const char *whose = pid ? "the server that runs" : "a server started here";
    bool v2;
    int e = 0;

    if (as_cgroup_look("", pid ? pid : getpid(), &v2, &e) == 0)
        tell(d, "cgroup", OK, "", "%s bounds `memory` of a deployment by a control group (%s)",
             whose, v2 ? "memory.max" : "memory.limit_in_bytes");
    else
        tell(d, "cgroup", WARN,
             "give the server a control group of its own that it may write to: Delegate=memory in "
             "a unit, systemd-run -p Delegate=memory, a container with a writable /sys/fs/cgroup",
             "%s bounds `memory` of a deployment for each process alone, by RLIMIT_DATA: %s", whose,
             as_cgroup_why(e));
}

/* --- the kernel --- */

static void check_kernel(struct doctor *d)
{
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int memfd = memfd_create("anyserve-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *head;
    size_t n;
    bool robust = syscall(SYS_get_robust_list, 0, &head, &n) == 0;
    bool waitv = syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == 0 || errno != ENOSYS;
    const char *missing = pidfd < 0 ? "pidfd_open" : memfd < 0 ? "memfd_create" : NULL;

    if (missing)
        tell(d, "kernel", FAIL, "Linux 5.10 and later have it, unless a sandbox forbids it",
             "%s is missing: no server can run", missing);
    else if (!robust || !waitv)
        tell(d, "kernel", WARN, "Linux 5.16 and later have it, unless a sandbox forbids it",
             "%s is missing: a dead worker is noticed later",
             robust ? "futex_waitv" : "robust futex");
    else
        tell(d, "kernel", OK, "", "pidfd, memfd, robust futex and futex_waitv are there");
    if (pidfd >= 0)
        close(pidfd);
    if (memfd >= 0)
        close(memfd);
}

/* --- folders --- */

static void check_shm(struct doctor *d)
{
    static const char advice[] = "mount a tmpfs there; a container: --shm-size=1g";
    struct statvfs v;
    uint64_t left;

    if (statvfs("/dev/shm", &v) < 0 || access("/dev/shm", W_OK) < 0) {
        tell(d, "shm", WARN, advice, "/dev/shm cannot be used (%s): nor can clients' shared memory",
             strerror(errno));
        return;
    }
    left = (uint64_t)v.f_bavail * v.f_frsize;
    tell(d, "shm", left < SHM_WELL ? WARN : OK, advice, "%.2f GiB are free in /dev/shm", GIB(left));
}

/* The first folder on the way there that exists: what is missing is made by a server. */
static void existing(struct as_buf *path)
{
    while (access((char *)path->p, F_OK) < 0 && path->n > 2) {
        char *slash = strrchr((char *)path->p, '/');

        if (!slash)
            break;
        slash[slash == (char *)path->p] = 0;
        path->n = strlen((char *)path->p) + 1;
    }
}

/* Asked by making something: what a mode says is not all (read-only mounts, root, quotas). */
static bool can_make(const char *folder)
{
    struct as_buf path;
    bool can;

    as_buf_init(&path);
    as_buf_printf(&path, "%s/.anyserve-doctor-%d", folder, (int)getpid());
    as_buf_add(&path, "", 1);
    can = mkdir((char *)path.p, 0700) == 0;
    if (can)
        rmdir((char *)path.p);
    as_buf_fini(&path);
    return can;
}

/* How long a small write to disk takes; 0: it failed, errno. */
static as_ns time_of_sync(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    as_ns began = as_contact_clock();
    char page[4096] = {0};
    bool ok = fd >= 0;

    for (int i = 0; i < SYNCS && ok; i++)
        ok = write(fd, page, sizeof(page)) == (ssize_t)sizeof(page) && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok ? (as_contact_clock() - began) / SYNCS + 1 : 0;
}

static void check_folder(struct doctor *d, const char *check, const char *folder, bool is_durable)
{
    struct statvfs v = {0};
    struct as_buf path;
    as_ns took;

    as_buf_init(&path);
    as_buf_add(&path, folder, strlen(folder) + 1);
    existing(&path);
    statvfs((char *)path.p, &v);
    took = time_of_sync((char *)path.p);
    if (!can_make((char *)path.p))
        tell(d, check, FAIL,
             is_durable ? "choose another --state-dir" : "choose another --runtime-dir",
             "%s cannot be written to: %s", (char *)path.p, strerror(errno));
    else if ((uint64_t)v.f_bavail * v.f_frsize < DISK_WELL)
        tell(d, check, WARN, "make room", "%s has %.2f GiB left", folder,
             GIB((uint64_t)v.f_bavail * v.f_frsize));
    else if (is_durable && took > SYNC_WELL)
        tell(d, check, WARN, "each deploy waits for it: choose a --state-dir on a faster disk",
             "a write to %s takes %.0f ms", folder, (double)took / (double)AS_MS);
    else if (is_durable && took)
        tell(d, check, OK, "", "%s; a write takes %.1f ms", folder, (double)took / (double)AS_MS);
    else
        tell(d, check, OK, "", "%s", folder);
    as_buf_fini(&path);
}

static void check_folders(struct doctor *d)
{
    char *base = as_runtime_base(as_option_str(d->opts, AS_OPT_RUNTIME_DIR));
    char *state = as_state_dir_of(as_option_str(d->opts, AS_OPT_STATE_DIR));
    char path[AS_RUNTIME_PATH_MAX];

    if (as_runtime_path(path, base, UINT16_MAX, AS_RUNTIME_MANAGE) < 0)
        tell(d, "runtime", FAIL, "choose a shorter --runtime-dir",
             "%s is too long a path for sockets", base);
    else
        check_folder(d, "runtime", base, false);
    if (state)
        check_folder(d, "state", state, true);
    else
        tell(d, "state", WARN, "set $HOME, or choose a --state-dir",
             "there is no home folder for what `anyserve start` serves");
    free(base);
    free(state);
}

/* --- a server --- */

static void check_port(struct doctor *d, uint16_t port)
{
    int fds[ADDRESSES], e, n = as_listen_tcp("127.0.0.1", port, fds, ADDRESSES, &port, &e);

    for (int i = 0; i < n; i++)
        close(fds[i]);
    if (n > 0)
        tell(d, "port", OK, "", "%u is free on 127.0.0.1", port);
    else
        tell(d, "port", WARN, "choose another --port", "%u on 127.0.0.1 cannot be had: %s", port,
             n == AS_EEXISTS ? "another program has it" : strerror(e));
}

static bool all_well(struct as_str page, bool *ret_ready, int64_t *ret_pid)
{
    const struct as_record_field fields[] = {{"ready", AS_RECORD_BOOL, ret_ready},
                                             {"pid", AS_RECORD_I64, ret_pid}};
    struct as_json_value root;
    struct as_json_items it;
    struct as_record r;
    int err = as_record_open(&r, page, &root), more;

    if (!err)
        err = as_json_items(r.json, &root, &it);
    while (!err && (more = as_json_next(r.json, &it)) != 0) {
        err = more < 0 ? more : 0;
        if (!err && as_str_eq(it.key, AS_STR("server")))
            err = as_record_read(&r, &it.value, fields, AS_COUNT(fields));
    }
    as_record_close(&r);
    return err == 0;
}

static bool says(struct as_str json, const char *text)
{
    return json.n && memmem(json.p, json.n, text, strlen(text));
}

/* The pid of its dispatcher, which is where the server is; 0: none that answers. */
static pid_t check_server(struct doctor *d)
{
    struct as_contact_request page = {.socket = AS_RUNTIME_STATUS,
                                      .method = "GET",
                                      .target = "/status",
                                      .wait = ANSWER_WAIT,
                                      .is_quiet = true};
    struct as_contact_request control = {.socket = AS_RUNTIME_CONTROL,
                                         .method = "GET",
                                         .target = "/api/serve/applications/",
                                         .wait = ANSWER_WAIT,
                                         .is_quiet = true};
    struct as_contact_answer a, b;
    char *base;
    uint16_t port = as_contact_place(d->opts, &base);
    bool ready = false;
    int64_t pid = 0;

    if (!as_runtime_lives(base, port)) {
        tell(d, "server", OK, "", "none runs on port %u in %s", port, base);
        check_port(d, port);
        free(base);
        return 0;
    }
    free(base);
    if (as_contact_ask(d->opts, &page, &a) != AS_CODE_OK || a.status != 200 ||
        !all_well(a.body, &ready, &pid))
        tell(d, "server", FAIL, "look at anyserve logs; a second signal ends it at once",
             "the server on port %u does not answer", port);
    else if (!ready)
        tell(d, "server", WARN, "anyserve status says what is missing",
             "the server on port %u is not ready", port);
    else
        tell(d, "server", OK, "", "the server on port %u is ready", port);
    as_contact_fini(&a);
    if (as_contact_ask(d->opts, &control, &b) != AS_CODE_OK || b.status != 200)
        tell(d, "control", FAIL, "look at anyserve logs --replica controller",
             "its controller does not answer: it cannot be changed, nor dead replicas be replaced");
    else if (says(b.body, "\"status\":\"UNHEALTHY\"") ||
             says(b.body, "\"status\":\"DEPLOY_FAILED\""))
        tell(d, "control", WARN, "anyserve status -w says which, and why",
             "something that it serves is not well");
    else
        tell(d, "control", OK, "", "what it serves is well");
    as_contact_fini(&b);
    return (pid_t)pid;
}

int as_doctor_main(struct as_option_set *opts)
{
    struct doctor d = {.opts = opts, .json = as_option_bool(opts, AS_OPT_JSON)};
    bool said;

    as_buf_init(&d.out);
    if (d.json)
        as_json_put_open(&d.out, '[');
    check_python(&d);
    check_kernel(&d);
    check_files(&d);
    check_locked(&d);
    check_memory(&d);
    check_shm(&d);
    check_folders(&d);
    check_cgroup(&d, check_server(&d));
    if (d.json)
        as_json_put_close(&d.out, ']');
    else
        as_buf_printf(&d.out, "%u ok, %u warnings, %u failures", d.n[OK], d.n[WARN], d.n[FAIL]);
    as_buf_str(&d.out, "\n");
    fwrite(d.out.p, 1, d.out.n, stdout);
    said = fflush(stdout) == 0;
    as_buf_fini(&d.out);
    return said && !d.n[FAIL] ? AS_CODE_OK : AS_CODE_FAILED;
}
