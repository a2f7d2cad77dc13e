/* ctl/message/reexec_state.h — the state that a supervisor hands to the next image of itself
 * (execve): a message of proto/state.proto in a memfd, behind a line with its format.
 *
 * The next image may be of a later version, or of an earlier one: fields that it does not know are
 * skipped, and those that are missing have their defaults. Descriptors are written as numbers and
 * stay open over the exec; the reader closes those that it does not know. AS_REEXEC_FORMAT changes
 * only if that is not enough: an image that knows another format refuses (`anyserve upgrade` asks
 * it before), and the old one goes on. The state is on the heap, with all that it points to. One
 * thread.
 */
#ifndef AS_CTL_REEXEC_STATE_H
#define AS_CTL_REEXEC_STATE_H

#include "base/buf.h"
#include "base/err.h"

#include <state.pb-c.h>

#define AS_REEXEC_FORMAT 4u
#define AS_REEXEC_MINOR  6u                 /* fields that were added since; for people */
#define AS_REEXEC_MAX    ((size_t)64 << 20) /* bytes; a larger state is refused */

/* --- writing --- */

/* A message with defaults. */
void *as_reexec_new(const ProtobufCMessageDescriptor *type);
/* Appends to a repeated field of messages, strings or bytes: *rows has *n elements of `size`. */
void as_reexec_append(void *rows, size_t *n, const void *element, size_t size);
#define AS_REEXEC_APPEND(message, field, element)                                                  \
    do {                                                                                           \
        __typeof__(*(message)->field) as_element = (element);                                      \
        as_reexec_append(&(message)->field, &(message)->n_##field, &as_element,                    \
                         sizeof(as_element) /* NOLINT(bugprone-sizeof-expression): a pointer */);  \
    } while (0)
ProtobufCBinaryData as_reexec_bytes(struct as_str s); /* a copy */
/* The field for a descriptor (-1: none), which stays open over the exec. */
uint32_t as_reexec_put_fd(As__Supervisor *state, int fd);
/* A memfd (close-on-exec) with the state, or -1: errno. */
int as_reexec_make_memfd(const As__Supervisor *state);
/* Clears close-on-exec of the descriptors and of `file`; on = false sets it again. */
void as_reexec_set_inherited(const As__Supervisor *state, int file, bool on);
void as_reexec_free(As__Supervisor *state);

/* --- reading --- */

struct as_reexec_reader {
    As__Supervisor *state;
    struct as_buf *err; /* gets the text of the first error; not owned */
    bool failed;
    bool dry; /* a check: descriptors belong to another process, and are not touched */
};

/* Reads all of `fd`, which stays open. 0; AS_EIO or AS_EPROTO with a sentence in `err`, which must
 * outlive the reader. */
int as_reexec_reader_load(struct as_reexec_reader *ret_in, int fd, bool dry, struct as_buf *err);
void as_reexec_reader_fini(struct as_reexec_reader *in);
/* The descriptor of a field, which is the caller's from here on, with close-on-exec again. -1: it
 * is none; if it should be one, the reader fails. */
int as_reexec_take_fd(struct as_reexec_reader *in, const char *key, uint32_t fd);
/* Closes the descriptors that nobody has taken: those of fields that this version does not know. */
void as_reexec_close_unknown_fds(struct as_reexec_reader *in);
static inline struct as_str as_reexec_str(ProtobufCBinaryData b)
{
    return (struct as_str){(const char *)b.data, b.len};
}
/* A value that was read is invalid: fails the reader with "'KEY' WHY". */
void as_reexec_fail(struct as_reexec_reader *in, const char *key, const char *why);

#endif
