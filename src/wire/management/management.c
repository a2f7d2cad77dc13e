#include "wire/management/management.h"

#include "wire/management/management_internal.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb.h"

#include <stdarg.h>

/* --- the fields of proto/worker_management.proto --- */

#define Q(field) offsetof(struct as_management_target, q.field)
#define T(field) offsetof(struct as_management_target, field)
#define S(field) offsetof(struct as_management_spec, field)
#define MESSAGE(text, rows)                                                                        \
    {                                                                                              \
        text, rows, AS_COUNT(rows)                                                                 \
    }

static const struct as_management_field tensor_fields[] = {
    {"name", 1, AS_MANAGEMENT_TEXT, S(name), NULL},
    {"datatype", 2, AS_MANAGEMENT_TEXT, S(datatype), NULL},
    {"shape", 3, AS_MANAGEMENT_SIZES, S(shape), NULL},
    {"labels", 4, AS_MANAGEMENT_LINES, S(labels), NULL},
};
static const struct as_management_message tensor = MESSAGE("TensorSpec", tensor_fields);

static const struct as_management_field signature_fields[] = {
    {"inputs", 1, AS_MANAGEMENT_SPECS, T(inputs), &tensor},
    {"outputs", 2, AS_MANAGEMENT_SPECS, T(outputs), &tensor},
};
static const struct as_management_message signature = MESSAGE("Signature", signature_fields);

static const struct as_management_field option_fields[] = {
    {"max_ongoing_requests", 1, AS_MANAGEMENT_U32, Q(max_ongoing), NULL},
    {"max_queued_requests", 2, AS_MANAGEMENT_I64, Q(max_queued), NULL},
    {"idempotent", 3, AS_MANAGEMENT_FLAG, Q(idempotent), NULL},
};
static const struct as_management_message options = MESSAGE("ModelOptions", option_fields);

static const struct as_management_field register_fields[] = {
    {"model_name", 1, AS_MANAGEMENT_TEXT, Q(model), NULL},
    {"model_version", 2, AS_MANAGEMENT_TEXT, Q(version), NULL},
    {"worker_address", 3, AS_MANAGEMENT_TEXT, Q(address), NULL},
    {"worker_id", 4, AS_MANAGEMENT_TEXT, Q(worker), NULL},
    {"platform", 5, AS_MANAGEMENT_TEXT, Q(platform), NULL},
    {"signature", 6, AS_MANAGEMENT_GROUP, 0, &signature},
    {"options", 7, AS_MANAGEMENT_GROUP, 0, &options},
};
static const struct as_management_field unregister_fields[] = {
    {"model_name", 1, AS_MANAGEMENT_TEXT, Q(model), NULL},
    {"model_version", 2, AS_MANAGEMENT_TEXT, Q(version), NULL},
    {"worker_id", 3, AS_MANAGEMENT_TEXT, Q(worker), NULL},
    {"epoch", 4, AS_MANAGEMENT_U64, Q(epoch), NULL},
};
static const struct as_management_field heartbeat_fields[] = {
    {"worker_id", 1, AS_MANAGEMENT_TEXT, Q(worker), NULL},
    {"model_names", 2, AS_MANAGEMENT_TEXTS, T(models), NULL},
};
static const struct as_management_message requests[AS_MANAGEMENT_RPCS] = {
    [AS_MANAGEMENT_REGISTER] = MESSAGE("RegisterModelRequest", register_fields),
    [AS_MANAGEMENT_UNREGISTER] = MESSAGE("UnregisterModelRequest", unregister_fields),
    [AS_MANAGEMENT_HEARTBEAT] = MESSAGE("HeartbeatRequest", heartbeat_fields),
};

/* --- shared by both readers --- */

int as_management_fail(struct as_management_reader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->why, r->cap, fmt, ap);
    va_end(ap);
    return AS_EINVALID;
}

static int malformed(struct as_management_reader *r, const struct as_management_message *m)
{
    return as_management_fail(r, "malformed %s", m->name);
}

size_t as_management_enter_field(struct as_management_reader *r,
                                 const struct as_management_field *f, int64_t index)
{
    size_t before = strlen(r->path);

    if (index < 0)
        snprintf(r->path + before, sizeof(r->path) - before, "%s.", f->name);
    else
        snprintf(r->path + before, sizeof(r->path) - before, "%s[%ld].", f->name, (long)index);
    return before;
}

/* Appends an element to a list and returns its place; NULL: out of memory. */
static void *list_push(struct as_management_reader *r, struct as_management_list *l, size_t size)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 8;
        uint8_t *p = as_arena_alloc(r->arena, cap * size, 8);

        if (!p)
            return NULL;
        if (l->n)
            memcpy(p, l->p, l->n * size);
        l->p = p;
        l->cap = cap;
    }
    return (uint8_t *)l->p + size * l->n++;
}

int as_management_too_many(struct as_management_reader *r, const struct as_management_field *f,
                           uint32_t most)
{
    return as_management_fail(r, "%s%s: more than %u", r->path, f->name, most);
}

int as_management_add_size(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, int64_t v)
{
    int64_t *p;

    if (l->n == AS_MAX_DIMS)
        return as_management_too_many(r, f, AS_MAX_DIMS);
    if (v < -1)
        return as_management_fail(r, "%s%s[%u]: %ld is below -1", r->path, f->name, l->n, (long)v);
    p = list_push(r, l, sizeof(*p));
    if (!p)
        return AS_ENOMEM;
    *p = v;
    return 0;
}

int as_management_add_text(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, struct as_str s)
{
    bool line = f->kind == AS_MANAGEMENT_LINES;
    uint32_t most = line ? AS_MANAGEMENT_LABELS : AS_MANAGEMENT_MODELS;
    struct as_str *p;

    if (l->n == most)
        return as_management_too_many(r, f, most);
    if (line && s.n > AS_MANAGEMENT_LABEL)
        return as_management_fail(r, "%s%s[%u]: longer than %u bytes", r->path, f->name, l->n,
                                  AS_MANAGEMENT_LABEL);
    if (line && !as_name_check_line(s))
        return as_management_fail(r, "%s%s[%u]: not a line of text", r->path, f->name, l->n);
    p = list_push(r, l, sizeof(*p));
    if (!p)
        return AS_ENOMEM;
    *p = s;
    return 0;
}

static int set_text(struct as_management_reader *r, const struct as_management_field *f, void *to,
                    struct as_str s)
{
    if (!as_name_check_utf8(s))
        return as_management_fail(r, "%s%s: not UTF-8", r->path, f->name);
    if (f->kind != AS_MANAGEMENT_TEXT)
        return as_management_add_text(r, f, to, s);
    *(struct as_str *)to = s;
    return 0;
}

/* Labels are the names of classes; the elements of the output are class numbers. */
static int check_labels(struct as_management_reader *r, const struct as_management_field *side,
                        const struct as_management_spec *s, enum as_dtype dtype)
{
    if (!s->labels.n)
        return 0;
    if (side->at != T(outputs))
        return as_management_fail(r, "%slabels: only outputs have them", r->path);
    if (dtype == AS_DT_BYTES || dtype == AS_DT_BOOL)
        return as_management_fail(r, "%slabels: %s has no classes", r->path, as_dtype_name(dtype));
    return 0;
}

int as_management_add_tensor(struct as_management_reader *r, const struct as_management_field *side,
                             struct as_management_list *l, const struct as_management_spec *s)
{
    enum as_dtype dtype = as_dtype_of(s->datatype);
    struct as_tensor_spec *p;

    if (!s->name.n)
        return as_management_fail(r, "%sname: missing", r->path);
    if (s->name.n > AS_MANAGEMENT_NAME_MAX)
        return as_management_fail(r, "%sname: longer than %u bytes", r->path,
                                  AS_MANAGEMENT_NAME_MAX);
    if (dtype == AS_DT_INVALID)
        return as_management_fail(r, "%sdatatype: '%.*s' is not a datatype (FP32, INT64, BYTES …)",
                                  r->path, AS_STR_CUT(s->datatype, 32));
    if (check_labels(r, side, s, dtype))
        return AS_EINVALID;
    p = list_push(r, l, sizeof(*p));
    if (!p)
        return AS_ENOMEM;
    *p = (struct as_tensor_spec){.name = s->name,
                                 .dtype = dtype,
                                 .ndim = s->shape.n ? s->shape.n : AS_ANY_RANK,
                                 .shape = s->shape.p,
                                 .labels = s->labels.p,
                                 .n_labels = s->labels.n};
    return 0;
}

/* --- protobuf --- */

static int read_pb(struct as_management_reader *r, const struct as_management_message *m,
                   struct as_str bytes, void *to);

static int read_pb_tensor(struct as_management_reader *r, const struct as_management_field *f,
                          struct as_str bytes, struct as_management_list *l)
{
    struct as_management_spec s = {0};
    size_t before;
    int err;

    if (l->n == AS_MANAGEMENT_TENSORS)
        return as_management_too_many(r, f, AS_MANAGEMENT_TENSORS);
    before = as_management_enter_field(r, f, l->n);
    err = read_pb(r, f->of, bytes, &s);
    if (!err)
        err = as_management_add_tensor(r, f, l, &s);
    if (!err)
        r->path[before] = 0;
    return err;
}

static int read_pb_sizes(struct as_management_reader *r, const struct as_management_message *m,
                         const struct as_management_field *f, const struct as_pb_field *v,
                         struct as_management_list *l)
{
    struct as_pb packed = as_pb_of(v->s);
    uint64_t one;
    int err = 0;

    if (v->wire == AS_PB_VARINT)
        return as_management_add_size(r, f, l, (int64_t)v->v);
    while (!err && packed.p != packed.end)
        err = as_pb_varint(&packed, &one) ? malformed(r, m)
                                          : as_management_add_size(r, f, l, (int64_t)one);
    return err;
}

static enum as_pb_wire wire_of(enum as_management_kind k)
{
    return k == AS_MANAGEMENT_FLAG || k == AS_MANAGEMENT_U32 || k == AS_MANAGEMENT_U64 ||
                   k == AS_MANAGEMENT_I64
               ? AS_PB_VARINT
               : AS_PB_LEN;
}

static int read_pb_field(struct as_management_reader *r, const struct as_management_message *m,
                         const struct as_management_field *f, const struct as_pb_field *v, void *to)
{
    size_t before;
    int err;

    switch (f->kind) {
    case AS_MANAGEMENT_FLAG:
        *(bool *)to = v->v != 0;
        return 0;
    case AS_MANAGEMENT_U32: /* as in protobuf: the upper half is cut off */
        *(uint32_t *)to = (uint32_t)v->v;
        return 0;
    case AS_MANAGEMENT_U64:
    case AS_MANAGEMENT_I64:
        *(uint64_t *)to = v->v;
        return 0;
    case AS_MANAGEMENT_TEXT:
    case AS_MANAGEMENT_TEXTS:
    case AS_MANAGEMENT_LINES:
        return set_text(r, f, to, v->s);
    case AS_MANAGEMENT_SIZES:
        return read_pb_sizes(r, m, f, v, to);
    case AS_MANAGEMENT_SPECS:
        return read_pb_tensor(r, f, v->s, to);
    case AS_MANAGEMENT_GROUP:
    default:
        before = as_management_enter_field(r, f, -1);
        err = read_pb(r, f->of, v->s, to);
        if (!err)
            r->path[before] = 0;
        return err;
    }
}

/* The field of the table; NULL: it is unknown (of a later version), or has another type. */
static const struct as_management_field *find_pb_field(const struct as_management_message *m,
                                                       const struct as_pb_field *v)
{
    for (const struct as_management_field *f = m->fields; f < m->fields + m->n; f++) {
        if (f->number == v->number && (v->wire == wire_of(f->kind) ||
                                       (f->kind == AS_MANAGEMENT_SIZES && v->wire == AS_PB_VARINT)))
            return f;
    }
    return NULL;
}

static int read_pb(struct as_management_reader *r, const struct as_management_message *m,
                   struct as_str bytes, void *to)
{
    struct as_pb in = as_pb_of(bytes);
    struct as_pb_field v = {0};
    int more, err = 0;

    while (!err && (more = as_pb_next(&in, &v)) != 0) {
        const struct as_management_field *f;

        if (more < 0)
            return malformed(r, m);
        f = find_pb_field(m, &v);
        if (f)
            err = read_pb_field(r, m, f, &v, (uint8_t *)to + f->at);
    }
    return err;
}

/* --- checks of the whole request --- */

static int check_names(struct as_management_reader *r, const char *side,
                       const struct as_management_list *l)
{
    const struct as_str *twice = as_name_check_duplicate(l->p, sizeof(struct as_tensor_spec), l->n);

    if (!twice)
        return 0;
    return as_management_fail(r, "signature.%s: '%.*s' is given twice", side,
                              (int)AS_MIN(twice->n, (size_t)64), twice->p);
}

static int check_request(struct as_management_reader *r, const struct as_management_target *t,
                         struct as_management_request *ret_q)
{
    int err = check_names(r, "inputs", &t->inputs);

    if (!err)
        err = check_names(r, "outputs", &t->outputs);
    if (err)
        return err;
    *ret_q = t->q;
    ret_q->inputs = t->inputs.p;
    ret_q->n_inputs = t->inputs.n;
    ret_q->outputs = t->outputs.p;
    ret_q->n_outputs = t->outputs.n;
    ret_q->models = t->models.p;
    ret_q->n_models = t->models.n;
    ret_q->unknown = r->unknown;
    return 0;
}

int as_management_parse(enum as_management_rpc rpc, struct as_str message, struct as_arena *a,
                        struct as_management_request *ret_q, char *why, size_t cap)
{
    struct as_management_reader r = {.arena = a, .why = why, .cap = cap};
    struct as_management_target t = {0};
    int err = read_pb(&r, &requests[rpc], message, &t);

    return err ? err : check_request(&r, &t, ret_q);
}

int as_management_parse_json(enum as_management_rpc rpc, struct as_str message, struct as_json *j,
                             struct as_arena *a, struct as_management_request *ret_q, char *why,
                             size_t cap)
{
    struct as_management_reader r = {.arena = a, .json = j, .why = why, .cap = cap};
    struct as_json_value root;
    struct as_management_target t = {0};
    int err = as_json_open(j, a, (const uint8_t *)message.p, message.n, &root);

    if (!err)
        err = as_management_read_json(&r, &requests[rpc], &root, &t);
    if (!err)
        err = as_json_expect_end(j);
    if (err == AS_EPROTO)
        err = as_management_fail(&r, "%s", as_json_why(j));
    as_json_close(j);
    return err ? err : check_request(&r, &t, ret_q);
}

/* --- answers --- */

static void put_number(struct as_buf *out, uint32_t number, uint64_t v)
{
    uint8_t room[11], *p = room;

    if (!v)
        return; /* proto3: zero is left out */
    *p++ = AS_PB_TAG(number, AS_PB_VARINT);
    p = as_pb_put_varint(p, v);
    as_buf_add(out, room, (size_t)(p - room));
}

static void put_text(struct as_buf *out, uint32_t number, struct as_str s)
{
    uint8_t room[11];

    if (!s.n)
        return;
    as_buf_add(out, room, (size_t)(as_pb_put_head(room, number, s.n) - room));
    as_buf_add(out, s.p, s.n);
}

void as_management_put(enum as_management_rpc rpc, const struct as_management_response *r,
                       struct as_buf *out)
{
    if (rpc == AS_MANAGEMENT_HEARTBEAT) {
        put_number(out, 1, r->healthy);
        return;
    }
    put_number(out, 1, 1);
    put_text(out, 2, r->message);
    if (rpc == AS_MANAGEMENT_REGISTER) {
        put_number(out, 3, r->epoch);
        put_number(out, 4, r->heartbeat_ms);
    }
}

void as_management_put_json(enum as_management_rpc rpc, const struct as_management_response *r,
                            struct as_buf *out)
{
    char epoch[24];

    as_json_put_open(out, '{');
    if (rpc == AS_MANAGEMENT_HEARTBEAT) {
        as_json_put_member_bool(out, "healthy", r->healthy);
    } else {
        as_json_put_member_bool(out, "success", true);
        as_json_put_member_string(out, "message", r->message);
    }
    if (rpc == AS_MANAGEMENT_REGISTER) {
        /* 64 bits: a string in protobuf's JSON mapping */
        snprintf(epoch, sizeof(epoch), "%lu", (unsigned long)r->epoch);
        as_json_put_member_text(out, "epoch", epoch);
        as_json_put_member_u64(out, "heartbeatIntervalMs", r->heartbeat_ms);
    }
    as_json_put_close(out, '}');
}
