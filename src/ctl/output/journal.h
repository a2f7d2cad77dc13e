/* ctl/output/journal.h — the newest output of each process, in files that commands read.
 *
 * <runtime-dir>/<port>/logs/NAME.log, and NAME.log.1 with what was before, together as many bytes
 * as are kept. A line is the moment at which it was read, as log lines have it, a space, and what
 * was printed. Files, because they outlive whoever wrote them: the supervisor writes the lines of
 * workers and its own; dispatcher and controller write theirs, so that nobody's log waits for
 * another process. What cannot be written is dropped: a full disk must not end a server. Any
 * thread.
 */
#ifndef AS_CTL_JOURNAL_H
#define AS_CTL_JOURNAL_H

#include "base/err.h"
#include "base/str.h"
#include "ctl/message/reexec_state.h"

#include <pthread.h>

#define AS_JOURNAL_OPEN_MAX  8u   /* files that are open at once */
#define AS_JOURNAL_FILE_MAX  232u /* bytes of a file's name, its ends and NUL included */
#define AS_JOURNAL_TIMESTAMP 24u  /* bytes of the moment; a space follows */

struct as_journal {
    int dir;              /* -1: nothing is kept */
    uint64_t keep_bytes;  /* bytes of each name */
    uint32_t max_retired; /* names that are gone, of which it is kept */
    pthread_mutex_t lock;
    struct {
        char file[AS_JOURNAL_FILE_MAX];
        int fd;
        uint64_t size, used; /* `used`: the number of its last line */
        bool partial;        /* of the last line only a part was taken: a full disk */
    } open[AS_JOURNAL_OPEN_MAX];
    uint64_t n_lines;
    char (*retired)[AS_JOURNAL_FILE_MAX]; /* the oldest first */
    uint32_t n_retired;
};

/* The folder is the runtime folder's; keep 0: nothing is kept. The file of `own` is opened now. 0,
 * or AS_EIO: there is no such folder, and nothing is kept. */
int as_journal_open(struct as_journal *j, const char *base, uint16_t port, const char *own,
                    uint64_t keep, uint32_t max_retired);
void as_journal_close(struct as_journal *j); /* also one that is all zeros */

/* head: what stands before the line; may be empty. j may be NULL. */
void as_journal_write(struct as_journal *j, const char *name, struct as_str head,
                      struct as_str line);
/* A process of this name begins: it is known, though it may never print anything. */
void as_journal_add(struct as_journal *j, const char *name);
/* Nothing of this name runs any more. Its lines are kept until max_gone others have gone. */
void as_journal_retire(struct as_journal *j, const char *name);

/* Over an exec (ctl/message/reexec_state.h): of what is gone, or its files would stay for ever.
 * _resume on one that is open. */
void as_journal_save(const struct as_journal *j, struct as_reexec_writer *c);
void as_journal_restore(struct as_journal *j, struct as_reexec_reader *c);

/* The file of a name: what a path or a shell could stumble over as %XX, what is too long cut. */
void as_journal_file_name(char ret_file[AS_JOURNAL_FILE_MAX], const char *name);
/* The other way. False: no file of a journal's. */
bool as_journal_parse_file_name(const char *file, char ret_name[AS_JOURNAL_FILE_MAX]);
#define AS_JOURNAL_ROTATED ".1" /* behind the file's name: what was before */

#endif
