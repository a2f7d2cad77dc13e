#include "io/socket/folder_socket.h"

#include "io/loop/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Removes the first segment from `rest` and returns it. */
static struct as_str next_segment(struct as_str *rest)
{
    const char *slash = memchr(rest->p, '/', rest->n);
    struct as_str s = {rest->p, slash ? (size_t)(slash - rest->p) : rest->n};
    size_t used = slash ? s.n + 1 : s.n;

    rest->p += used;
    rest->n -= used;
    return s;
}

static bool has_sound_segments(struct as_str rest)
{
    if (!rest.n || rest.p[rest.n - 1] == '/')
        return false;
    while (rest.n) {
        struct as_str s = next_segment(&rest);

        if (!s.n || as_str_eq(s, AS_STR(".")) || as_str_eq(s, AS_STR("..")))
            return false;
    }
    return true;
}

/* The part of `path` behind `folder` and a slash. False: it is not below the folder. */
static bool strip_folder(const char *folder, struct as_str path, struct as_str *ret_rest)
{
    size_t n = strlen(folder);

    while (n > 1 && folder[n - 1] == '/')
        n--;
    if (n == 0 || path.n <= n + 1 || memcmp(path.p, folder, n) != 0 || path.p[n] != '/')
        return false;
    *ret_rest = (struct as_str){path.p + n + 1, path.n - n - 1};
    return true;
}

int as_folder_socket_relative_path(const char *folder, struct as_str path, struct as_str *ret_rest,
                                   const char **ret_why)
{
    struct as_str rest;
    char *real;
    bool below;

    *ret_why = "not an absolute path";
    if (!path.n || path.p[0] != '/' || memchr(path.p, 0, path.n))
        return AS_EINVALID;
    *ret_why = "the path is too long";
    if (path.n > AS_FOLDER_SOCKET_PATH_MAX)
        return AS_EINVALID;
    *ret_why = "the path has an empty, '.' or '..' segment";
    if (!has_sound_segments((struct as_str){path.p + 1, path.n - 1}))
        return AS_EINVALID;
    *ret_why = "the socket is not below --worker-socket-dir";
    below = strip_folder(folder, path, &rest);
    if (!below) { /* the worker may use the folder's real path */
        real = realpath(folder, NULL);
        below = real && strip_folder(real, path, &rest);
        free(real);
    }
    if (!below)
        return AS_EDENIED;
    *ret_rest = rest;
    return 0;
}

static int try_openat2(int dir, const char *rest)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, dir, rest, &how, sizeof(how));
}

/* For kernels without openat2, and sandboxes that forbid it. */
static int open_by_segments(int dir, struct as_str rest)
{
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);

    while (at >= 0 && rest.n) {
        struct as_str s = next_segment(&rest);
        char name[AS_FOLDER_SOCKET_PATH_MAX + 1];
        int next, e;

        memcpy(name, s.p, s.n);
        name[s.n] = 0;
        next = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | (rest.n ? O_DIRECTORY : 0));
        e = errno;
        close(at);
        errno = e;
        at = next;
    }
    return at;
}

static int open_below(const char *folder, struct as_str rest)
{
    char path[AS_FOLDER_SOCKET_PATH_MAX + 1];
    int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC), fd, e;

    if (dir < 0)
        return -1;
    memcpy(path, rest.p, rest.n);
    path[rest.n] = 0;
    fd = try_openat2(dir, path);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = open_by_segments(dir, rest);
    e = errno;
    close(dir);
    errno = e;
    return fd;
}

static int denied(const char *why, const char **ret_why)
{
    *ret_why = why;
    return AS_EDENIED;
}

static int open_failed(int e, const char **ret_why)
{
    if (e == ELOOP || e == EXDEV || e == ENOTDIR)
        return denied("the path to the socket has a symlink or a part that is not a folder",
                      ret_why);
    if (e == EACCES)
        return denied("no permission to search a folder on the path to the socket", ret_why);
    *ret_why = "out of file descriptors";
    if (as_sock_is_starved(e))
        return AS_ENOMEM;
    *ret_why = "there is no socket of that name";
    return AS_EUNAVAILABLE;
}

static int check_socket(int path_fd, const char **ret_why)
{
    struct stat st;

    if (fstat(path_fd, &st) < 0 || S_ISLNK(st.st_mode))
        return denied("the path to the socket has a symlink or a part that is not a folder",
                      ret_why);
    if (!S_ISSOCK(st.st_mode))
        return denied("it is not a socket", ret_why);
    if (st.st_uid != geteuid())
        return denied("the socket belongs to another user", ret_why);
    return 0;
}

static int connect_failed(int e, const char **ret_why)
{
    *ret_why = "its backlog is full";
    if (e == EAGAIN)
        return AS_EAGAIN;
    if (e == EACCES || e == EPERM)
        return denied("no permission to write to the socket", ret_why);
    *ret_why = e == EPROTOTYPE ? "it is not a stream socket" : "nobody listens there";
    return e == EPROTOTYPE ? AS_EDENIED : AS_EUNAVAILABLE;
}

static int connect_to(int path_fd, int *ret_fd, uint32_t *ret_pid, const char **ret_why)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct ucred cred;
    socklen_t n = sizeof(cred);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

    *ret_why = "out of file descriptors";
    if (fd < 0)
        return AS_ENOMEM;
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d", path_fd);
    if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        err = connect_failed(errno, ret_why);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0 || cred.uid != geteuid()) {
        err = denied("a process of another user listens there", ret_why);
    } else {
        *ret_fd = fd;
        *ret_pid = (uint32_t)cred.pid;
        return 0;
    }
    close(fd);
    return err;
}

int as_folder_socket_connect(const char *folder, struct as_str rest, int *ret_fd, uint32_t *ret_pid,
                             const char **ret_why)
{
    int path_fd, err;

    AS_ASSERT(rest.n && rest.n <= AS_FOLDER_SOCKET_PATH_MAX);
    path_fd = open_below(folder, rest);
    if (path_fd < 0)
        return open_failed(errno, ret_why);
    err = check_socket(path_fd, ret_why);
    if (!err)
        err = connect_to(path_fd, ret_fd, ret_pid, ret_why);
    close(path_fd);
    return err;
}
