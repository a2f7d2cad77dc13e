/* ctl/output/journal.h — the newest output of each process, in files that `anyserve logs` reads.
 *
 * The files are <runtime-dir>/<port>/logs/NAME.log and, with older lines, NAME.log.1; both together
 * have at most `keep` bytes. A line is the time at which it was read, a space, and what was
 * printed. Files outlive the process that wrote them. The supervisor writes the lines of workers
 * and its own; dispatcher and controller write theirs, so that no log waits for another process. A
 * line that cannot be written is dropped: a full disk must not end a server. Any thread.
 */
#ifndef AS_CTL_JOURNAL_H
#define AS_CTL_JOURNAL_H

#include "base/err.h"
#include "base/str.h"
#include "ctl/message/reexec_state.h"

#include <pthread.h>

#define AS_JOURNAL_OPEN_MAX  8u   /* files that are open at once */
#define AS_JOURNAL_FILE_MAX  232u /* bytes of a file's name with suffixes and NUL */
#define AS_JOURNAL_TIMESTAMP 24u  /* bytes of a line's time; a space follows */

struct as_journal {
    int dir;              /* -1: nothing is written */
    uint64_t keep_bytes;  /* bytes for each name; 0: nothing is written */
    uint32_t max_retired; /* retired names whose files are kept */
    pthread_mutex_t lock;
    struct {
        char file[AS_JOURNAL_FILE_MAX];
        int fd;
        uint64_t size, used; /* `used`: n_lines at its last line */
        bool partial;        /* only a part of the last line was written (full disk) */
    } open[AS_JOURNAL_OPEN_MAX];
    uint64_t n_lines;
    char (*retired)[AS_JOURNAL_FILE_MAX]; /* the oldest first */
    uint32_t n_retired;
};

/* Opens the logs folder of the runtime folder, and the file of `own`. keep: bytes for each name; 0:
 * nothing is written. 0, or AS_EIO: there is no such folder, and nothing is written. */
int as_journal_open(struct as_journal *j, const char *base, uint16_t port, const char *own,
                    uint64_t keep, uint32_t max_retired);
void as_journal_close(struct as_journal *j); /* also one that was never opened, all zeros */

/* Writes head (may be empty) and line. j may be NULL. */
void as_journal_write(struct as_journal *j, const char *name, struct as_str head,
                      struct as_str line);
/* A process of this name starts: makes its file, even if the process never prints anything. */
void as_journal_add(struct as_journal *j, const char *name);
/* The name is not used any more. Its files are kept until max_retired other names were retired. */
void as_journal_retire(struct as_journal *j, const char *name);

/* For an upgrade's exec (ctl/message/reexec_state.h): the retired names, whose files would else
 * never be removed. _restore: on an open journal. */
void as_journal_save(const struct as_journal *j, As__Supervisor *state);
void as_journal_restore(struct as_journal *j, const As__Supervisor *state);

/* The file of a name: characters that are special in a path or a shell become %XX; a long name is
 * cut, and gets a hash. */
void as_journal_file_name(char ret_file[AS_JOURNAL_FILE_MAX], const char *name);
/* The name of a file. False: it is no file of a journal. */
bool as_journal_parse_file_name(const char *file, char ret_name[AS_JOURNAL_FILE_MAX]);
#define AS_JOURNAL_ROTATED ".1" /* suffix of the file with older lines */

#endif
