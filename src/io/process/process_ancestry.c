#include "io/process/process_ancestry.h"

#include "io/process/proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARENTS_MAX 64 /* a bound, since the chain of parents may change while it is read */

/* Reads " state parent group …". */
static bool parse_state(const char *text, struct as_process_ancestry_stat *ret_s)
{
    char *end;

    if (text[0] != ' ' || !text[1] || text[2] != ' ')
        return false;
    ret_s->state = text[1];
    text += 3;
    ret_s->parent = (int)strtol(text, &end, 10);
    if (end == text || *end != ' ')
        return false;
    text = end + 1;
    ret_s->group = (int)strtol(text, &end, 10);
    return end != text;
}

/* Reads /proc/PID/stat: "PID (command) state parent group …". The command may have any character,
 * also a parenthesis. */
bool as_process_ancestry_read(pid_t pid, struct as_process_ancestry_stat *ret_s)
{
    char path[40], text[512], *open_at, *close_at;
    size_t len;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!as_proc_read_file(path, text, sizeof(text)))
        return false;
    open_at = strchr(text, '(');
    close_at = strrchr(text, ')');
    if (!open_at || !close_at || !parse_state(close_at + 1, ret_s))
        return false;
    len = AS_MIN((size_t)(close_at - open_at - 1), sizeof(ret_s->command) - 1);
    memcpy(ret_s->command, open_at + 1, len);
    ret_s->command[len] = 0;
    return true;
}

pid_t as_process_ancestry_parent(pid_t pid)
{
    struct as_process_ancestry_stat s;

    return as_process_ancestry_read(pid, &s) ? s.parent : 0;
}

pid_t as_process_ancestry_find(pid_t pid, bool (*matches)(void *ctx, pid_t pid), void *ctx)
{
    struct as_process_ancestry_stat s;

    for (int i = 0; i < PARENTS_MAX && pid > 0; i++) {
        if (matches(ctx, pid))
            return pid;
        if (!as_process_ancestry_read(pid, &s))
            return 0;
        if (s.group > 0 && s.group != pid && matches(ctx, s.group))
            return s.group;
        pid = s.parent;
    }
    return 0;
}
