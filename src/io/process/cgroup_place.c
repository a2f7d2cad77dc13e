#include "io/process/cgroup_place.h"

#include "io/process/proc.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 16384 /* more than /proc/PID/cgroup has */

/* Is `word` one of the names, which commas separate ("cpu,cpuacct")? */
static bool has_name(const char *names, const char *word)
{
    size_t n = strlen(word);

    while (names) {
        if (strncmp(names, word, n) == 0 && (names[n] == 0 || names[n] == ','))
            return true;
        names = strchr(names, ',');
        names += names ? 1 : 0;
    }
    return false;
}

bool as_cgroup_place_find(struct as_cgroup_place *ret_p, const char *root, pid_t pid,
                          const char *controller)
{
    char text[TEXT_BYTES], file[AS_CGROUP_PATH], process[16] = "self", *rest;
    bool found = false;

    if (pid)
        snprintf(process, sizeof(process), "%d", (int)pid);
    snprintf(file, sizeof(file), "%s/proc/%s/cgroup", root, process);
    if (!as_proc_read_file(file, text, sizeof(text)))
        return false;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = 0;
        if (has_name(names + 1, controller) || (!found && strcmp(line, "0:") == 0)) {
            ret_p->v2 = names[1] == 0;
            snprintf(ret_p->path, sizeof(ret_p->path), "%s", strcmp(path, "/") ? path : "");
            snprintf(ret_p->controller, sizeof(ret_p->controller), "%s", controller);
            found = true;
            if (!ret_p->v2)
                break;
        }
    }
    return found;
}

bool as_cgroup_place_read(const struct as_cgroup_place *p, const char *root, const char *name,
                          char *ret_text, size_t cap)
{
    const char *at[] = {p->path, ""};
    char path[2 * AS_CGROUP_PATH];

    for (size_t i = 0; i < AS_COUNT(at); i++) {
        int n = snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s%s/%s", root, p->v2 ? "" : "/",
                         p->v2 ? "" : p->controller, at[i], name);

        if (n >= 0 && (size_t)n < sizeof(path) && as_proc_read_file(path, ret_text, cap))
            return true;
    }
    return false;
}

bool as_cgroup_place_up(struct as_cgroup_place *p)
{
    char *slash = strrchr(p->path, '/');

    if (slash)
        *slash = 0;
    return slash != NULL;
}
