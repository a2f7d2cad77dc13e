/* Parses ModelInferRequest and ModelInferResponse: fields, tensors, requested outputs. The two
 * messages have the same fields 1 to 5 and the same tensors. Parameters: oip_param.c; typed
 * contents: oip_typed.c. */
#include "wire/oip/oip.h"

#include "wire/name_check.h"
#include "wire/oip/oip_parse.h"

#include <stdarg.h>

enum { MODEL = 1, VERSION = 2, ID = 3, PARAMS = 4, INPUTS = 5, OUTPUTS = 6, RAW = 7, FIELDS = 8 };

static const char *const field_name[FIELDS] = {
    [MODEL] = "model_name",       [VERSION] = "model_version", [ID] = "id",
    [PARAMS] = "parameters",      [INPUTS] = "inputs",         [OUTPUTS] = "outputs",
    [RAW] = "raw_input_contents",
};

AS_PRINTF(4, 0)
static int vrefuse(struct as_oip_parse *c, size_t at, int err, const char *fmt, va_list ap)
{
    if (at < c->cap)
        vsnprintf(c->why + at, c->cap - at, fmt, ap);
    return err;
}

int as_oip_refuse(struct as_oip_parse *c, int err, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vrefuse(c, 0, err, fmt, ap);
    va_end(ap);
    return err;
}

int as_oip_refuse_tensor(struct as_oip_parse *c, const struct as_tensor *t, int err,
                         const char *fmt, ...)
{
    int n = snprintf(c->why, c->cap, "%s '%.*s': ", c->response ? "output" : "input",
                     AS_OIP_SHOWN(t->name));
    va_list ap;

    va_start(ap, fmt);
    vrefuse(c, n < 0 ? 0 : (size_t)n, err, fmt, ap);
    va_end(ap);
    return err;
}

const char *as_oip_shape_text(char out[AS_OIP_SHAPE_TEXT], const struct as_tensor *t)
{
    size_t n = 1;

    out[0] = '[';
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (n > AS_OIP_SHAPE_TEXT - 28) { /* room for a size, a comma and "…]" */
            n += (size_t)snprintf(out + n, AS_OIP_SHAPE_TEXT - n, ",…");
            break;
        }
        n += (size_t)snprintf(out + n, AS_OIP_SHAPE_TEXT - n, "%s%lld", i ? "," : "",
                              (long long)t->shape[i]);
    }
    snprintf(out + n, AS_OIP_SHAPE_TEXT - n, "]");
    return out;
}

/* Reads a LEN field that must be UTF-8. */
static int get_text(struct as_oip_parse *c, const struct as_pb_field *f, const char *what,
                    struct as_str *ret)
{
    if (f->wire != AS_PB_LEN)
        return as_oip_refuse(c, AS_EPROTO, "%s: wrong wire type %d", what, (int)f->wire);
    if (!as_name_check_utf8(f->s))
        return as_oip_refuse(c, AS_EINVALID, "%s is not valid UTF-8", what);
    *ret = f->s;
    return 0;
}

int as_oip_get_shape(const struct as_pb_field *f, int64_t *shape, uint32_t *n)
{
    struct as_pb r = as_pb_of(f->s);
    uint64_t v = f->v;

    if (f->wire != AS_PB_LEN && f->wire != AS_PB_VARINT)
        return AS_EPROTO;
    if (f->wire == AS_PB_LEN && !f->s.n)
        return 0;
    do {
        if (f->wire == AS_PB_LEN && as_pb_varint(&r, &v))
            return AS_EPROTO;
        if (*n == AS_MAX_DIMS)
            return AS_EINVALID;
        shape[(*n)++] = (int64_t)v;
    } while (f->wire == AS_PB_LEN && r.p != r.end);
    return 0;
}

static int get_shape(struct as_oip_parse *c, const struct as_tensor *t, const struct as_pb_field *f,
                     int64_t *shape, uint32_t *n)
{
    int err = as_oip_get_shape(f, shape, n);

    if (!err)
        return 0;
    if (err == AS_EINVALID)
        return as_oip_refuse_tensor(c, t, err, "more than %d dimensions", AS_MAX_DIMS);
    if (f->wire == AS_PB_LEN)
        return as_oip_refuse_tensor(c, t, err, "shape: malformed number");
    return as_oip_refuse_tensor(c, t, err, "shape: wrong wire type %d", (int)f->wire);
}

int as_oip_check_shape(struct as_oip_parse *c, const struct as_tensor *t, uint64_t *ret_n)
{
    char text[AS_OIP_SHAPE_TEXT];

    if (!as_tensor_elements(t->dtype, t->shape, t->ndim, ret_n))
        return 0;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return as_oip_refuse_tensor(c, t, AS_EINVALID, "shape %s has a negative size",
                                        as_oip_shape_text(text, t));
    }
    return as_oip_refuse_tensor(c, t, AS_EINVALID, "shape %s of %s is too large",
                                as_oip_shape_text(text, t), as_dtype_name(t->dtype));
}

/* Reads one field of an InferInputTensor. `raw`: the message has raw contents. */
static int get_input_field(struct as_oip_parse *c, struct as_tensor *t, const struct as_pb_field *f,
                           bool raw, struct as_str *datatype, int64_t *shape,
                           struct as_oip_tensor_options *options, uint32_t index)
{
    int has;

    switch (f->number) {
    case 1:
        return get_text(c, f, "an input's name", &t->name);
    case 2: /* no check for UTF-8: unknown names are refused later */
        if (f->wire != AS_PB_LEN)
            return as_oip_refuse_tensor(c, t, AS_EPROTO, "datatype: wrong wire type %d",
                                        (int)f->wire);
        *datatype = f->s;
        return 0;
    case 3:
        return get_shape(c, t, f, shape, &t->ndim);
    case 4:
        return as_oip_get_tensor_param(c, "input", t->name, f, options, index);
    case 5:
        if (f->wire != AS_PB_LEN)
            return as_oip_refuse_tensor(c, t, AS_EPROTO, "contents: wrong wire type %d",
                                        (int)f->wire);
        has = raw ? as_oip_has_contents(f->s) : 0;
        if (has < 0)
            return as_oip_refuse_tensor(c, t, AS_EPROTO, "contents: malformed");
        return has ? as_oip_refuse_tensor(c, t, AS_EINVALID,
                                          "contents and raw_input_contents must not be mixed")
                   : 0;
    default:
        return 0;
    }
}

static const char *tensors_field(const struct as_oip_parse *c)
{
    return c->response ? "outputs" : "inputs";
}

/* Parses one InferInputTensor, the index-th. The caller sets raw data, before or after this. */
static int get_input(struct as_oip_parse *c, struct as_tensor *t, struct as_str message, bool raw,
                     uint32_t index)
{
    struct as_pb r = as_pb_of(message);
    struct as_str datatype = {0};
    int64_t shape[AS_MAX_DIMS];
    uint32_t first_param = c->n_tensor_params;
    struct as_oip_tensor_options options;
    struct as_pb_field f;
    uint64_t elements;
    int64_t *copy;
    int more, err;

    options.given = 0;
    while ((more = as_pb_next(&r, &f)) > 0) {
        err = get_input_field(c, t, &f, raw, &datatype, shape, &options, index);
        if (err)
            return err;
    }
    if (more)
        return as_oip_refuse(c, AS_EPROTO, "%s[%u]: malformed protobuf", tensors_field(c), index);
    if (!t->name.n)
        return as_oip_refuse(c, AS_EINVALID, "%s[%u] has no name", tensors_field(c), index);
    if (t->name.n > UINT16_MAX)
        return as_oip_refuse_tensor(c, t, AS_EINVALID, "the name is longer than %d bytes",
                                    UINT16_MAX);
    t->dtype = as_dtype_of(datatype);
    if (t->dtype == AS_DT_INVALID)
        return as_oip_refuse_tensor(c, t, AS_EINVALID, "unknown datatype '%.*s'",
                                    AS_OIP_SHOWN(datatype));
    copy = as_arena_alloc(c->arena, 8 * (size_t)t->ndim, 8);
    if (!copy)
        return as_oip_refuse(c, AS_ENOMEM, "out of memory");
    memcpy(copy, shape, 8 * (size_t)t->ndim);
    t->shape = copy;
    c->table_bytes += 32 + 8 * (size_t)t->ndim + AS_ALIGN(t->name.n, 8);
    if (__builtin_expect(c->n_tensor_params > first_param, 0))
        c->n_tensor_params =
            first_param + as_name_check_keep_last(c->tensor_params + first_param,
                                                  sizeof(*c->tensor_params),
                                                  c->n_tensor_params - first_param);
    if (__builtin_expect(options.given, 0)) {
        err = as_oip_set_shm_input(c, t, &options, message, index);
        if (err)
            return AS_MIN(err, 0);
    }
    if (raw) /* size and shape are checked together, when both are known */
        return 0;
    err = as_oip_check_shape(c, t, &elements);
    return err ? err : as_oip_get_typed_contents(c, t, elements, message);
}

static int get_output(struct as_oip_parse *c, struct as_oip_requested_output *o,
                      struct as_str message, uint32_t index)
{
    struct as_pb r = as_pb_of(message);
    struct as_oip_tensor_options options;
    struct as_pb_field f;
    int more, err = 0;

    options.given = 0;
    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number == 1)
            err = get_text(c, &f, "an output's name", &o->name);
        else if (f.number == 2)
            err = as_oip_get_tensor_param(c, "output", o->name, &f, &options, index);
        if (err)
            return err;
    }
    if (more)
        return as_oip_refuse(c, AS_EPROTO, "outputs[%u]: malformed protobuf", index);
    if (!o->name.n)
        return as_oip_refuse(c, AS_EINVALID, "outputs[%u] has no name", index);
    return options.given ? as_oip_set_output_options(c, o, &options) : 0;
}

/* as_pb_next, but skips unknown fields, and gives fields of a response their numbers in a request.
 */
static inline int next_field(const struct as_oip_parse *c, struct as_pb *r, struct as_pb_field *f)
{
    int more;

    while ((more = as_pb_next(r, f)) > 0) {
        if (__builtin_expect(c->response, 0) && f->number >= OUTPUTS)
            f->number = f->number == OUTPUTS ? RAW : FIELDS;
        if (f->number < FIELDS)
            break;
    }
    return more;
}

/* First pass: reads scalar fields, checks wire types and limits, counts the entries of each field.
 */
static int get_scalars(struct as_oip_parse *c, struct as_pb r, struct as_oip_infer *m,
                       uint64_t count[FIELDS])
{
    struct as_str *text[] = {[MODEL] = &m->model, [VERSION] = &m->version, [ID] = &m->id};
    struct as_pb_field f;
    int more;

    while ((more = next_field(c, &r, &f)) > 0) {
        if (f.wire != AS_PB_LEN)
            return as_oip_refuse(c, AS_EPROTO, "%s: wrong wire type %d", field_name[f.number],
                                 (int)f.wire);
        count[f.number]++;
        if (f.number <= ID)
            *text[f.number] = f.s;
    }
    if (more)
        return as_oip_refuse(c, AS_EPROTO, "malformed protobuf");
    for (int i = MODEL; i <= ID; i++) {
        if (!as_name_check_utf8(*text[i]))
            return as_oip_refuse(c, AS_EINVALID, "%s is not valid UTF-8", field_name[i]);
        c->has_duplicates |= count[i] > 1;
    }
    for (int i = PARAMS; i <= OUTPUTS; i++) {
        uint32_t limit = i == PARAMS ? AS_OIP_PARAMS_MAX : AS_OIP_TENSORS_MAX;

        if (count[i] > limit)
            return as_oip_refuse(c, AS_EINVALID, "%s: more than %u entries", field_name[i], limit);
    }
    /* the exact number is checked when the inputs are known: some may be in shared memory */
    if (count[RAW] > count[INPUTS])
        return as_oip_refuse_raw_count(c, count[RAW], count[INPUTS]);
    c->n_inputs = (uint32_t)count[INPUTS];
    c->n_params = (uint32_t)count[PARAMS];
    c->table_bytes = AS_ALIGN(m->id.n, 8);
    return 0;
}

/* Second pass: fills the arrays, whose sizes are known now. */
static int get_entries(struct as_oip_parse *c, struct as_pb r, bool raw, struct as_tensor *t,
                       struct as_param *p, struct as_oip_requested_output *o)
{
    uint32_t n[FIELDS] = {0};
    struct as_pb_field f;
    int err = 0;

    while (!err && next_field(c, &r, &f) > 0) {
        if (f.number == INPUTS) {
            err = get_input(c, &t[n[INPUTS]], f.s, raw, n[INPUTS]);
        } else if (f.number == RAW) {
            t[n[RAW]].data = (const uint8_t *)f.s.p;
            t[n[RAW]].nbytes = f.s.n;
        } else if (f.number == PARAMS) {
            err = as_oip_get_param(c, &p[n[PARAMS]], f.s);
            c->table_bytes +=
                f.s.n + 24; /* at least the size of the link's record, whose names are padded */
        } else if (f.number == OUTPUTS) {
            err = get_output(c, &o[n[OUTPUTS]], f.s, n[OUTPUTS]);
        } else {
            continue;
        }
        n[f.number]++;
    }
    return err;
}

int as_oip_check_raw(struct as_oip_parse *c, const struct as_tensor *t)
{
    char text[AS_OIP_SHAPE_TEXT];
    uint64_t n;
    int err = as_oip_check_shape(c, t, &n);
    unsigned long long need;

    if (err)
        return err;
    if (t->dtype == AS_DT_BYTES) {
        if (as_tensor_check_bytes(t->data, t->nbytes, n))
            return as_oip_refuse_tensor(
                c, t, AS_EINVALID,
                "%zu bytes of raw data are not the %llu BYTES elements of shape %s", t->nbytes,
                (unsigned long long)n, as_oip_shape_text(text, t));
        return 0;
    }
    need = n * as_dtype_size(t->dtype);
    if (t->nbytes != need)
        return as_oip_refuse_tensor(c, t, AS_EINVALID,
                                    "%zu bytes of raw data, shape %s of %s needs %llu", t->nbytes,
                                    as_oip_shape_text(text, t), as_dtype_name(t->dtype), need);
    return 0;
}

static int parse_message(struct as_oip_parse *c, struct as_str message, struct as_oip_infer *ret_r)
{
    struct as_pb r = as_pb_of(message);
    struct as_oip_infer m = {0};
    uint64_t count[FIELDS] = {0};
    const struct as_str *duplicate;
    struct as_oip_requested_output *outputs;
    struct as_param *params;
    struct as_tensor *inputs;
    size_t size;
    int err = get_scalars(c, r, &m, count);

    if (err)
        return err;
    size = (size_t)count[INPUTS] * sizeof(*inputs) + (size_t)count[PARAMS] * sizeof(*params) +
           (size_t)count[OUTPUTS] * sizeof(*outputs);
    inputs = as_arena_alloc(c->arena, size, 8);
    if (!inputs)
        return as_oip_refuse(c, AS_ENOMEM, "out of memory");
    memset(inputs, 0, size);
    params = (struct as_param *)(inputs + count[INPUTS]);
    outputs = (struct as_oip_requested_output *)(params + count[PARAMS]);
    err = get_entries(c, r, count[RAW], inputs, params, outputs);
    if (!err && (c->n_shm_inputs || (count[RAW] && count[RAW] != count[INPUTS])))
        err = as_oip_assign_raw(c, inputs, count[RAW]);
    for (uint32_t i = 0; !err && count[RAW] && i < count[INPUTS]; i++)
        err = c->n_shm_inputs && c->ranges[i].region.n ? 0 : as_oip_check_raw(c, &inputs[i]);
    if (err)
        return err;
    if (c->table_bytes > AS_OIP_TABLE_MAX)
        return as_oip_refuse(c, AS_EINVALID,
                             "id, names, shapes and parameters take %llu bytes, the limit is %u",
                             (unsigned long long)c->table_bytes, AS_OIP_TABLE_MAX);
    m.n_inputs = (uint32_t)count[INPUTS];
    duplicate = as_name_check_duplicate(inputs, sizeof(*inputs), m.n_inputs);
    if (duplicate)
        return as_oip_refuse(c, AS_EINVALID, "%s '%.*s' is given twice",
                             c->response ? "output" : "input", AS_OIP_SHOWN(*duplicate));
    m.n_params = as_name_check_keep_last(params, sizeof(*params), (uint32_t)count[PARAMS]);
    m.n_outputs = as_name_check_keep_last(outputs, sizeof(*outputs), (uint32_t)count[OUTPUTS]);
    m.inputs = inputs;
    m.ranges = c->ranges;
    m.has_output_range = c->has_output_range;
    m.has_classification = c->has_classification;
    m.params = params;
    m.tensor_params = (struct as_tensor_params){c->tensor_params, c->n_tensor_params};
    m.outputs = outputs;
    m.typed = c->typed_bytes;
    *ret_r = m;
    return 0;
}

int as_oip_parse_infer(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_infer *ret_r,
                       char *why, size_t cap)
{
    struct as_oip_parse c = {.arena = a, .why = why, .cap = cap, .typed_max = n + AS_OIP_TYPED_MAX};

    return parse_message(&c, (struct as_str){(const char *)p, n}, ret_r);
}

int as_oip_parse_response(const uint8_t *p, size_t n, struct as_arena *a,
                          struct as_oip_response *ret_r, char *why, size_t cap)
{
    struct as_oip_parse c = {
        .arena = a, .why = why, .cap = cap, .typed_max = n + AS_OIP_TYPED_MAX, .response = true};
    struct as_oip_infer m;
    int err = parse_message(&c, (struct as_str){(const char *)p, n}, &m);

    if (err)
        return err;
    *ret_r = as_oip_response_of(&m);
    ret_r->has_duplicates = c.has_duplicates;
    return 0;
}

int as_oip_parse_name_version(const uint8_t *p, size_t n, struct as_str *ret_name,
                              struct as_str *ret_version)
{
    struct as_str text[2] = {{0}};
    struct as_pb r = as_pb_of((struct as_str){(const char *)p, n});
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number > 2)
            continue;
        if (f.wire != AS_PB_LEN || !as_name_check_utf8(f.s))
            return AS_EPROTO;
        text[f.number - 1] = f.s;
    }
    if (more)
        return AS_EPROTO;
    *ret_name = text[0];
    *ret_version = text[1];
    return 0;
}
