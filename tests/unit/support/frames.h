/* tests/unit/support/frames.h — the output of an encoder as one aligned block, and frames that a
 * test builds.
 */
#ifndef AS_TESTS_FRAMES_H
#define AS_TESTS_FRAMES_H

#include "base/err.h"
#include "unit.h"
#include "wire/frame/frame.h"

/* A slice for a static initialiser, where AS_STR is not a constant. */
#define STATIC_STR(lit)                                                                            \
    {                                                                                              \
        (lit), sizeof(lit) - 1                                                                     \
    }

struct bytes {
    uint8_t *p; /* 64-byte aligned; a sanitizer finds a read beyond n bytes */
    size_t n;
};

static inline struct bytes bytes_new(size_t n)
{
    void *p = NULL;

    if (posix_memalign(&p, 64, n ? n : 1) != 0)
        abort();
    return (struct bytes){.p = p, .n = n};
}

/* Moves everything out of the queue. */
static inline struct bytes bytes_of(struct as_outq *q)
{
    struct bytes b = bytes_new(q->bytes);
    size_t at = 0;

    while (q->bytes) {
        struct iovec v;

        assert_int_equal(as_outq_iov(q, &v, 1), 1);
        memcpy(b.p + at, v.iov_base, v.iov_len);
        at += v.iov_len;
        as_outq_drop(q, v.iov_len);
    }
    return b;
}

/* The one frame that b holds. */
static inline struct as_frame only_frame(struct bytes b)
{
    struct as_frame f;

    assert_int_equal(as_frame_next(b.p, b.n, &f), (int64_t)b.n);
    return f;
}

static inline uint32_t u32_at(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

static inline uint64_t u64_at(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

static inline void set32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
}

static inline void set64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, 8);
}

/* One frame with its padding: any type and flags, with this stream and payload. */
static inline struct bytes raw_frame(uint8_t type, uint8_t flags, uint64_t stream, const void *p,
                                     size_t n)
{
    struct bytes b = bytes_new(AS_ALIGN(AS_FRAME_HEADER + n, 64));

    memset(b.p, 0, b.n);
    set32(b.p, (uint32_t)n);
    b.p[4] = type;
    b.p[5] = flags;
    set64(b.p + 8, stream);
    if (n)
        memcpy(b.p + 16, p, n);
    return b;
}

static inline void assert_str(struct as_str s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

#endif
