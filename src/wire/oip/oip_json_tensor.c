/* Parses an entry of "inputs", or of a response's "outputs": everything but the elements in "data".
 */
#include "wire/name_check.h"
#include "wire/oip/oip_json_internal.h"

/* as_oip_json_reader_error, naming the tensor. */
static int tensor_reader_error(struct as_oip_json_parse *q, uint32_t i, int err, const char *what)
{
    return err == AS_EINVALID ? as_oip_json_refuse_tensor(q, i, "%s", what)
                              : as_oip_json_reader_error(q, err, what);
}

/* as_oip_json_items, naming the tensor. */
static int tensor_items(struct as_oip_json_parse *q, uint32_t i, struct as_json_value *v,
                        enum as_json_type type, const char *what, struct as_json_items *ret_it)
{
    if (v->type != type)
        return as_oip_json_refuse_tensor(q, i, "%s", what);
    return as_oip_json_items(q, v, type, what, ret_it);
}

enum { NAME, DATATYPE, SHAPE, PARAMETERS, DATA, KEYS };

static const char *const key_name[KEYS] = {"name", "datatype", "shape", "parameters", "data"};

static int get_tensor_shape(struct as_oip_json_parse *q, uint32_t i, struct as_json_value *v)
{
    struct as_tensor *t = &q->tensors[i];
    int64_t shape[AS_MAX_DIMS], *copy;
    struct as_json_items it;
    uint32_t n = 0;
    int err = tensor_items(q, i, v, AS_JSON_ARRAY, "shape must be an array of integers", &it);

    while (as_oip_json_next(q, &it, &err)) {
        if (n == AS_MAX_DIMS)
            return as_oip_json_refuse_tensor(q, i, "more than %d dimensions", AS_MAX_DIMS);
        err = as_json_i64(q->j, &it.value, &shape[n++]);
        if (err)
            return tensor_reader_error(q, i, err, "shape must be an array of integers");
    }
    if (err)
        return err;
    copy = as_arena_alloc(q->c.arena, 8 * (size_t)n, 8);
    if (!copy)
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    memcpy(copy, shape, 8 * (size_t)n);
    t->shape = copy;
    t->ndim = n;
    return 0;
}

/* Adds a parameter that the server does not use itself. An array or an object cannot be a
 * parameter; it is ignored, because clients of other servers send such values. */
static int add_tensor_param(struct as_oip_json_parse *q, uint32_t i, struct as_str name,
                            struct as_json_value *v)
{
    struct as_param m = {.name = name};
    int err;

    if (v->type == AS_JSON_ARRAY || v->type == AS_JSON_OBJECT)
        return 0;
    if (name.n > UINT16_MAX)
        return as_oip_json_refuse_tensor(q, i, "parameter '%.*s…': the name is too long",
                                         AS_OIP_SHOWN(name));
    err = as_oip_json_get_param_value(q, &m, v);
    return err ? err : as_oip_add_tensor_param(&q->c, &m, i);
}

/* Reads a tensor's parameters: shared memory and binary_data_size are used here, the others are
 * added to tensor_params. */
static int get_tensor_params(struct as_oip_json_parse *q, uint32_t i, struct as_json_value *v)
{
    struct as_oip_json_source *s = &q->sources[i];
    uint32_t first_param = q->c.n_tensor_params;
    const struct as_str *duplicate;
    struct as_json_items it;
    int err = tensor_items(q, i, v, AS_JSON_OBJECT, "parameters must be an object", &it);

    while (as_oip_json_next(q, &it, &err)) {
        if (!q->c.response && as_oip_is_tensor_option("input", it.key)) {
            err = as_oip_json_get_tensor_option(q, "input", q->tensors[i].name, &it, &s->options);
        } else if (!as_tensor_param_reserved(it.key)) {
            err = add_tensor_param(q, i, it.key, &it.value);
        } else if (as_str_eq(it.key, AS_STR("binary_data_size"))) {
            if (s->has_size)
                return as_oip_json_refuse_tensor(q, i,
                                                 "parameter 'binary_data_size' is given twice");
            err = as_json_u64(q->j, &it.value, &s->size);
            if (err)
                return tensor_reader_error(
                    q, i, err, "parameter 'binary_data_size' must be an integer, 0 or greater");
            s->has_size = true;
        }
    }
    if (err)
        return err;
    duplicate =
        as_name_check_duplicate(q->c.tensor_params + first_param, sizeof(*q->c.tensor_params),
                                q->c.n_tensor_params - first_param);
    return duplicate ? as_oip_json_refuse_tensor(q, i, "parameter '%.*s' is given twice",
                                                 AS_OIP_SHOWN(*duplicate))
                     : 0;
}

static int get_tensor_member(struct as_oip_json_parse *q, uint32_t i, uint32_t key,
                             struct as_json_value *v, struct as_str *datatype)
{
    struct as_oip_json_source *s = &q->sources[i];
    int err;

    switch (key) {
    case NAME:
        err = as_json_string(q->j, v, &q->tensors[i].name);
        return err ? tensor_reader_error(q, i, err, "name must be a string") : 0;
    case DATATYPE:
        err = as_json_string(q->j, v, datatype);
        return err ? tensor_reader_error(q, i, err, "datatype must be a string") : 0;
    case SHAPE:
        return get_tensor_shape(q, i, v);
    case PARAMETERS:
        return get_tensor_params(q, i, v);
    case DATA:
    default:
        err = as_json_defer(q->j, v, &s->data, &s->len);
        s->has_data = true;
        return err ? as_oip_json_reader_error(q, err, "") : 0;
    }
}

/* Checks everything that can be checked before the data are read. */
static int check_tensor(struct as_oip_json_parse *q, uint32_t i, struct as_str datatype,
                        uint32_t given)
{
    struct as_oip_json_source *s = &q->sources[i];
    struct as_tensor *t = &q->tensors[i];
    int in_shm;

    if (!t->name.n)
        return as_oip_refuse(&q->c, AS_EINVALID, "%s[%u] has no name", as_oip_json_tensors_key(q),
                             i);
    if (t->name.n > UINT16_MAX)
        return as_oip_json_refuse_tensor(q, i, "the name is longer than %d bytes", UINT16_MAX);
    if (!(given & 1u << DATATYPE))
        return as_oip_json_refuse_tensor(q, i, "datatype is missing");
    t->dtype = as_dtype_of(datatype);
    if (t->dtype == AS_DT_INVALID)
        return as_oip_json_refuse_tensor(q, i, "unknown datatype '%.*s'", AS_OIP_SHOWN(datatype));
    if (!(given & 1u << SHAPE))
        return as_oip_json_refuse_tensor(q, i, "shape is missing");
    in_shm = as_oip_check_shm_input(&q->c, t, &s->options);
    if (in_shm < 0)
        return in_shm;
    if (in_shm && (s->has_data || s->has_size))
        return as_oip_json_refuse_tensor(q, i, "data and shared_memory_region must not be mixed");
    if (s->has_data && s->has_size)
        return as_oip_json_refuse_tensor(q, i, "data and binary_data_size must not be mixed");
    if (!s->has_data && !s->has_size && !in_shm)
        return as_oip_json_refuse_tensor(q, i, "neither data nor binary_data_size is given");
    q->c.table_bytes += 32 + 8 * (size_t)t->ndim + AS_ALIGN(t->name.n, 8);
    if (in_shm) {
        s->in_shm = true;
        q->c.n_shm_inputs++;
        t->nbytes = (size_t)s->options.range.size;
        return 0;
    }
    if (s->has_data)
        return as_oip_check_shape(&q->c, t, &s->elements);
    if (s->size > (uint64_t)(q->binary_end - q->binary))
        return as_oip_json_refuse_tensor(
            q, i,
            "binary_data_size is %llu, but only %zu bytes of binary data are left in the body",
            (unsigned long long)s->size, (size_t)(q->binary_end - q->binary));
    t->data = q->binary;
    t->nbytes = (size_t)s->size;
    q->binary += t->nbytes;
    return as_oip_check_raw(&q->c, t);
}

int as_oip_json_get_tensor(struct as_oip_json_parse *q, struct as_json_value *v)
{
    uint32_t i = q->n_tensors, given = 0;
    struct as_str datatype = {0};
    struct as_json_items it;
    int err = as_oip_json_add_tensor(q);

    if (!err)
        err = tensor_items(q, i, v, AS_JSON_OBJECT, "expected an object", &it);
    while (as_oip_json_next(q, &it, &err)) {
        uint32_t key = 0;

        while (key < KEYS && !as_str_eq(it.key, as_str_of(key_name[key])))
            key++;
        if (key == KEYS)
            continue;
        if (given & 1u << key)
            return as_oip_json_refuse_tensor(q, i, "key '%s' is given twice", key_name[key]);
        given |= 1u << key;
        err = get_tensor_member(q, i, key, &it.value, &datatype);
    }
    return err ? err : check_tensor(q, i, datatype, given);
}
