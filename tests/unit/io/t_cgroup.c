/* Specification of io/process/cgroup: where a child's control group is made, which files are
 * written, and, if this machine permits it, that a child over its limit is killed. */
#include "io/process/cgroup.h"

#include "base/buf.h"
#include "io/process/proc.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- a tree of plain files instead of the kernel's --- */

static char root[64];

static void make(const char *path, const char *text)
{
    char full[512];
    int fd;

    snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *p = '/';
    }
    if (!text)
        return;
    fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void check_file(const char *path, const char *want)
{
    char full[512], text[256];
    int fd;
    ssize_t n;

    snprintf(full, sizeof(full), "%s%s", root, path);
    fd = open(full, O_RDONLY);
    if (!want) {
        assert_int_equal(fd, -1);
        return;
    }
    assert_true(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    assert_true(n >= 0);
    text[n] = 0;
    assert_string_equal(text, want);
    close(fd);
}

static int remove_one(const char *path, const struct stat *st AS_UNUSED, int type AS_UNUSED,
                      struct FTW *at AS_UNUSED)
{
    return remove(path);
}

static int begin(void **state AS_UNUSED)
{
    strcpy(root, "/tmp/as-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state AS_UNUSED)
{
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* "…/anyserve-PID-NAME/FILE" */
static const char *leaf(const char *folder, const char *name, const char *file)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/anyserve-%d-%s/%s", folder, (int)getpid(), name, file);
    return path;
}

static void v1_group_has_its_limit(void **state AS_UNUSED)
{
    struct as_cgroup g;
    uint64_t kills;
    int e;

    make("/proc/self/cgroup", "4:memory:/a/b\n2:cpu:/c\n0::/d\n");
    make("/sys/fs/cgroup/memory/a/b/", NULL);
    assert_int_equal(as_cgroup_open(&g, root, "echo-0", 1 << 20, &e), 0);
    assert_false(g.v2);
    check_file(leaf("/sys/fs/cgroup/memory/a/b", "echo-0", "memory.limit_in_bytes"), "1048576");
    check_file(leaf("/sys/fs/cgroup/memory/a/b", "echo-0", "memory.memsw.limit_in_bytes"), NULL);
    make(leaf("/sys/fs/cgroup/memory/a/b", "echo-0", "memory.oom_control"),
         "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    kills = as_cgroup_oom_kills(&g);
    assert_int_equal(kills, 3);
    as_cgroup_close(&g); /* unlike the kernel's, plain files stay in the folder */
    assert_null(g.path);
    assert_int_equal(as_cgroup_oom_kills(&g), 0);
}

static void an_invisible_group_is_the_mount(void **state AS_UNUSED)
{
    struct as_cgroup g;
    int e;

    make("/proc/self/cgroup", "4:memory:/docker/0123\n");
    make("/sys/fs/cgroup/memory/", NULL);
    assert_int_equal(as_cgroup_open(&g, root, "x", 5, &e), 0);
    check_file(leaf("/sys/fs/cgroup/memory", "x", "memory.limit_in_bytes"), "5");
    as_cgroup_close(&g);
}

/* A server delegates before it starts anything, when it is alone in its group. */
static void v2_delegates_when_alone_in_the_group(void **state AS_UNUSED)
{
    struct as_cgroup g;
    char self[16];
    int e;

    snprintf(self, sizeof(self), "%d\n", (int)getpid());
    make("/proc/self/cgroup", "0::/unit\n");
    make("/sys/fs/cgroup/unit/cgroup.controllers", "cpu memory pids\n");
    make("/sys/fs/cgroup/unit/cgroup.procs", self);
    make("/sys/fs/cgroup/unit/cgroup.subtree_control", "");
    assert_int_equal(as_cgroup_delegate(root, "memory", &e), 0);
    check_file("/sys/fs/cgroup/unit/anyserve-server/cgroup.procs",
               "0"); /* moved to the child group */
    check_file("/sys/fs/cgroup/unit/cgroup.subtree_control", "+memory");
    /* the dispatcher, the controller and workers are in the child group, too */
    make("/proc/self/cgroup", "0::/unit/anyserve-server\n");
    make("/sys/fs/cgroup/unit/cgroup.subtree_control", "cpu memory\n");
    assert_int_equal(as_cgroup_delegate(root, "memory", &e), 0); /* after an exec */
    check_file("/sys/fs/cgroup/unit/cgroup.subtree_control", "cpu memory\n");
    assert_int_equal(as_cgroup_open(&g, root, "x", 7, &e), 0);
    assert_true(g.v2);
    check_file(leaf("/sys/fs/cgroup/unit", "x", "memory.max"), "7");
    check_file(leaf("/sys/fs/cgroup/unit", "x", "memory.oom.group"), "1");
    as_cgroup_close(&g);
}

/* The group of a shell, or of a container's first process, is not changed. */
static void v2_does_not_move_other_processes(void **state AS_UNUSED)
{
    struct as_cgroup g;
    int e = 0;

    make("/proc/self/cgroup", "0::/user\n");
    make("/sys/fs/cgroup/user/cgroup.controllers", "memory\n");
    make("/sys/fs/cgroup/user/cgroup.procs", "1\n2\n");
    make("/sys/fs/cgroup/user/cgroup.subtree_control", "");
    assert_int_equal(as_cgroup_delegate(root, "memory", &e), AS_EDENIED);
    assert_int_equal(e, EBUSY);
    check_file("/sys/fs/cgroup/user/anyserve-server/cgroup.procs", NULL);
    check_file("/sys/fs/cgroup/user/cgroup.subtree_control", "");
    assert_int_equal(as_cgroup_open(&g, root, "x", 7, &e), AS_EDENIED);
    assert_int_equal(e, EBUSY);
}

/* Only systemd writes to the group of a unit without Delegate=, even for root. */
static void v2_leaves_groups_of_systemd_alone(void **state AS_UNUSED)
{
    static const char *const names[] = {"a.service", "b.scope", "c.slice"};
    char path[128], self[16];
    int e;

    snprintf(self, sizeof(self), "%d\n", (int)getpid());
    for (size_t i = 0; i < AS_COUNT(names); i++) {
        snprintf(path, sizeof(path), "0::/system.slice/%s\n", names[i]);
        make("/proc/self/cgroup", path);
        snprintf(path, sizeof(path), "/sys/fs/cgroup/system.slice/%s/cgroup.controllers", names[i]);
        make(path, "memory\n");
        snprintf(path, sizeof(path), "/sys/fs/cgroup/system.slice/%s/cgroup.procs", names[i]);
        make(path, self);
        snprintf(path, sizeof(path), "/sys/fs/cgroup/system.slice/%s/cgroup.subtree_control",
                 names[i]);
        make(path, "");
        assert_int_equal(as_cgroup_delegate(root, "memory", &e), AS_EDENIED);
        assert_int_equal(e, EPERM);
        check_file(path, "");
    }
}

static void v1_needs_no_delegation(void **state AS_UNUSED)
{
    int e;

    make("/proc/self/cgroup", "4:memory:/a/b\n0::/d\n");
    make("/sys/fs/cgroup/memory/a/b/", NULL);
    assert_int_equal(as_cgroup_delegate(root, "memory", &e), 0);
}

/* `anyserve doctor` checks the group of a server. */
static void check_changes_nothing(void **state AS_UNUSED)
{
    bool v2;
    int e;

    assert_int_equal(as_cgroup_check(root, 77, &v2, &e), AS_ENOTFOUND);
    make("/proc/77/cgroup", "0::/unit\n");
    make("/sys/fs/cgroup/unit/cgroup.controllers", "memory\n");
    make("/sys/fs/cgroup/unit/cgroup.subtree_control", "");
    assert_int_equal(as_cgroup_check(root, 77, &v2, &e), AS_EDENIED);
    assert_int_equal(e, EBUSY);
    check_file("/sys/fs/cgroup/unit/cgroup.subtree_control", "");
    make("/proc/77/cgroup", "0::/unit/anyserve-server\n");
    make("/sys/fs/cgroup/unit/anyserve-server/", NULL);
    make("/sys/fs/cgroup/unit/cgroup.subtree_control", "memory\n");
    assert_int_equal(as_cgroup_check(root, 77, &v2, &e), 0);
    assert_true(v2);
    make("/proc/77/cgroup", "4:memory:/a\n");
    make("/sys/fs/cgroup/memory/a/", NULL);
    assert_int_equal(as_cgroup_check(root, 77, &v2, &e), 0);
    assert_false(v2);
}

static void no_group_available(void **state AS_UNUSED)
{
    struct as_cgroup g = {.procs = -1};
    int e = 0;

    assert_int_equal(as_cgroup_open(&g, root, "x", 7, &e), AS_ENOTFOUND); /* no /proc */
    assert_int_equal(e, ENOENT);
    make("/proc/self/cgroup", "0::/\n");
    make("/sys/fs/cgroup/cgroup.controllers", "hugetlb\n");
    assert_int_equal(as_cgroup_delegate(root, "memory", &e), AS_ENOTFOUND);
    assert_int_equal(as_cgroup_open(&g, root, "x", 7, &e), AS_ENOTFOUND); /* v2 without memory */
    assert_int_equal(as_cgroup_close(&g), 0);
}

static void stale_groups_are_removed(void **state AS_UNUSED)
{
    char path[128], full[256];
    struct stat st;
    pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    make("/proc/self/cgroup", "4:memory:/\n");
    snprintf(path, sizeof(path), "/sys/fs/cgroup/memory/anyserve-%d-x/", (int)dead);
    make(path, NULL);
    make("/sys/fs/cgroup/memory/anyserve-1-x/", NULL);
    make("/sys/fs/cgroup/memory/another/", NULL);
    as_cgroup_remove_stale(root);
    snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(stat(full, &st), -1);
    snprintf(full, sizeof(full), "%s/sys/fs/cgroup/memory/anyserve-1-x", root);
    assert_int_equal(stat(full, &st), 0); /* its process runs */
    snprintf(full, sizeof(full), "%s/sys/fs/cgroup/memory/another", root);
    assert_int_equal(stat(full, &st), 0);
}

/* They are of an earlier server that was killed, beside the child group of this one. */
static void stale_groups_beside_the_servers_are_removed(void **state AS_UNUSED)
{
    char path[128], full[256];
    struct stat st;
    pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    make("/proc/self/cgroup", "0::/unit/anyserve-server\n");
    make("/sys/fs/cgroup/unit/anyserve-server/", NULL);
    snprintf(path, sizeof(path), "/sys/fs/cgroup/unit/anyserve-%d-x/", (int)dead);
    make(path, NULL);
    as_cgroup_remove_stale(root);
    snprintf(full, sizeof(full), "%s%s", root, path);
    assert_int_equal(stat(full, &st), -1);
    snprintf(full, sizeof(full), "%s/sys/fs/cgroup/unit/anyserve-server", root);
    assert_int_equal(stat(full, &st), 0);
}

/* --- the kernel's --- */

/* The kernel's own rules. On a mixed system, with the memory controller in v1, another controller
 * of the second hierarchy is used. */
#define MOUNTS 2
static const char *const mounts[MOUNTS] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

struct real_tree {
    char mount[32], controller[32], group[64], path[160];
    bool was_on; /* groups below the mount had the controller before the test */
};

static bool write_to(const char *folder, const char *file, const char *text)
{
    char path[256];
    FILE *f;
    bool ok;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    f = fopen(path, "we");
    ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

/* Does the file's first line contain the text? */
static bool reads(const char *folder, const char *file, const char *want)
{
    char path[256], text[256] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    f = fopen(path, "re");
    if (f && !fgets(text, sizeof(text), f))
        text[0] = 0;
    if (f)
        fclose(f);
    return strstr(text, want) != NULL;
}

/* A group in the kernel's tree, with a child process in it that delegates. */
static struct real_tree make_real_tree(void)
{
    struct real_tree t = {0};
    char path[256], text[256] = "";

    for (size_t i = 0; i < MOUNTS && !t.controller[0]; i++) {
        FILE *f;

        snprintf(path, sizeof(path), "%s/cgroup.controllers", mounts[i]);
        f = fopen(path, "re");
        if (f && fgets(text, sizeof(text), f) && sscanf(text, "%31s", t.controller) == 1)
            snprintf(t.mount, sizeof(t.mount), "%s", mounts[i]);
        if (f)
            fclose(f);
    }
    snprintf(t.group, sizeof(t.group), "/as-t-cgroup-%d", (int)getpid());
    snprintf(t.path, sizeof(t.path), "%s%s", t.mount, t.group);
    if (!t.controller[0] || mkdir(t.path, 0755) < 0) {
        print_message("no control group of version 2 to be had here: %s\n", strerror(errno));
        skip();
    }
    t.was_on = reads(t.mount, "cgroup.subtree_control", t.controller);
    snprintf(text, sizeof(text), "+%s", t.controller);
    if (!t.was_on)
        assert_true(write_to(t.mount, "cgroup.subtree_control", text));
    /* a root with the kernel's tree; the test's child writes its own /proc files there */
    snprintf(path, sizeof(path), "%s/sys/fs", root);
    make("/sys/fs/", NULL);
    snprintf(path, sizeof(path), "%s/sys/fs/cgroup", root);
    assert_int_equal(symlink(t.mount, path), 0);
    return t;
}

/* In a child process, which is in the group. Its exit code names the step that failed. */
static int delegate_for_real(const struct real_tree *t, bool with_another)
{
    char lower[224], beside[224], path[256], self[16];
    int e = 0, gate[2];
    pid_t another = -1;

    if (!write_to(t->path, "cgroup.procs", "0"))
        return 2;
    if (pipe2(gate, O_CLOEXEC))
        return 3;
    if (with_another && (another = fork()) == 0) {
        char c;

        close(gate[1]);
        _exit(read(gate[0], &c, 1) != 0);
    }
    snprintf(path, sizeof(path), "0::%s\n", t->group);
    make("/proc/self/cgroup", path);
    if (with_another) {
        int rc = as_cgroup_delegate(root, t->controller, &e);

        close(gate[1]);
        waitpid(another, NULL, 0);
        return rc == AS_EDENIED && e == EBUSY ? 0 : 4;
    }
    if (as_cgroup_delegate(root, t->controller, &e))
        return 5;
    snprintf(lower, sizeof(lower), "%s/anyserve-server", t->path);
    snprintf(self, sizeof(self), "%d\n", (int)getpid());
    if (!reads(lower, "cgroup.procs", self))
        return 6;
    /* a group beside it has the controller's files now, and accepts a process */
    snprintf(beside, sizeof(beside), "%s/anyserve-worker", t->path);
    if (mkdir(beside, 0755) < 0)
        return 7;
    if (!reads(beside, "cgroup.controllers", t->controller))
        return 8;
    another = fork();
    if (another == 0)
        _exit(!write_to(beside, "cgroup.procs", "0"));
    waitpid(another, &e, 0);
    return e ? 9 : rmdir(beside) ? 10 : 0;
}

static void delegation_in_the_kernels_tree(void **state AS_UNUSED)
{
    struct real_tree t = make_real_tree();
    char lower[224], off[40];

    for (int with_another = 1; with_another >= 0; with_another--) {
        int status;
        pid_t pid = fork();

        if (pid == 0)
            _exit(delegate_for_real(&t, with_another));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    snprintf(lower, sizeof(lower), "%s/anyserve-server", t.path);
    assert_int_equal(rmdir(lower), 0);
    assert_int_equal(rmdir(t.path), 0);
    snprintf(off, sizeof(off), "-%s", t.controller);
    assert_true(t.was_on || write_to(t.mount, "cgroup.subtree_control", off));
}

#define LIMIT (32u << 20)

/* A real group; without permission the test is skipped. */
static struct as_cgroup real(const char *name)
{
    struct as_cgroup g = {.procs = -1};
    int e, rc = as_cgroup_open(&g, "", name, LIMIT, &e);

    if (rc == AS_EDENIED || rc == AS_ENOTFOUND) {
        print_message("no control group to be had here: %s\n", strerror(e));
        skip();
    }
    assert_int_equal(rc, 0);
    return g;
}

static struct as_proc start(const struct as_cgroup *g, const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct as_proc_spec spec = {
        .path = "sh", .argv = argv, .in = -1, .out = -1, .err = -1, .group = true, .cgroup = g};
    struct as_proc p;
    int e;

    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    return p;
}

/* The kernel does not report when its processes have ended: tries a bounded number of times. */
static void close_soon(struct as_cgroup *g)
{
    int rc = AS_EAGAIN;

    for (int i = 0; rc == AS_EAGAIN && i < 10000; i++) {
        rc = as_cgroup_close(g);
        sched_yield();
    }
    assert_int_equal(rc, 0);
}

static void only_the_child_over_its_limit_is_killed(void **state AS_UNUSED)
{
    struct as_cgroup g = real("greedy");
    char path[512];
    struct stat st;
    struct as_proc p;
    int status;

    assert_true(snprintf(path, sizeof(path), "%s", g.path) < (int)sizeof(path));
    p = start(&g,
              "x=$(head -c 4000000 /dev/zero | tr '\\0' x); "
              "while :; do x=$x$x; done"); /* a loop in the shell itself, so that the shell grows */
    status = as_proc_wait(&p);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_true(as_cgroup_oom_kills(&g) >= 1);
    close_soon(&g);
    assert_int_equal(stat(path, &st), -1);
}

static void a_child_within_its_limit_survives(void **state AS_UNUSED)
{
    struct as_cgroup g = real("modest");
    struct as_proc p = start(&g, "exit 7");
    int status = as_proc_wait(&p);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(as_cgroup_oom_kills(&g), 0);
    close_soon(&g);
}

/* A process that leaves its process group and session stays in the control group. */
static void closing_kills_what_the_child_left_behind(void **state AS_UNUSED)
{
    struct as_cgroup g = real("leaving");
    int out[2], status;
    const char *argv[] = {"sh", "-c", "setsid sleep 1000 & echo $!", NULL};
    struct as_proc_spec spec = {
        .path = "sh", .argv = argv, .in = -1, .err = -1, .group = true, .cgroup = &g};
    struct pollfd gone = {.events = POLLIN};
    struct as_proc p;
    char c;
    int e;

    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    spec.out = out[1];
    assert_int_equal(as_proc_spawn(&p, &spec, &e), 0);
    close(out[1]);
    status = as_proc_wait(&p);
    assert_int_equal(status, 0);
    close_soon(&g);
    /* the sleeping process had the pipe open */
    gone.fd = out[0];
    while (poll(&gone, 1, 10000) > 0 && read(out[0], &c, 1) > 0)
        ;
    assert_true(gone.revents & POLLHUP);
    close(out[0]);
}

#define PLAIN(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLAIN(v1_group_has_its_limit),
        PLAIN(an_invisible_group_is_the_mount),
        PLAIN(v2_delegates_when_alone_in_the_group),
        PLAIN(v2_does_not_move_other_processes),
        PLAIN(v2_leaves_groups_of_systemd_alone),
        PLAIN(v1_needs_no_delegation),
        PLAIN(check_changes_nothing),
        PLAIN(no_group_available),
        PLAIN(stale_groups_are_removed),
        PLAIN(stale_groups_beside_the_servers_are_removed),
        PLAIN(delegation_in_the_kernels_tree),
        cmocka_unit_test(only_the_child_over_its_limit_is_killed),
        cmocka_unit_test(a_child_within_its_limit_survives),
        cmocka_unit_test(closing_kills_what_the_child_left_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
