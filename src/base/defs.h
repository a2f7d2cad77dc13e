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

/* For our own bugs only: a failed assertion ends the process, in release builds too. Input of a
 * peer is never asserted on. */
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

/* For small allocations whose size only our own code decides. Out of memory, the process writes a
 * message and ends with AS_EXIT_SYSTEM (base/fatal.h); its parent starts it again. A size that a
 * peer decides is bounded first and allocated by plain malloc; when that fails, the request is
 * refused. */
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
