/* ctl/message/reexec_state.h — what a supervisor hands to the next image of itself (execve): named
 * values, in order.
 *
 * Text in a memfd: "KEY LENGTH:BYTES\n" for each value. The reader asks for the keys in the order
 * in which they were written; the first that is not there is told as an error, and nothing is read
 * any more. Descriptors are numbers that stay open over the exec. AS_REEXEC_FORMAT changes whenever
 * the order or the meaning of anything does: an image that knows another one refuses (`anyserve
 * upgrade` asks it before), and the old one goes on. Thread: one.
 */
#ifndef AS_CTL_REEXEC_STATE_H
#define AS_CTL_REEXEC_STATE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_REEXEC_FORMAT 3u
#define AS_REEXEC_MAX    ((size_t)64 << 20) /* bytes; more is no state of ours */

struct as_reexec_writer {
    struct as_buf text;
    struct as_buf fds; /* ints: those that must stay open */
};

void as_reexec_writer_init(struct as_reexec_writer *c); /* writes the format first */
void as_reexec_writer_fini(struct as_reexec_writer *c);
void as_reexec_put(struct as_reexec_writer *c, const char *key, struct as_str value);
void as_reexec_put_u64(struct as_reexec_writer *c, const char *key, uint64_t value);
void as_reexec_put_fd(struct as_reexec_writer *c, const char *key, int fd); /* -1: there is none */
/* A memfd (close-on-exec) with the text, or -1: errno. */
int as_reexec_make_memfd(const struct as_reexec_writer *c);
/* Before the exec: the descriptors, and `file`, live through it; on = false takes it back. */
void as_reexec_set_inherited(const struct as_reexec_writer *c, int file, bool on);

struct as_reexec_reader {
    struct as_buf text; /* all of it */
    struct as_str rest; /* what is not read yet */
    struct as_buf *err; /* gets a sentence with the first error */
    bool failed;
    bool dry; /* descriptors are numbers only: nothing is done to them */
};

/* Reads all of `fd`, which stays open, and the format. 0; AS_EIO, AS_EPROTO with a sentence. `err`
 * is kept. */
int as_reexec_reader_load(struct as_reexec_reader *ret_c, int fd, bool dry, struct as_buf *err);
void as_reexec_reader_fini(struct as_reexec_reader *c);
/* The value under `key`; after an error empty, 0 and -1. Slices live as long as the struct. */
struct as_str as_reexec_get(struct as_reexec_reader *c, const char *key);
uint64_t as_reexec_get_u64(struct as_reexec_reader *c, const char *key, uint64_t max);
int as_reexec_get_fd(struct as_reexec_reader *c, const char *key); /* close-on-exec again */
char *as_reexec_get_dup(struct as_reexec_reader *c,
                        const char *key); /* the caller frees; never NULL */
/* Something that was read makes no sense. */
void as_reexec_fail(struct as_reexec_reader *c, const char *key, const char *why);

#endif
