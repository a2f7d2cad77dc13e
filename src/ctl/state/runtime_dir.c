#include "ctl/state/runtime_dir.h"

#include "ctl/message/replica_context.h"
#include "ctl/state/code_store.h"
#include "ctl/state/pickle_store.h"
#include "ctl/state/state_dir.h"
#include "ctl/state/store.h"
#include "io/random.h"
#include "io/socket/folder_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 100 /* to lock a folder that other servers make and remove */

/* Makes the folder if it is missing, and checks that it is ours. AS_ENOTFOUND: another server has
 * just removed it. In /tmp any user can make the folder before us: therefore type (lstat follows no
 * link), owner and mode are checked before anything is put into it. */
static int make_own_folder(const char *path, struct as_buf *err)
{
    struct stat st;

    if (mkdir(path, 0700) < 0 && errno != EEXIST) {
        as_buf_printf(err, "cannot make the runtime folder %s: %s", path, strerror(errno));
        return errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EIO;
    }
    if (lstat(path, &st) < 0) {
        bool gone = errno == ENOENT;

        as_buf_printf(err, "cannot look at the runtime folder %s: %s", path, strerror(errno));
        return gone ? AS_ENOTFOUND : AS_EIO;
    }
    if (!S_ISDIR(st.st_mode)) {
        as_buf_printf(err,
                      "the runtime folder %s is a %s; remove it or choose another --runtime-dir",
                      path, S_ISLNK(st.st_mode) ? "symbolic link" : "file");
        return AS_EDENIED;
    }
    if (st.st_uid != geteuid()) {
        as_buf_printf(err, "the runtime folder %s belongs to user %u; choose another --runtime-dir",
                      path, (unsigned)st.st_uid);
        return AS_EDENIED;
    }
    if ((st.st_mode & 07777) != 0700 && chmod(path, 0700) < 0) {
        as_buf_printf(err, "cannot make the runtime folder %s private: %s", path, strerror(errno));
        return AS_EIO;
    }
    return 0;
}

/* A server that ends removes its lock file: a lock on the removed file would exclude nobody. */
static bool is_removed(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

static void write_holder(const struct as_runtime_dir *d, struct as_buf *err)
{
    char path[AS_RUNTIME_PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/" AS_RUNTIME_LOCK, d->path);
    as_buf_printf(err, "another server holds %s", d->path);
    as_state_dir_put_holder(path, err);
}

/* 0; AS_EEXISTS: another process has the lock; AS_ENOTFOUND: another server has just removed file
 * or folder. */
static int acquire_lock(struct as_runtime_dir *d, struct as_buf *err)
{
    char pid[16];
    /* by the folder's descriptor: nobody can replace the folder in between */
    int dir = open(d->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), n, e;

    d->lock = dir < 0
                  ? -1
                  : openat(dir, AS_RUNTIME_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    e = errno;
    if (dir >= 0)
        close(dir);
    if (d->lock < 0) {
        as_buf_printf(err, "cannot open %s/" AS_RUNTIME_LOCK ": %s", d->path, strerror(e));
        return e == ENOENT ? AS_ENOTFOUND : AS_EIO;
    }
    e = flock(d->lock, LOCK_EX | LOCK_NB) < 0 ? errno : is_removed(d->lock) ? ENOENT : 0;
    if (e) {
        if (e == EWOULDBLOCK)
            write_holder(d, err);
        else
            as_buf_printf(err, "cannot lock %s/" AS_RUNTIME_LOCK ": %s", d->path, strerror(e));
        close(d->lock);
        d->lock = -1;
        return e == EWOULDBLOCK ? AS_EEXISTS : e == ENOENT ? AS_ENOTFOUND : AS_EIO;
    }
    /* for people, and for `anyserve upgrade` */
    n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(d->lock, 0) < 0 || write(d->lock, pid, (size_t)n) != n) {
        as_buf_printf(err, "cannot write %s/" AS_RUNTIME_LOCK ": %s", d->path, strerror(errno));
        return AS_EIO;
    }
    return 0;
}

/* Tries again when a server that ends removes folder or file in between. */
static int make_port_folder(struct as_runtime_dir *d, struct as_buf *err)
{
    size_t before = err->n;
    int rc = AS_ENOTFOUND;

    for (int i = 0; rc == AS_ENOTFOUND && i < TRIES; i++) {
        err->n = before;
        rc = make_own_folder(d->path, err);
        if (rc == 0)
            rc = acquire_lock(d, err);
    }
    return rc;
}

static void remove_file(const struct as_runtime_dir *d, const char *name)
{
    char path[AS_RUNTIME_PATH_MAX + 16]; /* the folder's own sockets fit, so does this */

    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    unlink(path);
}

/* Only if it is empty: workers that live may join the next server, so their sockets stay. */
static void remove_folder(const struct as_runtime_dir *d, const char *name)
{
    char path[AS_RUNTIME_PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    rmdir(path);
}

struct entry { /* of getdents64(2) */
    uint64_t ino, off;
    uint16_t len;
    uint8_t type;
    char name[];
};

/* Without opendir, which allocates memory: a process that must end at once may have none. */
static void remove_logs(const struct as_runtime_dir *d)
{
    char path[AS_RUNTIME_PATH_MAX + 16], part[4096] __attribute__((aligned(8)));
    long n;
    int fd;

    snprintf(path, sizeof(path), "%s/" AS_RUNTIME_LOGS, d->path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        close(STDIN_FILENO); /* it is not read any more */
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, part, sizeof(part))) > 0) {
        for (long at = 0; at < n;) {
            const struct entry *e = (const struct entry *)(const void *)(part + at);

            unlinkat(fd, e->name, 0);
            at += e->len;
        }
    }
    if (fd >= 0)
        close(fd);
    rmdir(path);
}

/* Copies of code and pickled code, of a server without --state-dir. */
static void remove_code(const struct as_runtime_dir *d)
{
    char path[AS_RUNTIME_PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/" AS_CODE_STORE_FOLDER, d->path);
    as_code_store_clear(path);
    snprintf(path, sizeof(path), "%s/" AS_PICKLE_STORE_FOLDER, d->path);
    as_code_store_clear(path);
}

static void remove_files(const struct as_runtime_dir *d)
{
    remove_logs(d);
    remove_code(d);
    remove_file(d, AS_RUNTIME_LINK);
    remove_file(d, AS_RUNTIME_STATUS);
    remove_file(d, AS_RUNTIME_MANAGE);
    remove_file(d, AS_RUNTIME_CONTROL);
    remove_file(d, AS_STORE_FILE);
    remove_file(d, AS_STORE_FILE "-wal");
    remove_file(d, AS_RUNTIME_TOKEN);
    remove_file(d, AS_RUNTIME_DRIVER);
    remove_file(d, AS_RUNTIME_UPGRADE);
    remove_file(d, AS_RUNTIME_UPGRADE ".new");
    remove_file(d, AS_RUNTIME_RELOAD);
    remove_file(d, AS_RUNTIME_RELOAD ".new");
    remove_file(d, AS_RUNTIME_RELOAD ".lock");
}

/* Removes sockets of workers that were killed. */
static void remove_dead_sockets(const struct as_runtime_dir *d)
{
    char folder[AS_RUNTIME_PATH_MAX + 16];
    struct dirent *e;
    uint32_t pid;
    DIR *dir;

    snprintf(folder, sizeof(folder), "%s/" AS_RUNTIME_WORKERS, d->path);
    dir = opendir(folder);
    while (dir && (e = readdir(dir))) {
        const char *why;
        int fd;

        if (e->d_type != DT_SOCK)
            continue;
        switch (as_folder_socket_connect(folder, as_str_of(e->d_name), &fd, &pid, &why)) {
        case 0:
            close(fd);
            break;
        case AS_EUNAVAILABLE:
            unlinkat(dirfd(dir), e->d_name, 0);
            break;
        default: /* unknown whether it is dead */
            break;
        }
    }
    if (dir)
        closedir(dir);
}

/* Removes contexts that replicas did not read before they were killed. */
static void remove_contexts(const struct as_runtime_dir *d)
{
    struct dirent *e;
    DIR *dir = opendir(d->path);

    while (dir && (e = readdir(dir))) {
        if (strncmp(e->d_name, AS_REPLICA_CONTEXT_PREFIX, strlen(AS_REPLICA_CONTEXT_PREFIX)) == 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static int make_logs(const struct as_runtime_dir *d, struct as_buf *err)
{
    char path[AS_RUNTIME_PATH_MAX + 16];

    snprintf(path, sizeof(path), "%s/" AS_RUNTIME_LOGS, d->path);
    return make_own_folder(path, err);
}

int as_runtime_dir_open(struct as_runtime_dir *d, const char *base, uint16_t port,
                        struct as_buf *err)
{
    char probe[AS_RUNTIME_PATH_MAX];
    int rc;

    *d = (struct as_runtime_dir){.lock = -1};
    if (strlen(base) > AS_RUNTIME_BASE_MAX ||
        as_runtime_path(probe, base, port, AS_RUNTIME_MANAGE) < 0) {
        as_buf_printf(err,
                      "the runtime folder %s/%u is too long a path for a socket; choose a "
                      "shorter --runtime-dir",
                      base, port);
        return AS_EINVALID;
    }
    d->base = as_str_dup(as_str_of(base));
    d->path = as_str_format("%s/%u", base, port);
    /* the folder above first: a private folder in another user's folder is not private */
    rc = make_own_folder(d->base, err);
    if (rc == 0)
        rc = make_port_folder(d, err);
    if (rc < 0) {
        as_runtime_dir_close(d);
        return rc == AS_ENOTFOUND ? AS_EIO : rc;
    }
    remove_contexts(d);
    remove_files(d);
    rc = make_logs(d, err);
    if (rc < 0)
        as_runtime_dir_close(d);
    return rc;
}

int as_runtime_dir_workers(const struct as_runtime_dir *d, const char *option, char **ret_path,
                           struct as_buf *err)
{
    char *own = option[0] ? NULL : as_str_format("%s/" AS_RUNTIME_WORKERS, d->path);
    const char *at = own ? own : option;
    int rc = 0;

    if (own) {
        rc = make_own_folder(own, err);
        if (rc == 0)
            remove_dead_sockets(d);
    } else if (mkdir(at, 0700) < 0 && errno != EEXIST) {
        as_buf_printf(err, "cannot make --worker-socket-dir %s: %s", at, strerror(errno));
        rc = AS_EIO;
    }
    if (rc == 0)
        rc = as_state_dir_check(at, "--worker-socket-dir", ", not to this one", err);
    if (rc == 0) {
        *ret_path =
            realpath(at, NULL); /* absolute: other processes have other working directories */
        if (!*ret_path) {
            as_buf_printf(err, "cannot find %s: %s", at, strerror(errno));
            rc = AS_EIO;
        }
    }
    free(own);
    return rc;
}

void as_runtime_dir_remove(const struct as_runtime_dir *d)
{
    remove_files(d);
    remove_folder(d, AS_RUNTIME_WORKERS);
    remove_file(d, AS_RUNTIME_LOCK); /* last: afterwards the next server may lock the folder */
    rmdir(d->path);
}

void as_runtime_dir_on_fatal(void *dir)
{
    const struct as_runtime_dir *d = dir;

    if (d->lock >= 0)
        as_runtime_dir_remove(d);
}

void as_runtime_dir_close(struct as_runtime_dir *d)
{
    if (d->lock >= 0) {
        remove_dead_sockets(d);
        remove_contexts(d);
        as_runtime_dir_remove(d);
        close(d->lock);
    }
    free(d->base);
    free(d->path);
    *d = (struct as_runtime_dir){.lock = -1};
}

static int write_token(const struct as_runtime_dir *d, const char *name, struct as_buf *err)
{
    char token[AS_RUNTIME_TOKEN_LEN + 1], path[4096];
    int fd;
    bool ok;

    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    as_random_hex(token, AS_RUNTIME_TOKEN_LEN / 2);
    /* O_EXCL: an old file was removed under the lock; one that is there now is not ours */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ok = fd >= 0 && write(fd, token, AS_RUNTIME_TOKEN_LEN) == AS_RUNTIME_TOKEN_LEN;
    if (!ok)
        as_buf_printf(err, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok ? 0 : AS_EIO;
}

int as_runtime_dir_write_token(const struct as_runtime_dir *d, struct as_buf *err)
{
    int rc = write_token(d, AS_RUNTIME_TOKEN, err);

    return rc ? rc : write_token(d, AS_RUNTIME_DRIVER, err);
}
