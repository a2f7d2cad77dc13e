#include "wire/protobuf/pb.h"

#define VARINT_MAX 10

const uint8_t *as_pb_long_varint(const uint8_t *p, const uint8_t *end, uint64_t *ret_v)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < VARINT_MAX && p != end; i++) {
        uint8_t c = *p++;

        v |= (uint64_t)(c & 0x7f) << (7 * i);
        if (c < 0x80) {
            if (i == VARINT_MAX - 1 && c > 1) /* bits above the 64th */
                return NULL;
            *ret_v = v;
            return p;
        }
    }
    return NULL;
}

#define END_GROUP 4u

/* Skips a group, whose start tag was read, up to its end. */
static int skip_group(struct as_pb *r, uint32_t number)
{
    uint32_t open[AS_PB_DEPTH], depth = 0;

    open[depth++] = number;
    while (depth) {
        struct as_pb_field f;
        uint64_t tag, len;

        if (as_pb_varint(r, &tag) || tag > UINT32_MAX || tag < 8)
            return AS_EPROTO;
        f = (struct as_pb_field){.number = (uint32_t)tag >> 3, .wire = (enum as_pb_wire)(tag & 7)};
        if (f.wire == AS_PB_GROUP) {
            if (depth == AS_PB_DEPTH)
                return AS_EPROTO;
            open[depth++] = f.number;
        } else if ((tag & 7) == END_GROUP) {
            if (f.number != open[--depth])
                return AS_EPROTO;
        } else if (f.wire == AS_PB_LEN) {
            if (as_pb_varint(r, &len) || len > (size_t)(r->end - r->p))
                return AS_EPROTO;
            r->p += len;
        } else if (as_pb_value(r, &f)) {
            return AS_EPROTO;
        }
    }
    return 0;
}

int as_pb_value(struct as_pb *r, struct as_pb_field *f)
{
    size_t left = (size_t)(r->end - r->p);
    uint32_t v32;

    switch (f->wire) {
    case AS_PB_VARINT:
        return as_pb_varint(r, &f->v);
    case AS_PB_I64:
        if (left < 8)
            return AS_EPROTO;
        memcpy(&f->v, r->p, 8);
        r->p += 8;
        return 0;
    case AS_PB_I32:
        if (left < 4)
            return AS_EPROTO;
        memcpy(&v32, r->p, 4);
        f->v = v32;
        r->p += 4;
        return 0;
    case AS_PB_GROUP:
        return skip_group(r, f->number);
    case AS_PB_LEN:
    default: /* 4: the end of a group that was not opened; 6 and 7: not defined */
        return AS_EPROTO;
    }
}

int64_t as_pb_count_varints(struct as_str packed)
{
    int64_t count = 0;

    for (size_t i = 0; i < packed.n; i++)
        count += (uint8_t)packed.p[i] < 0x80;
    return packed.n && (uint8_t)packed.p[packed.n - 1] >= 0x80 ? AS_EPROTO : count;
}
