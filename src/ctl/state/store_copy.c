/* Opens a copy of a store that another process may have open and write to. */
#include "ctl/state/state_dir.h"
#include "ctl/state/store_internal.h"
#include "io/loop/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define COPY_FOLDER "upgrade-check" /* inside the store's folder, where only we may write */
#define COPY_TRIES  100u            /* attempts, QUIET_TIME apart */
/* File times are exact to 10 ms or better: a file that was written longer ago than this, and whose
 * time is the same after the copy, was not written to in between. */
#define QUIET_TIME (20 * AS_MS)

/* The database, and its WAL, with what is not in the database yet. */
static const char *const names[] = {AS_STORE_FILE, AS_STORE_FILE "-wal"};
#define FILES AS_COUNT(names)

struct file_states {
    struct stat st[FILES];
    bool there[FILES];
};

static void stat_files(const char *folder, struct file_states *ret_l)
{
    *ret_l = (struct file_states){0};
    for (size_t i = 0; i < FILES; i++) {
        char *path = as_str_format("%s/%s", folder, names[i]);

        ret_l->there[i] = stat(path, &ret_l->st[i]) == 0;
        free(path);
    }
}

static bool is_quiet(const struct file_states *l)
{
    as_ns now = as_clock_read(CLOCK_REALTIME);

    for (size_t i = 0; i < FILES; i++) {
        as_ns written = l->there[i] ? as_timespec_ns(&l->st[i].st_mtim) : 0;

        if (written + QUIET_TIME > now && written <= now)
            return false;
    }
    return true;
}

static bool is_same(const struct file_states *a, const struct file_states *b)
{
    for (size_t i = 0; i < FILES; i++) {
        if (a->there[i] != b->there[i] || a->st[i].st_ino != b->st[i].st_ino ||
            a->st[i].st_size != b->st[i].st_size ||
            as_timespec_ns(&a->st[i].st_mtim) != as_timespec_ns(&b->st[i].st_mtim))
            return false;
    }
    return true;
}

static int write_error(const char *what, const char *path, struct as_buf *err)
{
    int rc = errno == EACCES || errno == EPERM ? AS_EDENIED : AS_EIO;

    as_buf_printf(err, "cannot %s %s: %s", what, path, strerror(errno));
    return rc;
}

static int copy_bytes(int in, int out, const char *from, const char *to, struct as_buf *err)
{
    char part[65536];
    ssize_t n;

    while ((n = read(in, part, sizeof(part))) > 0) {
        for (ssize_t at = 0, k; at < n; at += k) {
            k = write(out, part + at, (size_t)(n - at));
            if (k < 0)
                return write_error("write", to, err);
        }
    }
    return n < 0 ? write_error("read", from, err) : 0;
}

static int copy_file(const char *from, const char *to, struct as_buf *err)
{
    int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out, rc;

    if (in < 0)
        return write_error("read", from, err);
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    rc = out < 0 ? write_error("write", to, err) : copy_bytes(in, out, from, to, err);
    close(in);
    if (out >= 0)
        close(out);
    return rc;
}

static void remove_copy(const char *folder)
{
    static const char *const all[] = {AS_STORE_FILE, AS_STORE_FILE "-wal", AS_STORE_FILE "-shm",
                                      AS_STORE_FILE "-journal"};

    for (size_t i = 0; i < AS_COUNT(all); i++) {
        char *path = as_str_format("%s/%s", folder, all[i]);

        unlink(path);
        free(path);
    }
    rmdir(folder);
}

static int copy_once(const char *from, const char *to, const struct file_states *l,
                     struct as_buf *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < FILES; i++) {
        char *a = as_str_format("%s/%s", from, names[i]), *b = as_str_format("%s/%s", to, names[i]);

        if (l->there[i])
            rc = copy_file(a, b, err);
        else
            unlink(b);
        free(a);
        free(b);
    }
    return rc;
}

/* Copies both files as they were at one moment. */
static int copy_store(const char *from, const char *to, struct as_buf *err)
{
    for (uint32_t i = 0; i < COPY_TRIES; i++) {
        struct file_states before, after;
        size_t err_len = err->n;
        int rc;

        stat_files(from, &before);
        if (!before.there[0])
            return AS_ENOTFOUND;
        rc = is_quiet(&before) ? copy_once(from, to, &before, err) : AS_EAGAIN;
        stat_files(from, &after);
        if (rc != AS_EAGAIN && is_same(&before, &after))
            return rc;
        err->n = err_len; /* the error may be due to the change */
        nanosleep(&(struct timespec){.tv_nsec = (long)QUIET_TIME}, NULL);
    }
    as_buf_printf(err, "%s/" AS_STORE_FILE " changed during each attempt to copy it", from);
    return AS_EAGAIN;
}

void as_store_remove_probe(const char *folder)
{
    char *copy_folder = as_str_format("%s/%s", folder, COPY_FOLDER);

    remove_copy(copy_folder);
    free(copy_folder);
}

int as_store_probe(const char *folder,
                   int (*fn)(void *arg, const struct as_store_entry *e, struct as_buf *err),
                   void *arg, struct as_buf *err)
{
    char *to = as_str_format("%s/%s", folder, COPY_FOLDER);
    struct as_store_entry e;
    struct as_store *s = NULL;
    int rc;

    remove_copy(to); /* left by a probe that was killed */
    rc = as_state_dir_make(to, err);
    if (rc == 0)
        rc = copy_store(folder, to, err);
    if (rc == 0)
        rc = as_store_open_as(&s, to, folder, 1, err);
    if (rc == 0)
        rc = as_store_get(s, 0, &e, err);
    if (rc == 0)
        rc = fn(arg, &e, err);
    as_store_close(s);
    remove_copy(to);
    free(to);
    return rc;
}
