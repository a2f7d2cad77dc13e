/* base/defs.h — the few types and macros that every file may use.
 *
 * Time is nanoseconds on the monotonic clock, always passed in; nothing below `io` reads a clock.
 */
#ifndef AS_BASE_DEFS_H
#define AS_BASE_DEFS_H

#include "base/fatal.h"

#include <anyserve/types.h>
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define AS_US  ((as_ns)1000)
#define AS_MS  ((as_ns)1000000)
#define AS_SEC ((as_ns)1000000000)

#define AS_COUNT(a)     (sizeof(a) / sizeof((a)[0]))
#define AS_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define AS_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define AS_ALIGN(n, to) (((n) + ((to)-1)) & ~((size_t)(to)-1))
#define AS_UNUSED       __attribute__((unused))
#define AS_PRINTF(f, a) __attribute__((format(printf, f, a)))

#define AS_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Our own bugs end the process, in release builds too; bytes of a peer are never asserted on. */
#define AS_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            as_assert_fail(#cond, __FILE__, __LINE__);                                             \
    } while (0)

__attribute__((noreturn, unused)) static inline void as_assert_fail(const char *cond,
                                                                    const char *file, int line)
{
    fprintf(stderr, "anyserve: bug: %s at %s:%d\n", cond, file, line);
    abort();
}

/* Small allocations that only our own code sizes: out of memory ends the process with a message and
 * AS_EXIT_SYSTEM (base/fatal.h), and whoever started it starts it again. What a peer can size is
 * bounded first and taken with plain malloc, whose failure sheds. */
static inline void *as_xalloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);

    if (__builtin_expect(!p, 0))
        as_fatal_memory(n);
    return p;
}

static inline void *as_xrealloc(void *old, size_t n)
{
    void *p = realloc(old, n ? n : 1);

    if (__builtin_expect(!p, 0))
        as_fatal_memory(n);
    return p;
}

#endif
