#include "io/process/cgroup.h"

#include "base/str.h"
#include "io/process/cgroup_place.h"
#include "io/process/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TEXT_BYTES   16384 /* more than any file that is read here */
#define PREFIX       "anyserve-"
#define SERVER_GROUP "/" PREFIX "server"          /* v2: the group of the server itself */
#define PATH_BYTES   ((size_t)2 * AS_CGROUP_PATH) /* of a mount and a group together */
#define FILE_BYTES   (PATH_BYTES + 384)           /* of a file in a group's folder */

/* File formats: cgroups(7); the kernel's admin-guide, cgroup-v1/memory and cgroup-v2. */

/* The folder of the group of a process (0: this one), or the mount's when the group is not visible
 * (in containers). False: see errno. */
static bool folder_of(const char *root, pid_t pid, char ret_path[PATH_BYTES], bool *ret_v2)
{
    struct as_cgroup_place own;
    const char *mount;
    struct stat st;

    errno = ENOENT;
    if (!as_cgroup_place_find(&own, root, pid, "memory"))
        return false;
    *ret_v2 = own.v2;
    mount = *ret_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    snprintf(ret_path, PATH_BYTES, "%s%s%s", root, mount, own.path);
    if (stat(ret_path, &st) == 0)
        return true;
    snprintf(ret_path, PATH_BYTES, "%s%s", root, mount);
    return stat(ret_path, &st) == 0;
}

/* The path of a file in a folder. False: it is too long, which never happens with our folders. */
static bool file_path(char ret_path[FILE_BYTES], const char *folder, const char *file)
{
    int n = snprintf(ret_path, FILE_BYTES, "%s/%s", folder, file);

    errno = ENAMETOOLONG;
    return n >= 0 && (size_t)n < FILE_BYTES;
}

/* Opens a file of a group's folder. O_CREAT is for tests: the kernel's folders have all files. */
static int open_for_write(const char *folder, const char *file)
{
    char path[FILE_BYTES];

    return file_path(path, folder, file) ? open(path, O_WRONLY | O_CLOEXEC | O_CREAT, 0600) : -1;
}

/* False: see errno. */
static bool write_file(const char *folder, const char *file, const char *text)
{
    int fd = open_for_write(folder, file), e;
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    e = errno;
    if (fd >= 0)
        close(fd);
    errno = e;
    return ok;
}

static bool file_has_word(const char *folder, const char *file, const char *word)
{
    char path[FILE_BYTES], text[TEXT_BYTES], *rest;

    if (!file_path(path, folder, file) || !as_proc_read_file(path, text, sizeof(text)))
        return false;
    for (char *w = strtok_r(text, " \n", &rest); w; w = strtok_r(NULL, " \n", &rest)) {
        if (strcmp(w, word) == 0)
            return true;
    }
    return false;
}

/* The folder in which groups are made. When the server has moved itself to its child group, that is
 * the group above it. */
static bool parent_folder(const char *root, pid_t pid, char ret_path[PATH_BYTES], bool *ret_v2)
{
    size_t n;

    if (!folder_of(root, pid, ret_path, ret_v2))
        return false;
    n = strlen(ret_path);
    if (*ret_v2 && n > strlen(SERVER_GROUP) &&
        strcmp(ret_path + n - strlen(SERVER_GROUP), SERVER_GROUP) == 0)
        ret_path[n - strlen(SERVER_GROUP)] = 0;
    return true;
}

/* Do groups below this one have the controller? False: see errno. */
static bool has_controller_below(const char *folder, const char *controller)
{
    if (file_has_word(folder, "cgroup.subtree_control", controller))
        return true;
    errno = file_has_word(folder, "cgroup.controllers", controller) ? EBUSY : ENOENT;
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n > k && strcmp(text + n - k, end) == 0;
}

static bool is_delegated(const char *folder, const char *mark)
{
    char value[2];

    return getxattr(folder, mark, value, sizeof(value)) == 1 && value[0] == '1';
}

/* Is it a group that systemd manages? A unit with Delegate= is marked by an extended attribute: by
 * the second name since version 251; only root sees the first one. */
static bool is_systemd_unit(const char *folder)
{
    return (ends_with(folder, ".service") || ends_with(folder, ".scope") ||
            ends_with(folder, ".slice")) &&
           !is_delegated(folder, "trusted.delegate") && !is_delegated(folder, "user.delegate");
}

static bool is_alone(const char *folder, pid_t pid)
{
    char path[FILE_BYTES], text[TEXT_BYTES], self[16];

    snprintf(self, sizeof(self), "%d\n", (int)pid);
    return file_path(path, folder, "cgroup.procs") && as_proc_read_file(path, text, sizeof(text)) &&
           strcmp(text, self) == 0;
}

static bool may_write(const char *folder, const char *file)
{
    char path[FILE_BYTES];

    return file_path(path, folder, file) && access(path, W_OK) == 0;
}

/* Moves this process to the child group and enables the controller for the groups below. False: see
 * errno. */
static bool move_to_child_group(const char *folder, const char *controller)
{
    char lower[FILE_BYTES], add[64];
    bool made;
    int e;

    snprintf(add, sizeof(add), "+%s", controller);
    if (!file_path(lower, folder, PREFIX "server"))
        return false;
    made = mkdir(lower, 0755) == 0;
    if (!made && errno != EEXIST)
        return false;
    if (write_file(lower, "cgroup.procs", "0") && write_file(folder, "cgroup.subtree_control", add))
        return true;
    e = errno;
    write_file(folder, "cgroup.procs", "0");
    if (made)
        rmdir(lower);
    errno = e;
    return false;
}

/* Without swap: it would only delay the end of a process that needs too much. Where swap is not
 * counted, there is no file for its limit. */
static bool set_limit(const struct as_cgroup *g, uint64_t bytes)
{
    char text[24], path[FILE_BYTES];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    if (g->v2) {
        return file_path(path, g->path, "memory.swap.max") &&
               write_file(g->path, "memory.max", text) &&
               write_file(g->path, "memory.oom.group", "1") &&
               (access(path, F_OK) < 0 || write_file(g->path, "memory.swap.max", "0"));
    }
    return file_path(path, g->path, "memory.memsw.limit_in_bytes") &&
           write_file(g->path, "memory.limit_in_bytes", text) &&
           (access(path, F_OK) < 0 || write_file(g->path, "memory.memsw.limit_in_bytes", text));
}

static int fail(int e, int *ret_errno)
{
    *ret_errno = e;
    return e == EACCES || e == EPERM || e == EROFS || e == EBUSY ? AS_EDENIED
           : e == ENOENT                                         ? AS_ENOTFOUND
                                                                 : AS_EIO;
}

/* Why has_controller_below failed, with errno `e`, and whether move_to_child_group could change
 * that. 0: it could; else an errno. */
static int check_delegation(const char *folder, int e, pid_t pid)
{
    if (e != EBUSY) /* the group itself does not have the controller */
        return e;
    if (is_systemd_unit(folder))
        return EPERM;
    if (!is_alone(folder, pid))
        return EBUSY;
    return may_write(folder, "cgroup.subtree_control") ? 0 : errno;
}

int as_cgroup_delegate(const char *root, const char *controller, int *ret_errno)
{
    char folder[PATH_BYTES];
    bool v2;
    int e;

    if (!parent_folder(root, 0, folder, &v2))
        return fail(errno, ret_errno);
    if (!v2 || has_controller_below(folder, controller))
        return 0;
    e = check_delegation(folder, errno, getpid());
    if (!e && !move_to_child_group(folder, controller))
        e = errno;
    return e ? fail(e, ret_errno) : 0;
}

int as_cgroup_check(const char *root, pid_t pid, bool *ret_v2, int *ret_errno)
{
    char folder[PATH_BYTES];
    int e = 0;

    if (!parent_folder(root, pid, folder, ret_v2))
        return fail(errno, ret_errno);
    if (*ret_v2 && !has_controller_below(folder, "memory"))
        e = check_delegation(folder, errno, pid);
    if (!e && access(folder, W_OK) < 0)
        e = errno;
    return e ? fail(e, ret_errno) : 0;
}

const char *as_cgroup_strerror(int e)
{
    switch (e) {
    case EBUSY:
        return "other processes are in the server's control group";
    case EPERM:
        return "its control group belongs to a systemd unit without Delegate=";
    case EACCES:
    case EROFS:
        return "its control group cannot be written to";
    case ENOENT:
        return "there is no control group that counts memory";
    default:
        return strerror(e);
    }
}

int as_cgroup_open(struct as_cgroup *ret_g, const char *root, const char *name, uint64_t bytes,
                   int *ret_errno)
{
    char parent[PATH_BYTES], path[PATH_BYTES + 256];
    struct as_cgroup g = {.procs = -1};
    int e;

    if (!parent_folder(root, 0, parent, &g.v2) || (g.v2 && !has_controller_below(parent, "memory")))
        return fail(errno, ret_errno);
    snprintf(path, sizeof(path), "%s/" PREFIX "%d-%.128s", parent, (int)getpid(), name);
    if (mkdir(path, 0755) < 0)
        return fail(errno, ret_errno);
    g.path = as_str_dup(as_str_of(path));
    if (set_limit(&g, bytes))
        g.procs = open_for_write(g.path, "cgroup.procs");
    if (g.procs < 0) {
        e = errno;
        as_cgroup_close(&g);
        return fail(e, ret_errno);
    }
    *ret_g = g;
    return 0;
}

/* The number behind `key` and a blank in a file of the group; 0 when there is none. */
static uint64_t read_number(const struct as_cgroup *g, const char *file, const char *key)
{
    char path[FILE_BYTES], text[TEXT_BYTES], *rest;
    size_t k = strlen(key);
    uint64_t v;

    if (!file_path(path, g->path, file) || !as_proc_read_file(path, text, sizeof(text)))
        return 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, key, k) == 0 && line[k] == ' ' &&
            as_str_u64(as_str_of(line + k + 1), &v) == 0)
            return v;
    }
    return 0;
}

uint64_t as_cgroup_oom_kills(const struct as_cgroup *g)
{
    if (!g->path)
        return 0;
    return read_number(g, g->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

/* Kills all processes of a group; up to eight times, since a process may fork meanwhile. */
static void kill_all(const char *folder)
{
    char path[FILE_BYTES], text[TEXT_BYTES], *rest;

    if (!file_path(path, folder, "cgroup.procs"))
        return;
    for (int turn = 0; turn < 8 && as_proc_read_file(path, text, sizeof(text)); turn++) {
        for (char *w = strtok_r(text, "\n", &rest); w; w = strtok_r(NULL, "\n", &rest)) {
            long pid = strtol(w, NULL, 10);

            if (pid > 1 && pid != getpid())
                kill((pid_t)pid, SIGKILL);
        }
    }
}

int as_cgroup_close(struct as_cgroup *g)
{
    if (!g->path)
        return 0;
    if (g->procs >= 0)
        close(g->procs);
    g->procs = -1;
    if (rmdir(g->path) < 0 && errno == EBUSY) {
        kill_all(g->path);
        if (rmdir(g->path) < 0 && errno == EBUSY)
            return AS_EAGAIN;
    }
    free(g->path); /* removed, or it cannot be removed: another try would fail in the same way */
    g->path = NULL;
    return 0;
}

void as_cgroup_remove_stale(const char *root)
{
    char parent[PATH_BYTES], path[FILE_BYTES];
    bool v2;
    struct dirent *e;
    DIR *d;

    if (!parent_folder(root, 0, parent, &v2))
        return;
    d = opendir(parent);
    while (d && (e = readdir(d))) {
        bool ours = strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0;
        long pid = ours ? strtol(e->d_name + strlen(PREFIX), NULL, 10) : 0;

        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
            continue;
        if (!file_path(path, parent, e->d_name))
            continue;
        kill_all(path); /* its server is dead, and its processes should be */
        rmdir(path);
    }
    if (d)
        closedir(d);
}
