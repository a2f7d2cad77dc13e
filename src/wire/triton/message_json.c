#include "wire/triton/message_json.h"

#include "wire/json/json.h"

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    default:
        return 4;
    }
}

static void put_value(const ProtobufCFieldDescriptor *f, const void *at, struct as_buf *out)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
        as_json_put_i64(out, *(const int32_t *)at);
        break;
    case PROTOBUF_C_TYPE_INT64:
        as_json_put_i64(out, *(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        as_json_put_u64(out, *(const uint64_t *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        as_json_put_bool(out, *(const protobuf_c_boolean *)at);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        as_json_put_cstr(
            out, protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)at)->name);
        break;
    case PROTOBUF_C_TYPE_STRING:
        as_json_put_cstr(out, *(char *const *)at);
        break;
    default:
        AS_ASSERT(f->type == PROTOBUF_C_TYPE_MESSAGE);
        as_message_json(*(ProtobufCMessage *const *)at, out);
    }
}

/* Entries of a map are messages of two fields, key and value, whose names end in "Entry". */
static bool is_map(const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = f->descriptor;

    return f->type == PROTOBUF_C_TYPE_MESSAGE && d->n_fields == 2 &&
           strcmp(d->fields[0].name, "key") == 0;
}

static void put_entry(const ProtobufCMessage *entry, struct as_buf *out)
{
    const ProtobufCFieldDescriptor *f = entry->descriptor->fields;

    as_json_put_key(out, *(char *const *)(const void *)((const uint8_t *)entry + f[0].offset));
    put_value(&f[1], (const uint8_t *)entry + f[1].offset, out);
}

static void put_repeated(const ProtobufCFieldDescriptor *f, size_t n, const uint8_t *at,
                         struct as_buf *out)
{
    bool map = is_map(f);

    as_json_put_open(out, map ? '{' : '[');
    for (size_t i = 0; i < n; i++) {
        if (map)
            put_entry(*((ProtobufCMessage *const *)(const void *)at + i), out);
        else
            put_value(f, at + i * size_of(f), out);
    }
    as_json_put_close(out, map ? '}' : ']');
}

static bool is_set(const ProtobufCFieldDescriptor *f, const uint8_t *m, const void *at)
{
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(const void *)(m + f->quantifier_offset) == f->id;
    return f->type != PROTOBUF_C_TYPE_MESSAGE || *(void *const *)at;
}

void as_message_json(const ProtobufCMessage *m, struct as_buf *out)
{
    const uint8_t *p = (const uint8_t *)m;

    as_json_put_open(out, '{');
    for (uint32_t i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        const void *at = p + f->offset, *count = p + f->quantifier_offset;
        bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;

        if (!repeated && !is_set(f, p, at))
            continue;
        as_json_put_key(out, f->name);
        if (repeated)
            put_repeated(f, *(const size_t *)count, *(uint8_t *const *)at, out);
        else
            put_value(f, at, out);
    }
    as_json_put_close(out, '}');
}

void as_message_json_list(void *const *rows, size_t n, struct as_buf *out)
{
    as_json_put_open(out, '[');
    for (size_t i = 0; i < n; i++)
        as_message_json(rows[i], out);
    as_json_put_close(out, ']');
}

int as_message_put(const ProtobufCMessage *m, bool json, struct as_buf *out)
{
    if (!json)
        return as_pb_pack(m, out);
    as_message_json(m, out);
    return 0;
}
