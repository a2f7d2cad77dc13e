/* io/process/process_ancestry.h — what /proc tells of a process of this machine: its command, and
 * whom it descends from.
 *
 * A process that has ended is not there any more, and its number may be another one's soon: who
 * needs certainty asks at once. Any thread; blocking only as /proc is.
 */
#ifndef AS_IO_PROCESS_PROCESS_ANCESTRY_H
#define AS_IO_PROCESS_PROCESS_ANCESTRY_H

#include "base/defs.h"

#include <sys/types.h>

#define AS_PROCESS_ANCESTRY_COMMAND 32u /* bytes; the kernel's names have 16 */

/* The name of its program, as `ps -o comm` shows it. False: there is no such process, or it cannot
 * be seen. */
bool as_process_ancestry_command(pid_t pid, char ret_name[AS_PROCESS_ANCESTRY_COMMAND]);

/* 0: there is no such process, or it cannot be seen. */
pid_t as_process_ancestry_parent(pid_t pid);

/* Asks `matches` about pid, the leader of its group, and the same of its parent and of each one
 * above, the nearest first. The first for which that is true; 0: none. A process whose parents have
 * ended descends from nobody but its group. */
pid_t as_process_ancestry_find(pid_t pid, bool (*matches)(void *ctx, pid_t pid), void *ctx);

#endif
