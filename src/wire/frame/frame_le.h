/* wire/frame/frame_le.h — little-endian loads and stores of the frame files, for any alignment.
 *
 * Private to frame*.c. AnyServe runs on little-endian machines only, so a store is a memcpy that
 * the compiler turns into one instruction.
 */
#ifndef AS_WIRE_FRAME_LE_H
#define AS_WIRE_FRAME_LE_H

#include "wire/frame/frame.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the link's byte order is the machine's");

/* Sizes that the writer and the reader of messages share; docs/protocol/link.md, section 7. */
#define AS_MSG_TABLE        (AS_FRAME_HEADER + AS_FRAME_FIXED) /* offset of the table in the frame */
#define AS_MSG_TENSOR       32u /* fixed parts of the records in the table */
#define AS_MSG_PARAM        16u
#define AS_MSG_TENSOR_PARAM 24u
#define AS_MSG_META         8u
#define AS_MSG_BODY_MAX     ((uint64_t)INT64_MAX)

static inline void put16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, 2);
}

static inline void put32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, 4);
}

static inline void put64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, 8);
}

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, 2);
    return v;
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

static inline void put_header(uint8_t *p, uint8_t type, uint8_t flags, uint64_t stream, uint32_t n)
{
    put32(p, n);
    put32(p + 4, (uint32_t)type | (uint32_t)flags << 8);
    put64(p + 8, stream);
}

/* Reserves a frame of n payload bytes, with the header written and the padding zeroed; returns the
 * payload. */
static inline uint8_t *put_frame(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                                 size_t n)
{
    size_t total = AS_ALIGN(AS_FRAME_HEADER + n, AS_FRAME_ALIGN);
    uint8_t *p = as_outq_alloc(q, total);

    memset(p + total - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    put_header(p, (uint8_t)type, 0, stream, (uint32_t)n);
    return p + AS_FRAME_HEADER;
}

#endif
