/* ctl/output/console.h — the supervisor's stderr: lines of several processes, each with its name in
 * front.
 *
 * A slow reader of stderr must not block the supervisor or the workers: output that cannot be
 * written at once waits in a bounded buffer; when that is full, whole lines are dropped, counted
 * and reported. Thread: the loop's, but for as_console_shared.
 */
#ifndef AS_CTL_CONSOLE_H
#define AS_CTL_CONSOLE_H

#include "base/buf.h"
#include "base/log.h"
#include "io/loop/loop.h"

#define AS_CONSOLE_BUFFER    ((size_t)1 << 20)
#define AS_CONSOLE_TIMESTAMP 25u /* "2025-11-21T03:46:00.123Z" and NUL */

struct as_journal;
struct as_log_file;

struct as_console {
    int fd; /* not owned */
    struct as_buf out;
    uint64_t dropped;           /* lines since they were reported last */
    bool broken;                /* the reader is gone: nothing is written any more */
    struct as_log_file *file;   /* bounds the file that `fd` is; or NULL; not owned */
    struct as_journal *journal; /* gets every line, too; or NULL; not owned */
    struct as_timer retry;
    bool closed;
};

/* Output that waits is tried again while `loop` runs. */
void as_console_init(struct as_console *c, struct as_loop *loop, int fd);
/* "[name] line\n"; name NULL: the line alone. */
void as_console_write(struct as_console *c, const char *name, struct as_str line);
/* Waits up to a second for the reader, then drops what is left. The loop must run on until the
 * timer is closed. */
void as_console_close(struct as_console *c);

/* A log whose lines go to the console as "[supervisor] time=… level=… event=…". */
struct as_log as_console_log(struct as_console *c, enum as_log_level level);

/* The log of a process that inherits the supervisor's stderr: lines "[name] time=… …" go to it
 * directly, and to the process's own journal (may be NULL). A line that stderr cannot take at once
 * is dropped, and reported before the next line. `shared` and what it points to must outlive the
 * log. Any thread. */
struct as_console_shared {
    int fd; /* not owned */
    const char *name;
    struct as_journal *journal;
    uint64_t dropped; /* lines not reported yet; atomic */
};
struct as_log as_console_shared_log(struct as_console_shared *shared, enum as_log_level level);

/* The time now in UTC, as in the log lines of all processes (docs/guide/logs.md; the Python package
 * does the same in runtime/log.py). Any thread. */
const char *as_console_timestamp(char out[AS_CONSOLE_TIMESTAMP]);

#endif
