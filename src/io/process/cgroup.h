/* io/process/cgroup.h — a control group of its own for one child, which bounds its memory.
 *
 * Below our own group, where we may make one (root, a container with a writable tree, a systemd
 * unit with Delegate=): v1's memory controller, else v2. A child that takes more than its limit is
 * ended by the kernel, alone. v2 gives a controller only to groups below one that has no processes
 * of its own, so a server moves one down ("anyserve-server") before it starts anything, and its
 * workers' groups are beside it. `root` is put before every path: "" on a running system, a folder
 * in tests.
 */
#ifndef AS_IO_PROCESS_CGROUP_H
#define AS_IO_PROCESS_CGROUP_H

#include "base/err.h"

#include <sys/types.h>

#define AS_CGROUP_PATH 4096u

struct as_cgroup {
    char *path; /* of the folder; NULL: none */
    bool v2;
    int procs; /* its cgroup.procs, for as_proc_spec; -1 */
};

/* Our own group that counts memory: "/a/b", or "" for the topmost. v1 wins over v2, which exists
 * without a memory controller on mixed systems. False: there is none. */
bool as_cgroup_of_self(const char *root, char ret_path[AS_CGROUP_PATH], bool *ret_v2);
/* Likewise of process `pid`. */
bool as_cgroup_of_pid(const char *root, pid_t pid, char ret_path[AS_CGROUP_PATH], bool *ret_v2);

/* Before the first child of a server: makes our group fit to have groups below it that are bounded.
 * `controller`: "memory". v1, and a group that is fit already, need nothing. Only a group where we
 * are the only process is changed, and none of systemd's that is not delegated. 0; AS_EDENIED: it
 * is not ours (EBUSY: others are in it; EPERM: a unit without Delegate=; EACCES, EROFS);
 * AS_ENOTFOUND: no controller; AS_EIO. Nothing has changed then. */
int as_cgroup_delegate(const char *root, const char *controller, int *ret_errno);
/* Could groups be made for children of process `pid`, a server? Of one that has not begun, where
 * as_cgroup_delegate would succeed. Changes nothing. 0, or as above. */
int as_cgroup_check(const char *root, pid_t pid, bool *ret_v2, int *ret_errno);
/* What *ret_errno means, for people. */
const char *as_cgroup_strerror(int e);

/* A new group, its limit set. `name`: letters, digits, '.', '_', '-'; the folder's name holds our
 * pid too. 0; AS_EDENIED, AS_ENOTFOUND: there is none to be had here, which is no fault of anybody;
 * AS_EIO. Nothing is left behind then, and *ret_errno says why. */
int as_cgroup_open(struct as_cgroup *ret_g, const char *root, const char *name, uint64_t bytes,
                   int *ret_errno);
/* How many of its processes the kernel ended because the memory was out. */
uint64_t as_cgroup_oom_kills(const struct as_cgroup *g);
/* After its child was reaped: kills what the child left behind, and removes the folder. 0;
 * AS_EAGAIN: something still dies in there, ask again a little later. Harmless on a group that is
 * not open. */
int as_cgroup_close(struct as_cgroup *g);

/* Removes groups that a process of ours left which is not there any more; at our start. */
void as_cgroup_remove_stale(const char *root);

#endif
