#include "ctl/state/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (st.st_mode & 077) {
        as_buf_printf(err,
                      "the %s %s may be used by others (mode %04o); make it private: "
                      "chmod 600 %s",
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
