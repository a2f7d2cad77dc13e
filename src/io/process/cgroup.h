/* io/process/cgroup.h — a control group for a single child process, which limits its memory.
 *
 * The group is made below the server's own group, where that is permitted: as root, in a container
 * with a writable tree, in a systemd unit with Delegate=. It uses the memory controller of v1, else
 * of v2. The kernel kills a child that exceeds its limit, and no other process. In v2 only a group
 * without processes can have groups with a controller below it, so a server moves itself to a child
 * group ("anyserve-server") before it starts anything; the groups of its workers are beside that
 * one. `root` is put in front of every path: "" on a running system, a folder in tests.
 */
#ifndef AS_IO_CGROUP_H
#define AS_IO_CGROUP_H

#include "base/err.h"

#include <sys/types.h>

struct as_cgroup {
    char *path; /* of its folder; NULL: not open */
    bool v2;
    int procs; /* descriptor of its cgroup.procs, for as_proc_spec; -1: not open */
};

/* Prepares our group for groups with a limit below it; call it before a server starts its first
 * child. `controller`: "memory". v1, and a group that is prepared already, need nothing. A group
 * is changed only when we are its only process and systemd does not manage it. 0; AS_EDENIED: we
 * may not (EBUSY: other processes are in the group; EPERM: a systemd unit without Delegate=;
 * EACCES, EROFS); AS_ENOTFOUND: no such controller; AS_EIO. On an error nothing has changed. */
int as_cgroup_delegate(const char *root, const char *controller, int *ret_errno);
/* Can groups be made for the children of process `pid`, a server? For a process that is not a
 * server yet: would as_cgroup_delegate succeed? Changes nothing. 0, or an error as above. */
int as_cgroup_check(const char *root, pid_t pid, bool *ret_v2, int *ret_errno);
/* The text of *ret_errno, for messages. */
const char *as_cgroup_strerror(int e);

/* Makes a group with a limit of `bytes`. `name`: letters, digits, '.', '_', '-'; the folder's name
 * also has our pid. 0; AS_EDENIED, AS_ENOTFOUND: this system does not permit it, which is normal;
 * AS_EIO. On an error nothing is left behind, and *ret_errno says why. */
int as_cgroup_open(struct as_cgroup *ret_g, const char *root, const char *name, uint64_t bytes,
                   int *ret_errno);
/* How many of its processes the kernel has killed for exceeding the limit. */
uint64_t as_cgroup_oom_kills(const struct as_cgroup *g);
/* After its child was reaped: kills the processes that the child left behind, and removes the
 * folder. 0; AS_EAGAIN: a process in it is still ending, try again a little later. Harmless on a
 * group that is not open. */
int as_cgroup_close(struct as_cgroup *g);

/* Removes the groups that an earlier server left behind when it died; call it at the start. */
void as_cgroup_remove_stale(const char *root);

#endif
