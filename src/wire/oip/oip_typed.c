/* Converts typed contents of a tensor (InferTensorContents) to the bytes of raw contents. */
#include "wire/oip/oip_parse.h"

enum { BOOLS = 1, INTS = 2, INT64S = 3, UINTS = 4, UINT64S = 5, FP32S = 6, FP64S = 7, BYTESS = 8 };

static const struct {
    const char *name;
    enum as_pb_wire wire; /* of a single element that is not packed */
} fields[] = {
    [BOOLS] = {"bool_contents", AS_PB_VARINT},     [INTS] = {"int_contents", AS_PB_VARINT},
    [INT64S] = {"int64_contents", AS_PB_VARINT},   [UINTS] = {"uint_contents", AS_PB_VARINT},
    [UINT64S] = {"uint64_contents", AS_PB_VARINT}, [FP32S] = {"fp32_contents", AS_PB_I32},
    [FP64S] = {"fp64_contents", AS_PB_I64},        [BYTESS] = {"bytes_contents", AS_PB_LEN},
};

static const uint8_t field_of[AS_DT_COUNT] = {
    [AS_DT_BOOL] = BOOLS,     [AS_DT_UINT8] = UINTS, [AS_DT_UINT16] = UINTS, [AS_DT_UINT32] = UINTS,
    [AS_DT_INT8] = INTS,      [AS_DT_INT16] = INTS,  [AS_DT_INT32] = INTS,   [AS_DT_INT64] = INT64S,
    [AS_DT_UINT64] = UINT64S, [AS_DT_FP32] = FP32S,  [AS_DT_FP64] = FP64S,   [AS_DT_BYTES] = BYTESS,
};

/* The number of elements in one field of InferTensorContents, or AS_EPROTO. */
static int64_t count_elements(const struct as_pb_field *f)
{
    if (f->wire == fields[f->number].wire)
        return 1;
    if (f->wire != AS_PB_LEN)
        return AS_EPROTO;
    switch (fields[f->number].wire) {
    case AS_PB_I32:
        return f->s.n % 4 ? AS_EPROTO : (int64_t)(f->s.n / 4);
    case AS_PB_I64:
        return f->s.n % 8 ? AS_EPROTO : (int64_t)(f->s.n / 8);
    case AS_PB_VARINT:
    case AS_PB_LEN:
    default:
        return as_pb_count_varints(f->s);
    }
}

int as_oip_has_contents(struct as_str contents)
{
    struct as_pb r = as_pb_of(contents);
    struct as_pb_field f;
    bool has = false;
    int more;

    while ((more = as_pb_next(&r, &f)) > 0) {
        int64_t n = f.number < AS_COUNT(fields) ? count_elements(&f) : 0;

        if (n < 0)
            return AS_EPROTO;
        has = has || n;
    }
    return more ? AS_EPROTO : has;
}

/* Iterates over the fields of all InferTensorContents in a tensor's message: protobuf merges
 * several of them. */
struct contents_walk {
    struct as_pb tensor, contents;
};

static struct contents_walk start_walk(struct as_str message)
{
    return (struct contents_walk){.tensor = as_pb_of(message)};
}

static int next_contents(struct contents_walk *w, struct as_pb_field *f)
{
    for (;;) {
        int more = as_pb_next(&w->contents, f);

        if (more < 0 || (more > 0 && f->number < AS_COUNT(fields)))
            return more;
        if (more > 0)
            continue;
        more = as_pb_next(&w->tensor, f);
        if (more <= 0)
            return more;
        if (f->number == 5)
            w->contents = as_pb_of(f->s);
    }
}

/* Result of the first pass. */
struct contents_size {
    uint64_t elements, bytes; /* bytes: of BYTES elements, without their length prefixes */
    uint32_t chunks;          /* number of fields that hold elements */
    struct as_str chunk;      /* the last of them that is LEN */
};

static int measure_contents(struct as_oip_parse *c, const struct as_tensor *t,
                            struct as_str message, struct contents_size *s)
{
    struct contents_walk w = start_walk(message);
    struct as_pb_field f;
    int more;

    while ((more = next_contents(&w, &f)) > 0) {
        int64_t n = count_elements(&f);

        if (n < 0)
            return as_oip_refuse_tensor(c, t, AS_EPROTO, "%s: malformed", fields[f.number].name);
        if (n && !field_of[t->dtype])
            return as_oip_refuse_tensor(c, t, AS_EINVALID, "%s takes raw_input_contents only",
                                        as_dtype_name(t->dtype));
        if (n && f.number != field_of[t->dtype])
            return as_oip_refuse_tensor(c, t, AS_EINVALID, "%s is given, %s takes %s",
                                        fields[f.number].name, as_dtype_name(t->dtype),
                                        fields[field_of[t->dtype]].name);
        s->elements += (uint64_t)n;
        s->chunks += n > 0;
        if (n && f.wire == AS_PB_LEN) {
            s->chunk = f.s;
            s->bytes += f.s.n;
        }
    }
    return more ? as_oip_refuse_tensor(c, t, AS_EPROTO, "contents: malformed") : 0;
}

static bool in_range(enum as_dtype t, uint64_t v)
{
    int32_t i = (int32_t)(uint32_t)v; /* as protobuf parsers do for int32 */

    switch ((int)t) {
    case AS_DT_INT8:
        return i >= INT8_MIN && i <= INT8_MAX;
    case AS_DT_INT16:
        return i >= INT16_MIN && i <= INT16_MAX;
    case AS_DT_UINT8:
        return (uint32_t)v <= UINT8_MAX;
    case AS_DT_UINT16:
        return (uint32_t)v <= UINT16_MAX;
    default:
        return true;
    }
}

/* Writes the i-th element, a varint, into data. */
static int put_number(struct as_oip_parse *c, const struct as_tensor *t, uint8_t *data, uint64_t i,
                      uint64_t v)
{
    size_t size = as_dtype_size(t->dtype);

    if (t->dtype == AS_DT_BOOL)
        v = v != 0;
    if (!in_range(t->dtype, v))
        return as_oip_refuse_tensor(c, t, AS_EINVALID, "%s[%llu]: %lld does not fit %s",
                                    fields[field_of[t->dtype]].name, (unsigned long long)i,
                                    field_of[t->dtype] == INTS ? (long long)(int32_t)(uint32_t)v
                                                               : (long long)(uint32_t)v,
                                    as_dtype_name(t->dtype));
    memcpy(data + i * size, &v, size);
    return 0;
}

static int put_numbers(struct as_oip_parse *c, const struct as_tensor *t, uint8_t *data,
                       const struct as_pb_field *f, uint64_t *i)
{
    struct as_pb r = as_pb_of(f->s);

    if (f->wire != AS_PB_LEN)
        return put_number(c, t, data, (*i)++, f->v);
    while (r.p != r.end) {
        uint64_t v;
        int err;

        if (as_pb_varint(&r, &v))
            return as_oip_refuse_tensor(c, t, AS_EPROTO, "%s: malformed", fields[f->number].name);
        err = put_number(c, t, data, (*i)++, v);
        if (err)
            return err;
    }
    return 0;
}

/* Second pass: the number of elements and their field are right; only values can be out of range.
 */
static int copy_elements(struct as_oip_parse *c, const struct as_tensor *t, struct as_str message,
                         uint8_t *data)
{
    struct contents_walk w = start_walk(message);
    size_t size = as_dtype_size(t->dtype), at = 0;
    struct as_pb_field f;
    uint64_t i = 0;

    while (next_contents(&w, &f) > 0) {
        int err = 0;

        if (f.number != field_of[t->dtype])
            continue;
        if (t->dtype == AS_DT_BYTES) {
            uint32_t len = (uint32_t)f.s.n;

            memcpy(data + at, &len, 4);
            if (len)
                memcpy(data + at + 4, f.s.p, len);
            at += 4 + f.s.n;
        } else if (f.number == FP32S || f.number == FP64S) {
            size_t n = f.wire == AS_PB_LEN ? f.s.n : size;

            if (n)
                memcpy(data + at, f.wire == AS_PB_LEN ? (const void *)f.s.p : &f.v, n);
            at += n;
        } else {
            err = put_numbers(c, t, data, &f, &i);
        }
        if (err)
            return err;
    }
    return 0;
}

int as_oip_get_typed_contents(struct as_oip_parse *c, struct as_tensor *t, uint64_t n,
                              struct as_str message)
{
    char text[AS_OIP_SHAPE_TEXT];
    struct contents_size s = {0};
    uint64_t bytes;
    uint8_t *data;
    int err = measure_contents(c, t, message, &s);

    if (err)
        return err;
    if (!s.elements && n)
        return as_oip_refuse_tensor(
            c, t, AS_EINVALID, "no data, shape %s of %s needs %llu elements",
            as_oip_shape_text(text, t), as_dtype_name(t->dtype), (unsigned long long)n);
    if (s.elements != n)
        return as_oip_refuse_tensor(c, t, AS_EINVALID, "%llu elements in %s, shape %s needs %llu",
                                    (unsigned long long)s.elements, fields[field_of[t->dtype]].name,
                                    as_oip_shape_text(text, t), (unsigned long long)n);
    if (!n)
        return 0;
    if (s.chunks == 1 && s.chunk.p && (t->dtype == AS_DT_FP32 || t->dtype == AS_DT_FP64)) {
        t->data = (const uint8_t *)s.chunk.p;
        t->nbytes = s.chunk.n;
        return 0;
    }
    bytes = t->dtype == AS_DT_BYTES ? s.bytes + 4 * n : n * as_dtype_size(t->dtype);
    c->typed_bytes += bytes;
    if (c->typed_bytes > c->typed_max)
        return as_oip_refuse_tensor(c, t, AS_EINVALID,
                                    "typed contents take too much memory, use raw_input_contents");
    data = as_arena_alloc(c->arena, (size_t)bytes, 8);
    if (!data)
        return as_oip_refuse(c, AS_ENOMEM, "out of memory");
    t->data = data;
    t->nbytes = (size_t)bytes;
    return copy_elements(c, t, message, data);
}
