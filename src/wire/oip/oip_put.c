/* Writes responses of the OIP service: one pass computes sizes, a second one writes bytes. */
#include "wire/oip/oip.h"
#include "wire/oip/oip_parse.h"
#include "wire/protobuf/pb.h"

#define MESSAGE_MAX ((uint64_t)INT32_MAX)

static size_t param_value_len(const struct as_param *m)
{
    switch (m->type) {
    case AS_PARAM_BOOL:
        return 2;
    case AS_PARAM_STRING:
        return as_pb_len_len(m->str.n);
    case AS_PARAM_DOUBLE:
        return 9;
    case AS_PARAM_INT64:
    case AS_PARAM_UINT64:
    default:
        return 1 + as_pb_varint_len(m->u64);
    }
}

static uint8_t *put_param_value(uint8_t *p, const struct as_param *m)
{
    switch (m->type) {
    case AS_PARAM_STRING:
        return as_pb_put_str(p, AS_PARAM_STRING, m->str);
    case AS_PARAM_DOUBLE:
        *p++ = AS_PB_TAG(AS_PARAM_DOUBLE, AS_PB_I64);
        memcpy(p, &m->f64, 8);
        return p + 8;
    case AS_PARAM_BOOL:
    case AS_PARAM_INT64:
    case AS_PARAM_UINT64:
    default:
        *p++ = AS_PB_TAG((unsigned)m->type, AS_PB_VARINT);
        return as_pb_put_varint(p, m->type == AS_PARAM_BOOL ? m->b : m->u64);
    }
}

/* Length of one map entry, without its own tag and length. */
static size_t param_len(const struct as_param *m)
{
    return as_pb_len_len(m->name.n) + as_pb_len_len(param_value_len(m));
}

static size_t shape_len(const int64_t *shape, uint32_t ndim)
{
    size_t n = 0;

    for (uint32_t i = 0; i < ndim; i++)
        n += as_pb_varint_len((uint64_t)shape[i]);
    return n;
}

/* InferOutputTensor and TensorMetadata have the same first three fields. */
static size_t tensor_len(struct as_str name, enum as_dtype t, const int64_t *shape, uint32_t ndim)
{
    return as_pb_opt_len(name) + as_pb_len_len(strlen(as_dtype_name(t))) +
           (ndim ? as_pb_len_len(shape_len(shape, ndim)) : 0);
}

static uint8_t *put_tensor(uint8_t *p, struct as_str name, enum as_dtype t, const int64_t *shape,
                           uint32_t ndim)
{
    p = as_pb_put_opt(p, 1, name);
    p = as_pb_put_str(p, 2, as_str_of(as_dtype_name(t)));
    if (!ndim)
        return p;
    p = as_pb_put_head(p, 3, shape_len(shape, ndim));
    for (uint32_t i = 0; i < ndim; i++)
        p = as_pb_put_varint(p, (uint64_t)shape[i]);
    return p;
}

/* --- an output in shared memory: three parameters --- */

#define RANGE_PARAMS 3u

static void range_params(const struct as_oip_shm_range *r, struct as_param out[RANGE_PARAMS])
{
    out[0] = (struct as_param){
        .name = AS_STR("shared_memory_region"), .type = AS_PARAM_STRING, .str = r->region};
    out[1] = (struct as_param){
        .name = AS_STR("shared_memory_offset"), .type = AS_PARAM_INT64, .u64 = r->offset};
    out[2] = (struct as_param){
        .name = AS_STR("shared_memory_byte_size"), .type = AS_PARAM_INT64, .u64 = r->size};
}

static const struct as_oip_shm_range *range_of(const struct as_oip_response *r, uint32_t i)
{
    return r->ranges && r->ranges[i].region.n ? &r->ranges[i] : NULL;
}

static size_t range_len(const struct as_oip_shm_range *r)
{
    struct as_param p[RANGE_PARAMS];
    size_t n = 0;

    range_params(r, p);
    for (uint32_t i = 0; i < RANGE_PARAMS; i++)
        n += as_pb_len_len(param_len(&p[i]));
    return n;
}

static uint8_t *put_param(uint8_t *p, const struct as_param *m)
{
    p = as_pb_put_head(p, 4, param_len(m));
    p = as_pb_put_str(p, 1, m->name);
    p = as_pb_put_head(p, 2, param_value_len(m));
    return put_param_value(p, m);
}

static uint8_t *put_range(uint8_t *at, const struct as_oip_shm_range *r)
{
    struct as_param p[RANGE_PARAMS];

    range_params(r, p);
    for (uint32_t i = 0; i < RANGE_PARAMS; i++)
        at = put_param(at, &p[i]);
    return at;
}

/* Returns the end of output i's parameters; `at`: the first of them. */
static uint32_t tensor_params_end(const struct as_oip_response *r, uint32_t i, uint32_t at)
{
    while (at < r->tensor_params.n && r->tensor_params.at[at].tensor == i)
        at++;
    return at;
}

/* `at` and `end`: the range of its parameters. */
static size_t output_len(const struct as_oip_response *r, uint32_t i, uint32_t at, uint32_t end)
{
    const struct as_tensor *t = &r->outputs[i];
    const struct as_oip_shm_range *range = range_of(r, i);
    size_t n = tensor_len(t->name, t->dtype, t->shape, t->ndim) + (range ? range_len(range) : 0);

    for (; at < end; at++)
        n += as_pb_len_len(param_len(&r->tensor_params.at[at].param));
    return n;
}

/* --- responses --- */

size_t as_oip_response_head_len(const struct as_oip_response *r)
{
    size_t n = as_pb_opt_len(r->model) + as_pb_opt_len(r->version) + as_pb_opt_len(r->id);
    uint32_t at = 0;

    for (uint32_t i = 0; i < r->n_params; i++)
        n += as_pb_len_len(param_len(&r->params[i]));
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        uint32_t end = tensor_params_end(r, i, at);

        n += as_pb_len_len(output_len(r, i, at, end));
        at = end;
    }
    return n;
}

uint64_t as_oip_message_len(size_t head, const struct as_tensor *t, uint32_t n_tensors)
{
    uint64_t n = head;

    for (uint32_t i = 0; i < n_tensors; i++) {
        if (n > MESSAGE_MAX || t[i].nbytes > MESSAGE_MAX)
            return UINT64_MAX;
        n += as_pb_len_len(t[i].nbytes);
    }
    return n > MESSAGE_MAX ? UINT64_MAX : n;
}

uint64_t as_oip_response_len(const struct as_oip_response *r)
{
    return as_oip_message_len(as_oip_response_head_len(r), r->outputs, r->n_outputs);
}

static uint8_t *put_head(uint8_t *p, const struct as_oip_response *r)
{
    uint32_t at = 0;

    p = as_pb_put_opt(p, 1, r->model);
    p = as_pb_put_opt(p, 2, r->version);
    p = as_pb_put_opt(p, 3, r->id);
    for (uint32_t i = 0; i < r->n_params; i++)
        p = put_param(p, &r->params[i]);
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        const struct as_tensor *t = &r->outputs[i];
        const struct as_oip_shm_range *range = range_of(r, i);
        uint32_t end = tensor_params_end(r, i, at);

        p = as_pb_put_head(p, 5, output_len(r, i, at, end));
        p = put_tensor(p, t->name, t->dtype, t->shape, t->ndim);
        if (range)
            p = put_range(p, range);
        for (; at < end; at++)
            p = put_param(p, &r->tensor_params.at[at].param);
    }
    return p;
}

void as_oip_put_response_head(uint8_t *out, const struct as_oip_response *r)
{
    put_head(out, r);
}

size_t as_oip_put_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX], size_t nbytes)
{
    return (size_t)(as_pb_put_head(out, 6, nbytes) - out);
}

void as_oip_put_response(uint8_t *out, const struct as_oip_response *r)
{
    uint8_t *p = put_head(out, r);

    for (uint32_t i = 0; i < r->n_outputs; i++)
        p = as_pb_put_str(p, 6,
                          (struct as_str){(const char *)r->outputs[i].data, r->outputs[i].nbytes});
}

void as_oip_put_live(struct as_buf *out, bool live)
{
    static const uint8_t yes[] = {AS_PB_TAG(1, AS_PB_VARINT), 1};

    if (live)
        as_buf_add(out, yes, sizeof(yes));
}

static void add_str(struct as_buf *out, uint32_t number, struct as_str s)
{
    uint8_t *p = as_buf_reserve(out, as_pb_len_len(s.n));

    out->n += (size_t)(as_pb_put_str(p, number, s) - p);
}

static void add_opt(struct as_buf *out, uint32_t number, struct as_str s)
{
    if (s.n)
        add_str(out, number, s);
}

void as_oip_put_server(struct as_buf *out, const struct as_oip_server *s)
{
    add_opt(out, 1, s->name);
    add_opt(out, 2, s->version);
    for (uint32_t i = 0; i < s->n_extensions; i++)
        add_str(out, 3, s->extensions[i]);
}

static void add_specs(struct as_buf *out, uint32_t number, const struct as_tensor_spec *s,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ndim = s[i].ndim == AS_ANY_RANK ? 0 : s[i].ndim;
        size_t len = tensor_len(s[i].name, s[i].dtype, s[i].shape, ndim);
        uint8_t *p = as_buf_reserve(out, as_pb_len_len(len)), *end;

        end = put_tensor(as_pb_put_head(p, number, len), s[i].name, s[i].dtype, s[i].shape, ndim);
        out->n += (size_t)(end - p);
    }
}

void as_oip_put_model(struct as_buf *out, const struct as_oip_model *m)
{
    add_opt(out, 1, m->name);
    for (uint32_t i = 0; i < m->n_versions; i++)
        add_str(out, 2, m->versions[i]);
    add_opt(out, 3, m->platform);
    add_specs(out, 4, m->inputs, m->n_inputs);
    add_specs(out, 5, m->outputs, m->n_outputs);
}
