#include "ctl/state/secret_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool is_our_group(gid_t gid)
{
    int n = getgroups(0, NULL);
    gid_t *groups = as_xalloc((size_t)AS_MAX(n, 1) * sizeof(*groups));
    bool found = gid == getegid();

    n = getgroups(n, groups);
    for (int i = 0; i < n && !found; i++)
        found = groups[i] == gid;
    free(groups);
    return found;
}

/* With an access control list the mode's group is its mask, and the list says who may read. */
static bool is_list_for_us(const uint8_t *list, size_t n, gid_t gid)
{
    struct posix_acl_xattr_entry e;
    bool valid = true;

    for (size_t at = sizeof(struct posix_acl_xattr_header); valid && at + sizeof(e) <= n;
         at += sizeof(e)) {
        uint32_t tag, id;

        memcpy(&e, list + at, sizeof(e));
        tag = le16toh(e.e_tag);
        id = le32toh(e.e_id);
        valid = !e.e_perm || tag == ACL_USER_OBJ || tag == ACL_MASK ||
                (tag == ACL_USER && id == geteuid()) ||
                (tag == ACL_GROUP_OBJ && is_our_group(gid)) ||
                (tag == ACL_GROUP && is_our_group(id));
    }
    return valid;
}

/* A server that is not root gets secrets of root's which the mode 0440 lets it read: a kubelet
 * gives a mounted Secret to the pod's fsGroup (Kubernetes, "Configure a Security Context"), and
 * systemd names the unit's user in an access control list (LoadCredential=). */
static bool is_for_us(int fd, const struct stat *st)
{
    uint8_t list[1024];
    ssize_t n;

    if (st->st_uid != 0 || geteuid() == 0 || (st->st_mode & 077) != S_IRGRP)
        return false;
    n = fgetxattr(fd, "system.posix_acl_access", list, sizeof(list));
    if (n >= 0)
        return is_list_for_us(list, (size_t)n, st->st_gid);
    return (errno == ENODATA || errno == EOPNOTSUPP) && is_our_group(st->st_gid);
}

/* By the open descriptor: the file that is checked is the one that is read. */
static int check_file(int fd, const char *path, const char *what, struct as_buf *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        as_buf_printf(err, "cannot look at the %s %s: %s", what, path, strerror(errno));
        return AS_EIO;
    }
    if (!S_ISREG(st.st_mode)) {
        as_buf_printf(err, "the %s %s is not a regular file", what, path);
        return AS_EINVALID;
    }
    if (st.st_uid != geteuid() && st.st_uid != 0) {
        as_buf_printf(err, "the %s %s belongs to user %u, not to this one", what, path,
                      (unsigned)st.st_uid);
        return AS_EDENIED;
    }
    if (st.st_mode & 077 && !is_for_us(fd, &st)) {
        as_buf_printf(
            err,
            "the %s %s may be used by others (mode %04o); make it private: "
            "chmod 600 %s (a file of root's may have mode 0440 for a server in its group)",
            what, path, (unsigned)(st.st_mode & 07777), path);
        return AS_EDENIED;
    }
    return 0;
}

int as_secret_file_open(const char *path, const char *what, int *ret_fd, struct as_buf *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc;

    if (fd < 0) {
        as_buf_printf(err, "cannot open the %s %s: %s", what, path, strerror(errno));
        return errno == ENOENT ? AS_ENOTFOUND : errno == EACCES ? AS_EDENIED : AS_EIO;
    }
    rc = check_file(fd, path, what, err);
    if (rc)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}
