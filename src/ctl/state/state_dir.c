#include "ctl/state/state_dir.h"

#include "io/process/resource_holder.h"
#include "io/process/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

char *as_state_dir_path(const char *option)
{
    const char *home = getenv("HOME");
    char *own = home && home[0] == '/' ? as_str_format("%s/.local/state/anyserve", home) : NULL;
    char *folder = as_runtime_xdg_folder(option, "XDG_STATE_HOME", "/var/lib/anyserve", own);

    free(own);
    return folder;
}

/* Also the folders above it, each 0700 (XDG base directory specification). */
static int make_state_folder(const char *folder, struct as_buf *err)
{
    char *path = as_str_dup(as_str_of(folder)), *p = path;
    int rc = 0;

    while (rc == 0 && p) {
        p = strchr(p + 1, '/');
        if (p)
            *p = 0;
        if (mkdir(path, 0700) < 0 && errno != EEXIST) {
            as_buf_printf(err, "cannot make the state folder %s: %s", path, strerror(errno));
            rc = errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EIO;
        }
        if (p)
            *p = '/';
    }
    free(path);
    return rc;
}

int as_state_dir_check(const char *path, const char *what, const char *advice, struct as_buf *err)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        as_buf_printf(err, "cannot look at %s %s: %s", what, path, strerror(errno));
        return AS_EIO;
    }
    if (!S_ISDIR(st.st_mode))
        as_buf_printf(err, "%s %s is not a folder", what, path);
    else if (st.st_uid != geteuid())
        as_buf_printf(err, "%s %s belongs to user %u%s", what, path, (unsigned)st.st_uid, advice);
    else if (st.st_mode & 022)
        as_buf_printf(err, "others may write to %s %s (mode %04o); make it private: chmod 700 %s",
                      what, path, (unsigned)(st.st_mode & 07777), path);
    else
        return 0;
    return AS_EDENIED;
}

int as_state_dir_make(const char *folder, struct as_buf *err)
{
    int rc = make_state_folder(folder, err);

    /* whoever can write there decides what code this user runs */
    return rc == 0
               ? as_state_dir_check(folder, "the state folder", "; choose another --state-dir", err)
               : rc;
}

void as_state_dir_put_holder(const char *file, struct as_buf *err)
{
    struct as_resource_holder h;

    if (as_resource_holder_of_file(&h, file) && h.is_server) {
        as_buf_printf(err, ": the one on port %u (", h.port);
        as_resource_holder_write(&h, err);
        as_buf_str(err, ")");
    }
}

void as_state_dir_describe_holder(const char *what, const char *file, struct as_buf *err)
{
    as_buf_printf(err, "another server uses %s", what);
    as_state_dir_put_holder(file, err);
    as_buf_str(err, "; choose another --state-dir");
}

int as_state_dir_lock(const char *folder, int *ret_fd, struct as_buf *err)
{
    int rc = as_state_dir_make(folder, err), fd, e = 0;
    char *path;

    if (rc < 0)
        return rc;
    path = as_str_format("%s/" AS_STATE_DIR_LOCK, folder);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        e = errno;
    if (!e) {
        *ret_fd = fd;
    } else if (fd >= 0 && e == EWOULDBLOCK) {
        as_state_dir_describe_holder(folder, path, err);
        rc = AS_EEXISTS;
    } else {
        as_buf_printf(err, "cannot lock %s: %s", path, strerror(e));
        rc = e == EACCES || e == EPERM ? AS_EDENIED : AS_EIO;
    }
    if (rc < 0 && fd >= 0)
        close(fd);
    free(path);
    return rc;
}
