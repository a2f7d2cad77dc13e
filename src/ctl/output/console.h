/* ctl/output/console.h — the supervisor's stderr: lines of many processes, each with its name in
 * front.
 *
 * A reader that stalls must stall neither supervision nor the workers: what cannot be written at
 * once waits in a bounded buffer, then whole lines are dropped, counted and told of.
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
    uint64_t dropped;           /* lines since the last notice */
    bool broken;                /* nobody will read any more */
    struct as_log_file *file;   /* what `fd` is, if that is to be bounded; NULL; not owned */
    struct as_journal *journal; /* where lines are kept as well; NULL: nowhere; not owned */
    struct as_timer retry;
    bool closed;
};

/* While `loop` runs, waiting output is tried again; before and after it nothing waits for long. */
void as_console_init(struct as_console *c, struct as_loop *loop, int fd);
/* "[name] line\n"; name NULL: the line alone. */
void as_console_write(struct as_console *c, const char *name, struct as_str line);
/* Waits up to a second for the reader, then gives up; the loop must run on to close the timer. */
void as_console_close(struct as_console *c);

/* A log whose lines go to the console as "[supervisor] time=… level=… event=…". */
struct as_log as_console_log(struct as_console *c, enum as_log_level level);

/* The same for a process that was given our stderr: "[name] time=… …" straight to it, and to its
 * journal, which may be NULL. A line that stderr cannot take at once is dropped there, and told of
 * before the next one that it takes. `shared` and what it points to stay the caller's. Any thread
 * of it. */
struct as_console_shared {
    int fd; /* not owned */
    const char *name;
    struct as_journal *journal;
    uint64_t dropped; /* lines that nobody was told of; atomic */
};
struct as_log as_console_shared_log(struct as_console_shared *shared, enum as_log_level level);

/* The wall clock now, UTC, as all processes put it into their log lines (docs/guide/logs.md; the
 * Python package does the same in log.py). Any thread. */
const char *as_console_timestamp(char out[AS_CONSOLE_TIMESTAMP]);

#endif
