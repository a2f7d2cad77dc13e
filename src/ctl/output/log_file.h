/* ctl/output/log_file.h — what a server in the background prints to, kept within a bound.
 *
 * `server.log` in the state folder. When it is over `max` bytes it is copied to server.log.1 (the
 * older ones become .2 …, of which `count` are kept) and cut to nothing, in place: dispatcher and
 * controller have the same file open, for appending, and write on. So all together is about
 * (count + 1) × max bytes. A line that one of them writes between the end of the copy and the cut
 * is lost. Thread: the loop's.
 */
#ifndef AS_CTL_LOG_FILE_H
#define AS_CTL_LOG_FILE_H

#include "base/log.h"
#include "io/loop/loop.h"

#define AS_LOG_FILE "server.log"

struct as_log_file {
    int fd;     /* not owned; -1: there is nothing to bound */
    char *path; /* owned */
    uint64_t max, written;
    uint32_t count;
    int failed; /* errno of the last time that it was to be set aside, or 0 */
    const struct as_log *log;
    struct as_task report;
    struct as_timer timer;
};

/* fd: what is printed to, which is bounded only when it is the file `path`. log: lives as long. */
void as_log_file_init(struct as_log_file *f, struct as_loop *loop, int fd, const char *path,
                      uint64_t max, uint32_t count, const struct as_log *log);
void as_log_file_close(struct as_log_file *f); /* the loop must run on */
/* The caller has written so much. NULL is fine. What others write is looked at now and then. */
void as_log_file_add_written(struct as_log_file *f, size_t n);

/* Before it is opened: a file over `max` is renamed, and with it the older ones. */
void as_log_file_rotate(const char *path, uint64_t max, uint32_t count);

#endif
