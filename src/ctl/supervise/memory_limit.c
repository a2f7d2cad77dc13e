#include "ctl/supervise/memory_limit.h"

#include "base/str.h"
#include "io/process/cgroup.h"
#include "io/process/proc.h"

#include <string.h>

#define PATH_BYTES AS_CGROUP_PATH
#define FILE_BYTES 16384 /* more than any of these files has */

/* Formats: proc(5), cgroups(7); memory.max and memory.events of v2, memory.limit_in_bytes and
 * memory.oom_control of v1. */
struct group {
    char path[PATH_BYTES]; /* "/a/b"; "" for the root group */
    bool v2;
};

/* Reads the whole file; such files have no size. False: there is none, or it is empty. */
static bool read_small_file(const char *root, const char *path, char ret_text[FILE_BYTES])
{
    char full[PATH_BYTES];

    return snprintf(full, sizeof(full), "%s%s", root, path) < (int)sizeof(full) &&
           as_proc_read_file(full, ret_text, FILE_BYTES);
}

/* The number behind `key` at the start of a line, or of the whole text for key "". */
static bool number_of(const char *text, const char *key, uint64_t *ret_v)
{
    size_t k = strlen(key);

    for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
        const char *d = p + k;

        if (strncmp(p, key, k) != 0)
            continue;
        d += strspn(d, " \t");
        return as_str_u64((struct as_str){d, strspn(d, "0123456789")}, ret_v) == 0;
    }
    return false;
}

static bool find_group(const char *root, struct group *ret_g)
{
    return as_cgroup_of_self(root, ret_g->path, &ret_g->v2);
}

/* A file of the group or, where the group's folder is not visible (containers), of the mount. */
static bool group_file(const char *root, const struct group *g, const char *name,
                       char ret_text[FILE_BYTES])
{
    const char *mount = g->v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    char path[PATH_BYTES + 64];

    snprintf(path, sizeof(path), "%s%s/%s", mount, g->path, name);
    if (read_small_file(root, path, ret_text))
        return true;
    snprintf(path, sizeof(path), "%s/%s", mount, name);
    return read_small_file(root, path, ret_text);
}

/* g: NULL, without a group. Shortens its path, up to the root. */
static uint64_t limit_of(const char *root, struct group *g)
{
    char text[FILE_BYTES];
    uint64_t limit = UINT64_MAX, v;

    if (read_small_file(root, "/proc/meminfo", text) && number_of(text, "MemTotal:", &v))
        limit = v * 1024;
    if (g) {
        const char *name = g->v2 ? "memory.max" : "memory.limit_in_bytes";

        /* every ancestor's limit holds too: the smallest counts */
        for (;;) {
            char *slash = strrchr(g->path, '/');

            /* no limit: "max" in v2, which is no number; a huge number in v1 */
            if (group_file(root, g, name, text) && number_of(text, "", &v) && v > 0)
                limit = AS_MIN(limit, v);
            if (!slash)
                break;
            *slash = 0;
        }
    }
    return limit == UINT64_MAX ? 0 : limit;
}

uint64_t as_memory_limit(const char *root)
{
    struct group g;

    return limit_of(root, find_group(root, &g) ? &g : NULL);
}

uint64_t as_memory_limit_of(const char *root, pid_t pid)
{
    struct group g;

    return limit_of(root, as_cgroup_of_pid(root, pid, g.path, &g.v2) ? &g : NULL);
}

/* The counter of the whole machine may blame memory for an unrelated SIGKILL at the same moment.
 * The result is only a hint in a message. */
uint64_t as_memory_limit_oom_kills(const char *root)
{
    char text[FILE_BYTES];
    struct group g;
    uint64_t v = 0;

    if (find_group(root, &g) &&
        group_file(root, &g, g.v2 ? "memory.events" : "memory.oom_control", text) &&
        number_of(text, "oom_kill ", &v))
        return v;
    if (read_small_file(root, "/proc/vmstat", text) && number_of(text, "oom_kill ", &v))
        return v;
    return 0;
}
