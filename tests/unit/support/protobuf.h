/* tests/unit/support/protobuf.h — protobuf by hand, so that tests do not trust the code that they
 * test. */
#ifndef AS_TESTS_PROTOBUF_H
#define AS_TESTS_PROTOBUF_H

#include "base/buf.h"
#include "unit.h"

static inline void pb_varint(struct as_buf *b, uint64_t v)
{
    do {
        uint8_t c = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));

        as_buf_add(b, &c, 1);
        v >>= 7;
    } while (v);
}

static inline void pb_number(struct as_buf *b, unsigned field, uint64_t v)
{
    pb_varint(b, field << 3);
    pb_varint(b, v);
}

static inline void pb_bytes(struct as_buf *b, unsigned field, const void *p, size_t n)
{
    pb_varint(b, field << 3 | 2);
    pb_varint(b, n);
    as_buf_add(b, p, n);
}

static inline void pb_text(struct as_buf *b, unsigned field, const char *z)
{
    pb_bytes(b, field, z, strlen(z));
}

/* A nested message, whose buffer is taken. */
static inline void pb_nest(struct as_buf *b, unsigned field, struct as_buf inner)
{
    pb_bytes(b, field, inner.p, inner.n);
    as_buf_fini(&inner);
}

/* Varints in one packed field. */
static inline void pb_packed(struct as_buf *b, unsigned field, const int64_t *v, size_t n)
{
    struct as_buf inner = {0};

    for (size_t i = 0; i < n; i++)
        pb_varint(&inner, (uint64_t)v[i]);
    pb_nest(b, field, inner);
}

#endif
