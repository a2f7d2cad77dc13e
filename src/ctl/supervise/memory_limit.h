/* ctl/supervise/memory_limit.h — how much memory we may use, and whether somebody ran out of it.
 *
 * Read from the control group (v2, else v1) and from /proc. `root` is put before every path: "" on
 * a running system, a folder of sample files in tests.
 */
#ifndef AS_CTL_MEMORY_LIMIT_H
#define AS_CTL_MEMORY_LIMIT_H

#include "base/defs.h"

#include <sys/types.h>

/* Bytes: the smallest limit of our control group and those above it, else all memory of the
 * machine. 0 when nothing can be read. */
uint64_t as_memory_limit(const char *root);
/* The same of process `pid`, whose control group may be another one. */
uint64_t as_memory_limit_of(const char *root, pid_t pid);

/* Processes of our control group (where that is not known: of the machine) that the kernel ended
 * because memory was out. Only the growth between two calls means anything. */
uint64_t as_memory_limit_oom_kills(const char *root);

#endif
