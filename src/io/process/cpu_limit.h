/* io/process/cpu_limit.h — how many CPUs a process may use.
 *
 * Two things limit that: the CPUs that the process may run on (sched_getaffinity, which a cpuset
 * of its control group changes too), and the CPU time that its control group gets in each period
 * (cpu.max of version 2, cpu.cfs_quota_us of version 1), which is what a container's --cpus and a
 * pod's limits.cpu set. `root` is put in front of every path: "" on a running system, a folder of
 * sample files in tests. Blocking calls.
 */
#ifndef AS_IO_CPU_LIMIT_H
#define AS_IO_CPU_LIMIT_H

#include "base/defs.h"

#include <sys/types.h>

/* Thousandths of a CPU: the smallest quota of the control group of process `pid` (0: this one) and
 * of those above it, at least 1. 0: there is none. */
uint64_t as_cpu_limit_quota(const char *root, pid_t pid);
/* How many CPUs it may run on, whatever the quota is: at least 1. */
uint32_t as_cpu_limit_affinity(pid_t pid);
/* Of this process, whole CPUs: those that it may run on, or the quota, rounded up, where that is
 * smaller. */
uint32_t as_cpu_limit(const char *root);

#endif
