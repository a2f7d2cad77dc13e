/* io/process/core_dump.h — a process that holds secrets leaves no core file of its memory.
 *
 * By the soft limit of core files, which becomes 1 byte: too small for a file, and the one value
 * with which the kernel does not start the program of a core_pattern that begins with '|' either
 * (fs/coredump.c; 0 would start it). PR_SET_DUMPABLE would also take /proc/PID from the process's
 * own user. Not for several threads at once.
 */
#ifndef AS_IO_CORE_DUMP_H
#define AS_IO_CORE_DUMP_H

#include <stdbool.h>

void as_core_dump_forbid(void);
/* Sets the limit back to what it was before as_core_dump_forbid, for a program that is to be
 * executed: as_proc_spawn does so in each child, since limits are inherited. System calls only.
 * False: it was not forbidden. */
bool as_core_dump_restore(void);

#endif
