#include "io/loop/prompt.h"

#include "base/err.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

int as_prompt_set_slice(as_ns slice)
{
    struct sched_attr a = {0};

    if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0)
        return AS_EUNIMPLEMENTED;
    if (a.sched_policy != SCHED_NORMAL && a.sched_policy != SCHED_BATCH)
        return AS_EUNIMPLEMENTED;
    a.sched_runtime = slice;
    if (syscall(SYS_sched_setattr, 0, &a, 0) < 0 ||
        syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0)
        return AS_EUNIMPLEMENTED;
    return !slice || a.sched_runtime == slice ? 0
                                              : AS_EUNIMPLEMENTED; /* an older kernel ignores it */
}
