/* ctl/message/reexec_state.h — the state that a supervisor hands to the next image of itself
 * (execve): named values, in order.
 *
 * Text in a memfd, "KEY LENGTH:BYTES\n" for each value. The reader asks for the keys in the order
 * in which they were written; the first one that is missing is an error, after which nothing more
 * is read. A descriptor is written as its number, and stays open over the exec. AS_REEXEC_FORMAT
 * changes whenever the order or the meaning of a value does: an image that knows another format
 * refuses (`anyserve upgrade` asks it before), and the old one goes on. One thread.
 */
#ifndef AS_CTL_REEXEC_STATE_H
#define AS_CTL_REEXEC_STATE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_REEXEC_FORMAT 3u
#define AS_REEXEC_MAX    ((size_t)64 << 20) /* bytes; a larger state is refused */

struct as_reexec_writer {
    struct as_buf text;
    struct as_buf fds; /* ints: the descriptors that must stay open */
};

void as_reexec_writer_init(struct as_reexec_writer *out); /* writes the format */
void as_reexec_writer_fini(struct as_reexec_writer *out);
void as_reexec_put(struct as_reexec_writer *out, const char *key, struct as_str value);
void as_reexec_put_u64(struct as_reexec_writer *out, const char *key, uint64_t value);
void as_reexec_put_fd(struct as_reexec_writer *out, const char *key, int fd); /* -1: none */
/* A memfd (close-on-exec) with the text, or -1: errno. */
int as_reexec_make_memfd(const struct as_reexec_writer *out);
/* Clears close-on-exec of the descriptors and of `file`; on = false sets it again. */
void as_reexec_set_inherited(const struct as_reexec_writer *out, int file, bool on);

struct as_reexec_reader {
    struct as_buf text; /* all of it */
    struct as_str rest; /* not read yet */
    struct as_buf *err; /* gets the text of the first error; not owned */
    bool failed;
    bool dry; /* a check: descriptors belong to another process, and are not touched */
};

/* Reads all of `fd`, which stays open, and checks the format. 0; AS_EIO or AS_EPROTO with a
 * sentence in `err`, which must outlive the reader. */
int as_reexec_reader_load(struct as_reexec_reader *ret_in, int fd, bool dry, struct as_buf *err);
void as_reexec_reader_fini(struct as_reexec_reader *in);
/* The next value, which must have this key. After an error: empty, 0 or -1. Slices are valid as
 * long as the reader. */
struct as_str as_reexec_get(struct as_reexec_reader *in, const char *key);
uint64_t as_reexec_get_u64(struct as_reexec_reader *in, const char *key, uint64_t max);
int as_reexec_get_fd(struct as_reexec_reader *in, const char *key); /* sets close-on-exec again */
/* A copy of the value, which the caller frees; never NULL. */
char *as_reexec_get_dup(struct as_reexec_reader *in, const char *key);
/* A value that was read is invalid: fails the reader with "'KEY' WHY". */
void as_reexec_fail(struct as_reexec_reader *in, const char *key, const char *why);

#endif
