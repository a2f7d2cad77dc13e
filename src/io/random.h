/* io/random.h — random bytes of the kernel, for seeds and tokens. If the kernel gives none the
 * process ends (base/fatal.h). Any thread; does not block.
 */
#ifndef AS_IO_RANDOM_H
#define AS_IO_RANDOM_H

#include "base/defs.h"

/* n <= 256: the kernel gives these in one piece. */
void as_random_bytes(void *out, size_t n);
/* n <= 128 random bytes as 2 n hex digits and a NUL. */
void as_random_hex(char *out, size_t n);

#define AS_UUID_LEN 36u
/* A random UUID (version 4) of AS_UUID_LEN characters and a NUL. Made by a generator of the thread
 * that the kernel has seeded, so no secret: it names a request in logs. */
void as_random_uuid(char out[AS_UUID_LEN + 1]);

#endif
