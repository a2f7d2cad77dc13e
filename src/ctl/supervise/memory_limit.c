#include "ctl/supervise/memory_limit.h"

#include "base/str.h"
#include "io/process/cgroup_place.h"
#include "io/process/proc.h"

#include <string.h>

/* Formats of the files: proc(5), cgroups(7); memory.max and memory.events of v2,
 * memory.limit_in_bytes and memory.oom_control of v1. */
#define PATH_BYTES AS_CGROUP_PATH
#define FILE_BYTES 16384 /* more than any of these files has */

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

/* pid 0: this process. */
static uint64_t limit_of(const char *root, pid_t pid)
{
    char text[FILE_BYTES];
    uint64_t limit = UINT64_MAX, v;
    struct as_cgroup_place p;

    if (read_small_file(root, "/proc/meminfo", text) && number_of(text, "MemTotal:", &v))
        limit = v * 1024;
    if (as_cgroup_place_find(&p, root, pid, "memory")) {
        const char *name = p.v2 ? "memory.max" : "memory.limit_in_bytes";

        /* every ancestor's limit holds too: the smallest counts */
        do {
            /* no limit: "max" in v2, which is no number; a huge number in v1 */
            if (as_cgroup_place_read(&p, root, name, text, sizeof(text)) &&
                number_of(text, "", &v) && v > 0)
                limit = AS_MIN(limit, v);
        } while (as_cgroup_place_up(&p));
    }
    return limit == UINT64_MAX ? 0 : limit;
}

uint64_t as_memory_limit(const char *root)
{
    return limit_of(root, 0);
}

uint64_t as_memory_limit_of(const char *root, pid_t pid)
{
    return limit_of(root, pid);
}

/* The counter of the whole machine may blame memory for an unrelated SIGKILL at the same moment.
 * The result is only a hint in a message. */
uint64_t as_memory_limit_oom_kills(const char *root)
{
    char text[FILE_BYTES];
    struct as_cgroup_place p;
    uint64_t v = 0;

    if (as_cgroup_place_find(&p, root, 0, "memory") &&
        as_cgroup_place_read(&p, root, p.v2 ? "memory.events" : "memory.oom_control", text,
                             sizeof(text)) &&
        number_of(text, "oom_kill ", &v))
        return v;
    if (read_small_file(root, "/proc/vmstat", text) && number_of(text, "oom_kill ", &v))
        return v;
    return 0;
}
