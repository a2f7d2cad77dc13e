/* Parameters of ModelInfer messages and of their tensors. The server itself uses some parameters of
 * tensors (shared memory, classification); the others are for the model's handler. */
#include "wire/name_check.h"
#include "wire/oip/oip_parse.h"

/* Parses an InferParameter, a oneof: the last field wins. */
static int get_param_value(struct as_oip_parse *c, struct as_param *m, struct as_str value)
{
    static const uint8_t wires[] = {[AS_PARAM_BOOL] = AS_PB_VARINT,
                                    [AS_PARAM_INT64] = AS_PB_VARINT,
                                    [AS_PARAM_STRING] = AS_PB_LEN,
                                    [AS_PARAM_DOUBLE] = AS_PB_I64,
                                    [AS_PARAM_UINT64] = AS_PB_VARINT};
    struct as_pb r = as_pb_of(value);
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number > AS_PARAM_UINT64)
            continue;
        if (f.wire != (enum as_pb_wire)wires[f.number])
            return as_oip_refuse(c, AS_EPROTO, "parameter '%.*s': wrong wire type %d",
                                 AS_OIP_SHOWN(m->name), (int)f.wire);
        m->type = (enum as_param_type)f.number;
        if (m->type == AS_PARAM_STRING) {
            if (!as_name_check_utf8(f.s))
                return as_oip_refuse(c, AS_EINVALID, "parameter '%.*s': string_param is not UTF-8",
                                     AS_OIP_SHOWN(m->name));
            m->str = f.s;
        } else if (m->type == AS_PARAM_BOOL) {
            m->b = f.v != 0;
        } else {
            m->u64 = f.v;
        }
    }
    return more ? as_oip_refuse(c, AS_EPROTO, "parameter '%.*s': malformed value",
                                AS_OIP_SHOWN(m->name))
                : 0;
}

int as_oip_get_param(struct as_oip_parse *c, struct as_param *m, struct as_str entry)
{
    struct as_pb r = as_pb_of(entry);
    struct as_pb_field f;
    bool valued = false;
    int more, err;

    *m = (struct as_param){0};
    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number == 1) {
            if (f.wire != AS_PB_LEN)
                return as_oip_refuse(c, AS_EPROTO, "a parameter's key: wrong wire type %d",
                                     (int)f.wire);
            if (!as_name_check_utf8(f.s))
                return as_oip_refuse(c, AS_EINVALID, "a parameter's key is not valid UTF-8");
            if (f.s.n > UINT16_MAX)
                return as_oip_refuse(c, AS_EINVALID, "parameter '%.*s…': the name is too long",
                                     AS_OIP_SHOWN(f.s));
            m->name = f.s;
        } else if (f.number == 2) {
            if (f.wire != AS_PB_LEN)
                return as_oip_refuse(c, AS_EPROTO, "parameters: wrong wire type %d", (int)f.wire);
            err = get_param_value(c, m, f.s);
            if (err)
                return err;
            valued = valued || m->type;
        }
    }
    if (more)
        return as_oip_refuse(c, AS_EPROTO, "parameters: malformed entry");
    if (!valued)
        return as_oip_refuse(c, AS_EINVALID, "parameter '%.*s' has no value",
                             AS_OIP_SHOWN(m->name));
    return 0;
}

/* --- parameters of one tensor --- */

static int option_number(struct as_oip_parse *c, const char *what, struct as_str name,
                         const struct as_param *m, uint64_t *ret)
{
    if (m->type == AS_PARAM_UINT64 || (m->type == AS_PARAM_INT64 && (int64_t)m->u64 >= 0)) {
        *ret = m->u64;
        return 0;
    }
    return as_oip_refuse(c, AS_EINVALID, "%s '%.*s': parameter '%.*s' must be an integer >= 0",
                         what, AS_OIP_SHOWN(name), AS_OIP_SHOWN(m->name));
}

bool as_oip_is_tensor_option(const char *what, struct as_str key)
{
    return as_str_eq(key, AS_STR("shared_memory_region")) ||
           as_str_eq(key, AS_STR("shared_memory_offset")) ||
           as_str_eq(key, AS_STR("shared_memory_byte_size")) ||
           (what[0] == 'o' && as_str_eq(key, AS_STR("classification")));
}

int as_oip_read_tensor_option(struct as_oip_parse *c, const char *what, struct as_str name,
                              const struct as_param *m, struct as_oip_tensor_options *options)
{
    uint64_t v = 0;
    int err = 0;

    if (!options->given)
        *options = (struct as_oip_tensor_options){0};
    if (as_str_eq(m->name, AS_STR("shared_memory_region"))) {
        if (m->type != AS_PARAM_STRING || !m->str.n)
            return as_oip_refuse(
                c, AS_EINVALID,
                "%s '%.*s': parameter 'shared_memory_region' must be a region's name", what,
                AS_OIP_SHOWN(name));
        options->range.region = m->str;
        options->given |= AS_OIP_OPTION_REGION;
    } else if (as_str_eq(m->name, AS_STR("shared_memory_offset"))) {
        err = option_number(c, what, name, m, &options->range.offset);
        options->given |= AS_OIP_OPTION_OFFSET;
    } else if (as_str_eq(m->name, AS_STR("shared_memory_byte_size"))) {
        err = option_number(c, what, name, m, &options->range.size);
        options->given |= AS_OIP_OPTION_SIZE;
    } else if (what[0] == 'o' && as_str_eq(m->name, AS_STR("classification"))) {
        err = option_number(c, what, name, m, &v);
        options->classification = (uint32_t)AS_MIN(v, (uint64_t)UINT32_MAX);
        options->given |= AS_OIP_OPTION_CLASSES;
    }
    return err;
}

int as_oip_refuse_param_count(struct as_oip_parse *c)
{
    return as_oip_refuse(c, AS_EINVALID, "parameters: more than %u entries%s", AS_OIP_PARAMS_MAX,
                         !c->n_tensor_params ? ""
                         : c->response       ? ", those of outputs included"
                                             : ", those of inputs included");
}

int as_oip_add_tensor_param(struct as_oip_parse *c, const struct as_param *m, uint32_t tensor)
{
    uint32_t n = c->n_tensor_params, cap = n ? 2 * c->cap_tensor_params : 8;

    if (c->n_params + n >= AS_OIP_PARAMS_MAX)
        return as_oip_refuse_param_count(c);
    if (n == c->cap_tensor_params) {
        struct as_tensor_param *p = as_arena_alloc(c->arena, cap * sizeof(*p), 8);

        if (!p)
            return as_oip_refuse(c, AS_ENOMEM, "out of memory");
        if (n)
            memcpy(p, c->tensor_params, n * sizeof(*p));
        c->tensor_params = p;
        c->cap_tensor_params = cap;
    }
    c->tensor_params[n] = (struct as_tensor_param){*m, tensor};
    c->n_tensor_params++;
    /* the size of the link's record, whose names are padded */
    c->table_bytes += 24 + AS_ALIGN(m->name.n + (m->type == AS_PARAM_STRING ? m->str.n : 0), 8);
    return 0;
}

int as_oip_get_tensor_param(struct as_oip_parse *c, const char *what, struct as_str name,
                            const struct as_pb_field *f, struct as_oip_tensor_options *options,
                            uint32_t tensor)
{
    struct as_param m;
    int err;

    if (f->wire != AS_PB_LEN)
        return as_oip_refuse(c, AS_EPROTO, "%s parameters: wrong wire type %d", what, (int)f->wire);
    err = as_oip_get_param(c, &m, f->s);
    if (err)
        return err;
    if (what[0] == 'i' && !as_tensor_param_reserved(m.name))
        return as_oip_add_tensor_param(c, &m, tensor);
    return c->response ? 0 : as_oip_read_tensor_option(c, what, name, &m, options);
}

/* A range needs a region and a size. *ret_any: the tensor has a range. */
static int check_range(struct as_oip_parse *c, const char *what, struct as_str name,
                       const struct as_oip_tensor_options *options, bool *ret_any)
{
    uint8_t given =
        options->given & (AS_OIP_OPTION_REGION | AS_OIP_OPTION_OFFSET | AS_OIP_OPTION_SIZE);

    *ret_any = given;
    if (!given)
        return 0;
    if (!(given & AS_OIP_OPTION_REGION))
        return as_oip_refuse(c, AS_EINVALID,
                             "%s '%.*s': shared_memory_offset or shared_memory_byte_size without "
                             "shared_memory_region",
                             what, AS_OIP_SHOWN(name));
    if (!(given & AS_OIP_OPTION_SIZE))
        return as_oip_refuse(c, AS_EINVALID,
                             "%s '%.*s': shared_memory_region without shared_memory_byte_size",
                             what, AS_OIP_SHOWN(name));
    return 0;
}

static int input_has_contents(struct as_str message)
{
    struct as_pb r = as_pb_of(message);
    struct as_pb_field f;

    while (as_pb_next(&r, &f) > 0) { /* well formed: it was parsed before */
        if (f.number == 5 && as_oip_has_contents(f.s))
            return true;
    }
    return false;
}

/* The size must be that of the shape; BYTES are checked when they are read. */
static int check_size(struct as_oip_parse *c, const struct as_tensor *t, uint64_t size)
{
    char text[AS_OIP_SHAPE_TEXT];
    uint64_t n, need;
    int err = as_oip_check_shape(c, t, &n);

    if (err || t->dtype == AS_DT_BYTES)
        return err;
    need = n * as_dtype_size(t->dtype);
    if (size == need)
        return 0;
    return as_oip_refuse_tensor(c, t, AS_EINVALID,
                                "%llu bytes of shared memory, shape %s of %s needs %llu",
                                (unsigned long long)size, as_oip_shape_text(text, t),
                                as_dtype_name(t->dtype), (unsigned long long)need);
}

int as_oip_check_shm_input(struct as_oip_parse *c, const struct as_tensor *t,
                           const struct as_oip_tensor_options *options)
{
    bool any;
    int err = options->given ? check_range(c, "input", t->name, options, &any) : 0;

    if (err || !options->given || !any)
        return err;
    err = check_size(c, t, options->range.size);
    return err ? err : 1;
}

int as_oip_set_shm_input(struct as_oip_parse *c, struct as_tensor *t,
                         const struct as_oip_tensor_options *options, struct as_str message,
                         uint32_t index)
{
    int err = as_oip_check_shm_input(c, t, options);

    if (err <= 0)
        return err;
    if (input_has_contents(message))
        return as_oip_refuse_tensor(c, t, AS_EINVALID,
                                    "contents and shared_memory_region must not be mixed");
    if (!c->ranges) {
        size_t n = c->n_inputs * sizeof(*c->ranges);

        c->ranges = as_arena_alloc(c->arena, n, 8);
        if (!c->ranges)
            return as_oip_refuse(c, AS_ENOMEM, "out of memory");
        memset(c->ranges, 0, n);
    }
    c->ranges[index] = options->range;
    c->n_shm_inputs++;
    return 1;
}

int as_oip_refuse_raw_count(struct as_oip_parse *c, uint64_t n_raw, uint64_t n_inputs)
{
    return as_oip_refuse(c, AS_EINVALID, "%s: %llu entries for %llu %s",
                         c->response ? "raw_output_contents" : "raw_input_contents",
                         (unsigned long long)n_raw, (unsigned long long)n_inputs,
                         c->response ? "outputs" : "inputs");
}

int as_oip_assign_raw(struct as_oip_parse *c, struct as_tensor *t, uint64_t n_raw)
{
    uint64_t k = n_raw;

    if (n_raw && n_raw != c->n_inputs - c->n_shm_inputs)
        return as_oip_refuse_raw_count(c, n_raw, c->n_inputs - c->n_shm_inputs);
    /* backward, so that an entry is moved before it is overwritten */
    for (uint32_t i = c->n_inputs; i-- > 0;) {
        if (c->ranges[i].region.n) {
            t[i].data = NULL;
            t[i].nbytes = (size_t)c->ranges[i].size;
        } else if (n_raw) {
            k--;
            t[i].data = t[k].data;
            t[i].nbytes = t[k].nbytes;
        }
    }
    return 0;
}

int as_oip_set_output_options(struct as_oip_parse *c, struct as_oip_requested_output *o,
                              const struct as_oip_tensor_options *options)
{
    bool any;
    int err = check_range(c, "output", o->name, options, &any);

    if (err)
        return err;
    if (any && options->classification)
        return as_oip_refuse(c, AS_EINVALID,
                             "output '%.*s': classification and shared_memory_region exclude each "
                             "other",
                             AS_OIP_SHOWN(o->name));
    o->range = options->range;
    o->classification = options->classification;
    c->has_output_range |= any;
    c->has_classification |= options->classification > 0;
    return 0;
}
