/* ctl/output/log_file.h — bounds the log file of a server in the background.
 *
 * The file is `server.log` in the state folder. When it has more than `max` bytes it is copied to
 * server.log.1 (older ones become .2 …, of which `count` are kept) and truncated: it stays the same
 * file, since dispatcher and controller have it open for appending. All together have about
 * (count + 1) × max bytes. A line that another process writes between the end of the copy and the
 * truncation is lost. Thread: the loop's.
 */
#ifndef AS_CTL_LOG_FILE_H
#define AS_CTL_LOG_FILE_H

#include "base/log.h"
#include "io/loop/loop.h"

#define AS_LOG_FILE "server.log"

struct as_log_file {
    int fd;     /* not owned; -1: stderr is not this file, nothing is done */
    char *path; /* owned */
    uint64_t max, written;
    uint32_t count;
    int failed; /* errno of the last rotation, or 0 */
    const struct as_log *log;
    struct as_task report;
    struct as_timer timer;
};

/* fd: where we print to; it is bounded only when it is the file `path`. log: outlives f. */
void as_log_file_init(struct as_log_file *f, struct as_loop *loop, int fd, const char *path,
                      uint64_t max, uint32_t count, const struct as_log *log);
void as_log_file_close(struct as_log_file *f); /* the loop must run on until the timer is closed */
/* The caller has written n bytes; f may be NULL. What other processes write is found by a timer. */
void as_log_file_add_written(struct as_log_file *f, size_t n);

/* At a start, before the file is opened: renames it to .1 if it has more than `max` bytes, and the
 * older ones. */
void as_log_file_rotate(const char *path, uint64_t max, uint32_t count);

#endif
