/* ctl/supervise/launch.h — starts one worker process as its SPAWN text says.
 *
 * Makes pipes, control group and limits; ctl/supervise/process watches the process from then on.
 * Used for replicas (ctl/supervise/workers) and for spares (ctl/supervise/spares). Thread: the
 * loop's.
 */
#ifndef AS_CTL_LAUNCH_H
#define AS_CTL_LAUNCH_H

#include "base/log.h"
#include "ctl/message/spawn.h"
#include "ctl/supervise/process.h"

struct as_launcher {
    struct as_loop *loop;
    const struct as_log *log;
    uint64_t *oom_seen; /* ctl/supervise/process.h */
    bool terminal; /* --debug: workers get our standard streams and our process group, which is the
                      terminal's foreground group */
    uint32_t groups; /* control groups opened so far; part of their names */
    /* that memory is bounded by a control group, or by a limit, was logged */
    bool group_logged, limit_logged;
};

/* name: for logs. in: its standard input (-1: /dev/null); stays the caller's. 0, or AS_E… with a
 * line in `err`. */
int as_launch(struct as_launcher *l, const char *name, const struct as_spawn *s, int in,
              const struct as_process_ops *ops, void *ctx, struct as_process **ret_p,
              struct as_buf *err);

#endif
