/* ctl/supervise/launch.h — the start of one worker process, as its SPAWN says.
 *
 * Pipes, control group and limits of a process that ctl/supervise/process then watches. Used for replicas
 * (ctl/supervise/workers) and for those that wait to be one (ctl/supervise/spares). Thread: the loop's.
 */
#ifndef AS_CTL_LAUNCH_H
#define AS_CTL_LAUNCH_H

#include "base/log.h"
#include "ctl/supervise/process.h"
#include "ctl/message/spawn.h"

struct as_launcher {
    struct as_loop *loop;
    const struct as_log *log;
    uint64_t *oom_seen;          /* ctl/supervise/process.h */
    bool terminal;               /* it has our input and output, and our process group: the one that
                                    the terminal listens to */
    uint32_t groups;             /* control groups that were opened: their names' numbers */
    bool told_group, told_limit; /* that a worker's memory is bounded in this way was logged */
};

/* name: for people. in: becomes its standard input, stays the caller's; -1: /dev/null. 0; else the
 * reason, a line, is appended to `err`. */
int as_launch(struct as_launcher *l, const char *name, const struct as_spawn *s, int in,
              const struct as_process_ops *ops, void *ctx, struct as_process **ret_p,
              struct as_buf *err);

#endif
