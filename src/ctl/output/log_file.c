#include "ctl/output/log_file.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK_INTERVAL (10 * AS_SEC) /* of the size, which other processes change, too */
#define CHECKS_PER_MAX 16u           /* of the size while we write `max` bytes */

/* "PATH.N"; N 0: "PATH". */
static char *numbered_path(const char *path, uint32_t n)
{
    return n ? as_str_format("%s.%u", path, n) : as_str_dup(as_str_of(path));
}

/* Renames .1 to .2 and so on; the last one is replaced. */
static void shift_old_files(const char *path, uint32_t count)
{
    for (uint32_t n = count; n > 1; n--) {
        char *from = numbered_path(path, n - 1), *to = numbered_path(path, n);

        rename(from, to); /* there may be none */
        free(from);
        free(to);
    }
}

void as_log_file_rotate(const char *path, uint64_t max, uint32_t count)
{
    char *first = numbered_path(path, 1);
    struct stat st;

    if (stat(path, &st) == 0 && (uint64_t)st.st_size > max) {
        shift_old_files(path, count);
        if (count)
            rename(path, first);
        else
            unlink(path);
    }
    free(first);
}

/* Copies up to the end of the file, which may grow meanwhile. 0 or an errno. */
static int copy_file(int from, const char *to)
{
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600), e = 0;
    char part[65536];
    off_t at = 0;
    ssize_t n = 0;

    if (out < 0)
        return errno;
    while (!e && (n = pread(from, part, sizeof(part), at)) > 0) {
        if (write(out, part, (size_t)n) != n)
            e = errno ? errno : ENOSPC;
        at += n;
    }
    if (!e && n < 0)
        e = errno;
    close(out);
    return e;
}

static int rotate_in_place(struct as_log_file *f)
{
    char *next = numbered_path(f->path, f->count + 1), *first = numbered_path(f->path, 1);
    int e = f->count ? copy_file(f->fd, next) : 0;

    if (e) {
        unlink(next); /* a partial copy would only fill the disk */
    } else if (f->count) {
        shift_old_files(f->path, f->count);
        e = rename(next, first) < 0 ? errno : 0;
    }
    if (!e && ftruncate(f->fd, 0) < 0)
        e = errno;
    free(next);
    free(first);
    return e;
}

static void check_size(struct as_log_file *f)
{
    struct stat st;
    bool was = f->failed != 0;

    f->written = 0;
    if (fstat(f->fd, &st) < 0 || (uint64_t)st.st_size <= f->max)
        return;
    f->failed = rotate_in_place(f);
    if (f->failed && !was)
        /* deferred: we may be called from the log itself */
        as_loop_defer(f->timer.loop, &f->report);
}

static void on_report(struct as_task *t)
{
    struct as_log_file *f = AS_CONTAINER(t, struct as_log_file, report);
    char path[256], why[128];

    as_log_event(f->log, AS_LOG_WARN, "log_not_set_aside", "file=%s reason=%s",
                 as_log_quote(path, sizeof(path), as_str_of(f->path)),
                 as_log_quote(why, sizeof(why), as_str_of(strerror(f->failed))));
}

static void on_timer(struct as_timer *t)
{
    struct as_log_file *f = AS_CONTAINER(t, struct as_log_file, timer);

    check_size(f);
    as_timer_set(t, as_loop_now(t->loop) + CHECK_INTERVAL);
}

static bool is_file(int fd, const char *path)
{
    struct stat a, b;

    return fstat(fd, &a) == 0 && S_ISREG(a.st_mode) && stat(path, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void as_log_file_init(struct as_log_file *f, struct as_loop *loop, int fd, const char *path,
                      uint64_t max, uint32_t count, const struct as_log *log)
{
    *f = (struct as_log_file){.fd = is_file(fd, path) ? fd : -1,
                              .path = as_str_dup(as_str_of(path)),
                              .max = max,
                              .count = count,
                              .log = log};
    as_timer_init(&f->timer, loop, on_timer);
    as_task_init(&f->report, on_report);
    if (f->fd >= 0)
        as_timer_set(&f->timer, as_loop_now(loop) + CHECK_INTERVAL);
}

void as_log_file_close(struct as_log_file *f)
{
    as_task_cancel(&f->report);
    free(f->path);
    f->path = NULL;
    f->fd = -1;
    as_timer_close(&f->timer, NULL);
}

void as_log_file_add_written(struct as_log_file *f, size_t n)
{
    if (!f || f->fd < 0)
        return;
    f->written += n;
    /* after a failed rotation it is tried less often */
    if (f->written > (f->failed ? f->max : f->max / CHECKS_PER_MAX))
        check_size(f);
}
