/* io/process/cgroup_place.h — reads the files of the control group that a process is in.
 *
 * A limit of a group holds for the groups below it, so whoever asks for the limit of a process
 * goes from its group up to the topmost one. In a container the path of the group is often not
 * visible: then the file is read at the mount, which shows the container's own group. `root` is
 * put in front of every path: "" on a running system, a folder of sample files in tests. Blocking
 * calls. File formats: cgroups(7); the kernel's admin-guide, cgroup-v1 and cgroup-v2.
 */
#ifndef AS_IO_CGROUP_PLACE_H
#define AS_IO_CGROUP_PLACE_H

#include "base/defs.h"

#include <sys/types.h>

#define AS_CGROUP_PATH 4096u

struct as_cgroup_place {
    char path[AS_CGROUP_PATH]; /* of the group: "/a/b", or "" for the topmost one */
    char controller[16];       /* "memory", "cpu" */
    bool v2;                   /* the group is one of version 2 */
};

/* The group of process `pid` (0: this one) in the hierarchy that has the controller. Version 1 is
 * preferred, since version 2 does not have a controller that version 1 has mounted. False: there
 * is none. */
bool as_cgroup_place_find(struct as_cgroup_place *ret_p, const char *root, pid_t pid,
                          const char *controller);
/* Reads a file of the group, or of the mount where the group is not visible: at most cap - 1 bytes
 * and a NUL. False: there is none, or it is empty. */
bool as_cgroup_place_read(const struct as_cgroup_place *p, const char *root, const char *name,
                          char *ret_text, size_t cap);
/* Goes to the group above. False: there is none, and nothing has changed. */
bool as_cgroup_place_up(struct as_cgroup_place *p);

#endif
