/* The client's side of the OIP service: writes requests, parses metadata and stream responses. */
#include "wire/name_check.h"
#include "wire/oip/oip.h"
#include "wire/oip/oip_parse.h"
#include "wire/protobuf/pb.h"

enum { REQUESTED = 6, RAW = 7 };                                        /* of ModelInferRequest */
enum { NAME = 1, VERSIONS = 2, PLATFORM = 3, INPUTS = 4, OUTPUTS = 5 }; /* of the metadata */
enum { ERROR_MESSAGE = 1, INFER_RESPONSE = 2 };                         /* of a stream's response */

size_t as_oip_request_head_len(const struct as_oip_request *r)
{
    size_t n = as_oip_response_head_len(&r->head);

    for (uint32_t i = 0; i < r->n_outputs; i++)
        n += as_pb_len_len(as_pb_opt_len(r->outputs[i].name));
    return n;
}

uint64_t as_oip_request_len(const struct as_oip_request *r)
{
    return as_oip_message_len(as_oip_request_head_len(r), r->head.outputs, r->head.n_outputs);
}

void as_oip_put_request_head(uint8_t *out, const struct as_oip_request *r)
{
    uint8_t *p = out + as_oip_response_head_len(&r->head);

    as_oip_put_response_head(out, &r->head);
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        p = as_pb_put_head(p, REQUESTED, as_pb_opt_len(r->outputs[i].name));
        p = as_pb_put_opt(p, NAME, r->outputs[i].name);
    }
}

size_t as_oip_put_request_raw_head(uint8_t out[AS_OIP_RAW_HEAD_MAX], size_t nbytes)
{
    return (size_t)(as_pb_put_head(out, RAW, nbytes) - out);
}

void as_oip_put_request(uint8_t *out, const struct as_oip_request *r)
{
    uint8_t *p = out + as_oip_request_head_len(r);

    as_oip_put_request_head(out, r);
    for (uint32_t i = 0; i < r->head.n_outputs; i++) {
        const struct as_tensor *t = &r->head.outputs[i];

        p = as_pb_put_str(p, RAW, (struct as_str){(const char *)t->data, t->nbytes});
    }
}

void as_oip_put_name_version(struct as_buf *out, struct as_str name, struct as_str version)
{
    uint8_t *p = as_buf_reserve(out, as_pb_opt_len(name) + as_pb_opt_len(version));

    p = as_pb_put_opt(as_pb_put_opt(p, NAME, name), VERSIONS, version);
    out->n = (size_t)(p - out->p);
}

static int get_spec(struct as_arena *a, struct as_str message, struct as_tensor_spec *s)
{
    struct as_pb r = as_pb_of(message);
    int64_t shape[AS_MAX_DIMS], *copy;
    struct as_pb_field f = {0};
    int more, err = 0;

    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number == 3)
            err = as_oip_get_shape(&f, shape, &s->ndim);
        else if (f.number <= 2 && (f.wire != AS_PB_LEN || !as_name_check_utf8(f.s)))
            err = AS_EPROTO;
        else if (f.number == 1)
            s->name = f.s;
        else if (f.number == 2)
            s->dtype = as_dtype_of(f.s);
        if (err)
            return err;
    }
    if (more)
        return AS_EPROTO;
    copy = as_arena_alloc(a, 8 * (size_t)s->ndim, 8);
    if (!copy)
        return AS_ENOMEM;
    memcpy(copy, shape, 8 * (size_t)s->ndim);
    s->shape = copy;
    return 0;
}

/* First pass: reads scalar fields and counts the entries of each field. */
static int count_fields(struct as_pb r, struct as_oip_model *m, uint32_t count[OUTPUTS + 1])
{
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number > OUTPUTS)
            continue;
        if (f.wire != AS_PB_LEN || (f.number <= PLATFORM && !as_name_check_utf8(f.s)))
            return AS_EPROTO;
        if (++count[f.number] > AS_OIP_TENSORS_MAX && f.number != NAME && f.number != PLATFORM)
            return AS_EINVALID;
        if (f.number == NAME)
            m->name = f.s;
        else if (f.number == PLATFORM)
            m->platform = f.s;
    }
    return more ? AS_EPROTO : 0;
}

int as_oip_parse_model(const uint8_t *p, size_t n, struct as_arena *a, struct as_oip_model *ret_m)
{
    struct as_pb r = as_pb_of((struct as_str){(const char *)p, n}), again = r;
    uint32_t count[OUTPUTS + 1] = {0};
    struct as_tensor_spec *specs;
    struct as_oip_model m = {0};
    struct as_str *versions;
    struct as_pb_field f;
    int err = count_fields(r, &m, count);

    if (err)
        return err;
    versions = as_arena_alloc(a, count[VERSIONS] * sizeof(*versions), 8);
    specs = as_arena_alloc(a, (count[INPUTS] + count[OUTPUTS]) * sizeof(*specs), 8);
    if (!versions || !specs)
        return AS_ENOMEM;
    memset(specs, 0, (count[INPUTS] + count[OUTPUTS]) * sizeof(*specs));
    m.versions = versions;
    m.inputs = specs;
    m.outputs = specs + count[INPUTS];
    while (!err && as_pb_next(&again, &f) > 0) {
        if (f.number == VERSIONS)
            versions[m.n_versions++] = f.s;
        else if (f.number == INPUTS)
            err = get_spec(a, f.s, &specs[m.n_inputs++]);
        else if (f.number == OUTPUTS)
            err = get_spec(a, f.s, &specs[count[INPUTS] + m.n_outputs++]);
    }
    if (!err)
        *ret_m = m;
    return err;
}

int as_oip_parse_stream_response(const uint8_t *p, size_t n, struct as_str *ret_error,
                                 struct as_str *ret_response)
{
    struct as_pb r = as_pb_of((struct as_str){(const char *)p, n});
    struct as_str error = AS_STR(""), response = {NULL, 0};
    struct as_pb_field f;
    int more;

    while ((more = as_pb_next(&r, &f)) > 0) {
        if (f.number != ERROR_MESSAGE && f.number != INFER_RESPONSE)
            continue;
        if (f.wire != AS_PB_LEN || (f.number == ERROR_MESSAGE && !as_name_check_utf8(f.s)))
            return AS_EPROTO;
        if (f.number == ERROR_MESSAGE)
            error = f.s;
        else /* an empty response is a response, too */
            response = (struct as_str){f.s.p ? f.s.p : "", f.s.n};
    }
    if (more)
        return AS_EPROTO;
    *ret_error = error;
    *ret_response = response;
    return 0;
}
