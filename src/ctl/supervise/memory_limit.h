/* ctl/supervise/memory_limit.h — how much memory we may use, and whether the kernel killed a
 * process for lack of it.
 *
 * Read from the control group (v2, else v1) and from /proc. `root` is put before every path: "" on
 * a running system, a folder of sample files in tests. Blocking calls.
 */
#ifndef AS_CTL_MEMORY_LIMIT_H
#define AS_CTL_MEMORY_LIMIT_H

#include "base/defs.h"

#include <sys/types.h>

/* Bytes: the smallest limit of our control group and those above it, else the memory of the
 * machine. 0: unknown. */
uint64_t as_memory_limit(const char *root);
/* The same for process `pid`, which may be in another control group. */
uint64_t as_memory_limit_of(const char *root, pid_t pid);

/* A counter of processes that the kernel killed for lack of memory: in our control group or, if
 * that is not known, on the machine. Only its growth between two calls is meaningful. */
uint64_t as_memory_limit_oom_kills(const char *root);

#endif
