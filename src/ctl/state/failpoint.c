#include "ctl/state/failpoint.h"

#include "io/process/proc.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define ARMED_MAX 64

void as_failpoint(const char *point)
{
    static char before[ARMED_MAX]; /* the text since which `passes` counts */
    static unsigned long passes;
    const char *file = getenv("ANYSERVE_FAILPOINT"), *colon;
    char armed[ARMED_MAX], *end;

    if (!file || !file[0] || !as_proc_read_file(file, armed, sizeof(armed)))
        return;
    if (strcmp(armed, before) != 0) {
        memcpy(before, armed, sizeof(before));
        passes = 0;
    }
    colon = strchr(armed, ':');
    if (!colon || strlen(point) != (size_t)(colon - armed) ||
        memcmp(point, armed, (size_t)(colon - armed)) != 0)
        return;
    if (++passes < strtoul(colon + 1, &end, 10))
        return;
    unlink(file);
    raise(strncmp(end, ":stop", 5) == 0 ? SIGSTOP : SIGKILL);
}

void as_failpoint_at(const char *when, enum as_ctl_type type)
{
    char point[ARMED_MAX];

    snprintf(point, sizeof(point), "%s-%s", when, as_ctl_type_name(type));
    as_failpoint(point);
}

void as_failpoint_list(struct as_buf *b)
{
    for (int t = AS_CTL_NONE + 1; t < AS_CTL_TYPES; t++) {
        const char *name = as_ctl_type_name((enum as_ctl_type)t);

        if (as_ctl_senders((enum as_ctl_type)t) & AS_CTL_C)
            as_buf_printf(b, "say-%s\nsaid-%s\n", name, name);
        else if (as_ctl_receivers((enum as_ctl_type)t) & AS_CTL_C)
            as_buf_printf(b, "hear-%s\nheard-%s\n", name, name);
    }
    as_buf_str(b, "store\nstored\n");
}
