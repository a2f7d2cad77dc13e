/* wire/protobuf/pb.h — protobuf's wire format without copies: a field reader, and functions that
 * write fields.
 *
 * The reader iterates over the fields of one message; a length-delimited field is a slice of the
 * message, so a nested message is read by a reader of its own. A group (proto3 never writes one,
 * but an unknown field may be one) is one field without a value. Strict where the format leaves a
 * choice: field number 0, varints of more than 10 bytes or 64 bits, lengths beyond the end, groups
 * that do not end or are nested deeper than AS_PB_DEPTH are all AS_EPROTO. Pure; on the hot path,
 * therefore inline.
 */
#ifndef AS_WIRE_PB_H
#define AS_WIRE_PB_H

#include "base/err.h"
#include "base/str.h"

enum as_pb_wire {
    AS_PB_VARINT = 0,
    AS_PB_I64 = 1,
    AS_PB_LEN = 2,
    AS_PB_GROUP = 3, /* 4 is the end of a group, and not a field */
    AS_PB_I32 = 5
};
#define AS_PB_DEPTH 100u /* groups within groups; the limit of protobuf's own readers */

struct as_pb { /* the unread part of a message, or of a packed field */
    const uint8_t *p, *end;
};

struct as_pb_field {
    uint32_t number; /* 1 … 2^29-1 */
    enum as_pb_wire wire;
    uint64_t v;      /* VARINT, I64, I32: the value, not sign-extended */
    struct as_str s; /* LEN */
};

static inline struct as_pb as_pb_of(struct as_str s)
{
    return (struct as_pb){(const uint8_t *)s.p, s.p ? (const uint8_t *)s.p + s.n : NULL};
}

/* Reads a varint of any length. Returns the byte after it, or NULL. */
const uint8_t *as_pb_long_varint(const uint8_t *p, const uint8_t *end, uint64_t *ret_v);

/* Reads a varint. 0 or AS_EPROTO. */
static inline int as_pb_varint(struct as_pb *r, uint64_t *ret_v)
{
    const uint8_t *p = r->p;
    uint64_t v;

    if (p != r->end && *p < 0x80) {
        *ret_v = *p;
        r->p = p + 1;
        return 0;
    }
    p = as_pb_long_varint(p, r->end, &v);
    if (!p)
        return AS_EPROTO;
    *ret_v = v;
    r->p = p;
    return 0;
}

/* Reads the value of a field that is not LEN. 0 or AS_EPROTO. For as_pb_next. */
int as_pb_value(struct as_pb *r, struct as_pb_field *f);

/* 1: *ret_f is the next field; 0: the message has ended; AS_EPROTO. */
static inline int as_pb_next(struct as_pb *r, struct as_pb_field *ret_f)
{
    uint64_t tag, len;

    if (r->p == r->end)
        return 0;
    if (as_pb_varint(r, &tag) || tag > UINT32_MAX || tag < 8)
        return AS_EPROTO;
    ret_f->number = (uint32_t)tag >> 3;
    ret_f->wire = (enum as_pb_wire)(tag & 7);
    if (ret_f->wire != AS_PB_LEN)
        return as_pb_value(r, ret_f) ? AS_EPROTO : 1;
    if (as_pb_varint(r, &len) || len > (size_t)(r->end - r->p))
        return AS_EPROTO;
    ret_f->s = (struct as_str){(const char *)r->p, (size_t)len};
    r->p += len;
    return 1;
}

/* The number of varints in a packed field, or AS_EPROTO if the last one is cut. */
int64_t as_pb_count_varints(struct as_str packed);

/* Writing: functions that compute sizes, and functions that write and return the end of what they
 * wrote. */
static inline size_t as_pb_varint_len(uint64_t v)
{
    return (size_t)(70 - __builtin_clzll(v | 1)) / 7;
}

static inline uint8_t *as_pb_put_varint(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

/* The tag of a field below 16 takes one byte; no message written here has a higher field. */
#define AS_PB_TAG(number, wire) ((uint8_t)((number) << 3 | (wire)))

static inline size_t as_pb_len_len(size_t n) /* size of a LEN field: tag, length and n bytes */
{
    return 1 + as_pb_varint_len(n) + n;
}

static inline uint8_t *as_pb_put_head(uint8_t *p, uint32_t number, size_t n)
{
    *p++ = AS_PB_TAG(number, AS_PB_LEN);
    return as_pb_put_varint(p, n);
}

static inline uint8_t *as_pb_put_str(uint8_t *p, uint32_t number, struct as_str s)
{
    p = as_pb_put_head(p, number, s.n);
    if (s.n)
        memcpy(p, s.p, s.n);
    return p + s.n;
}

/* Optional strings: proto3 leaves out an empty one. */
static inline size_t as_pb_opt_len(struct as_str s)
{
    return s.n ? as_pb_len_len(s.n) : 0;
}

static inline uint8_t *as_pb_put_opt(uint8_t *p, uint32_t number, struct as_str s)
{
    return s.n ? as_pb_put_str(p, number, s) : p;
}

#endif
