/* io/process/process_ancestry.h — the command of a process, its state and its ancestors, from
 * /proc.
 *
 * The number of a process that has ended may soon belong to another one: ask as early as possible.
 * Any thread; does not block, apart from reading /proc.
 */
#ifndef AS_IO_PROCESS_ANCESTRY_H
#define AS_IO_PROCESS_ANCESTRY_H

#include "base/defs.h"

#include <sys/types.h>

#define AS_PROCESS_ANCESTRY_COMMAND 32u /* bytes; the kernel's names have 16 */

struct as_process_ancestry_stat {
    char command[AS_PROCESS_ANCESTRY_COMMAND]; /* as `ps -o comm` shows it */
    char state;                                /* as in proc(5): 'T' and 't' are stopped */
    pid_t parent, group;
};
/* False: no such process is visible. */
bool as_process_ancestry_read(pid_t pid, struct as_process_ancestry_stat *ret_s);

/* The parent of a process. 0: no such process is visible. */
pid_t as_process_ancestry_parent(pid_t pid);

/* The first process for which `matches` is true: pid, the leader of its group, then the same for
 * its parent and for each ancestor above. 0: none. When its parents have ended, only its group
 * leader is left. */
pid_t as_process_ancestry_find(pid_t pid, bool (*matches)(void *ctx, pid_t pid), void *ctx);

#endif
