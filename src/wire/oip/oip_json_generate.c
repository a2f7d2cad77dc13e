/* Parses requests without datatypes and shapes, which the model's signature provides: raw binary
 * requests and generate. */
#include "wire/oip/oip_json_internal.h"

/* --- raw binary --- */

/* Computes the variable sizes of a shape from the number of elements: of several, the last one; the
 * others are 1. 0, or AS_EINVALID: the number does not fit. */
static int solve_shape(const struct as_tensor_spec *s, uint64_t elements, int64_t *shape)
{
    int64_t *variable = NULL;
    uint64_t known = 1;

    for (uint32_t i = 0; i < s->ndim; i++) {
        shape[i] = s->shape[i];
        if (shape[i] >= 0 && __builtin_mul_overflow(known, (uint64_t)shape[i], &known))
            return AS_EINVALID;
        if (shape[i] < 0) {
            if (variable)
                *variable = 1;
            variable = &shape[i];
        }
    }
    if (!variable)
        return known == elements ? 0 : AS_EINVALID;
    if (!known || elements % known)
        return AS_EINVALID;
    *variable = (int64_t)(elements / known);
    return 0;
}

static uint32_t count_variable(const struct as_tensor_spec *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->ndim; i++)
        n += s->shape[i] < 0;
    return n;
}

/* The body as one element of BYTES. It is copied, because its length must precede it. */
static int set_raw_bytes(struct as_oip_parse *c, const uint8_t *p, size_t n, struct as_tensor *t,
                         struct as_blob **ret_blob)
{
    struct as_blob *blob = NULL;
    uint32_t len = (uint32_t)n;
    uint8_t *to;

    if (n > UINT32_MAX)
        return as_oip_refuse_tensor(c, t, AS_EINVALID, "%zu bytes are too long for a BYTES element",
                                    n);
    if (n + 4 > AS_COPY_MAX)
        blob = as_blob_new(n + 4);
    to = n + 4 <= AS_COPY_MAX ? as_arena_alloc(c->arena, n + 4, AS_BLOB_ALIGN)
         : blob               ? blob->data
                              : NULL;
    if (!to)
        return as_oip_refuse(c, AS_ENOMEM, "out of memory");
    memcpy(to, &len, 4);
    if (n)
        memcpy(to + 4, p, n);
    t->data = to;
    t->nbytes = n + 4;
    c->typed_bytes += n + 4;
    *ret_blob = blob;
    return 0;
}

static int set_raw_shape(struct as_oip_parse *c, const struct as_tensor_spec *s, size_t n,
                         struct as_tensor *t)
{
    size_t size = as_dtype_size(s->dtype);
    struct as_tensor_spec any = {.ndim = 1, .shape = (const int64_t[]){-1}};
    const struct as_tensor_spec *want = s->ndim == AS_ANY_RANK ? &any : s;
    struct as_tensor declared = {
        .name = s->name, .dtype = s->dtype, .ndim = want->ndim, .shape = want->shape};
    char text[AS_OIP_SHAPE_TEXT];
    int64_t *shape = as_arena_alloc(c->arena, 8 * (size_t)want->ndim, 8);

    if (!shape)
        return as_oip_refuse(c, AS_ENOMEM, "out of memory");
    t->shape = shape;
    t->ndim = want->ndim;
    if (s->dtype == AS_DT_BYTES) {
        if (solve_shape(want, 1, shape))
            return as_oip_refuse_tensor(
                c, t, AS_EINVALID,
                "a raw request is one element of BYTES, which does not fit the declared shape %s",
                as_oip_shape_text(text, &declared));
        return 0;
    }
    if (count_variable(want) > 1)
        return as_oip_refuse_tensor(
            c, t, AS_EINVALID,
            "a raw request allows one variable size in the declared shape, which is %s",
            as_oip_shape_text(text, &declared));
    if (n % size || solve_shape(want, n / size, shape))
        return as_oip_refuse_tensor(c, t, AS_EINVALID,
                                    "%zu bytes do not fit the declared shape %s of %s", n,
                                    as_oip_shape_text(text, &declared), as_dtype_name(s->dtype));
    return 0;
}

int as_oip_json_parse_raw(const struct as_tensor_spec *inputs, uint32_t n_inputs, const uint8_t *p,
                          size_t n, struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                          size_t cap)
{
    struct as_oip_parse c = {.arena = a, .why = why, .cap = cap};
    struct as_blob *blob = NULL;
    struct as_tensor *t;
    int err;

    if (n_inputs != 1)
        return as_oip_refuse(&c, AS_EINVALID,
                             "a raw binary request needs a model with one declared input, "
                             "this model has %u",
                             n_inputs);
    t = as_arena_alloc(a, sizeof(*t), 8);
    if (!t)
        return as_oip_refuse(&c, AS_ENOMEM, "out of memory");
    *t = (struct as_tensor){.name = inputs->name, .dtype = inputs->dtype, .data = p, .nbytes = n};
    err = set_raw_shape(&c, inputs, n, t);
    if (!err && t->dtype == AS_DT_BYTES)
        err = set_raw_bytes(&c, p, n, t, &blob);
    if (err)
        return err;
    *ret_r = (struct as_oip_infer){
        .inputs = t, .n_inputs = 1, .typed = c.typed_bytes, .blob = blob, .binary_output = true};
    return 0;
}

/* --- generate --- */

/* Counts the elements and finds their nesting, without storing them. */
static int measure_data(struct as_oip_json_parse *q, uint32_t i, struct as_json_elements *ret_e)
{
    struct as_json_value data = q->sources[i].data;
    uint8_t none[8];
    int err = as_json_elements(q->j, &data, q->tensors[i].dtype, 0, none, 0, ret_e);

    if (err == AS_EINVALID)
        return as_oip_json_refuse_tensor(q, i, "%s", ret_e->why);
    return err ? as_oip_json_reader_error(q, err, "") : 0;
}

int as_oip_json_derive_shape(struct as_oip_json_parse *q, uint32_t i,
                             const struct as_tensor_spec *s)
{
    struct as_tensor *t = &q->tensors[i];
    char text[AS_OIP_SHAPE_TEXT];
    struct as_json_elements e;
    bool as_nested;
    int64_t *shape;
    int err = measure_data(q, i, &e);

    if (err)
        return err;
    as_nested = s->ndim == AS_ANY_RANK || (s->ndim == e.ndim && count_variable(s) > 1);
    t->ndim = as_nested ? e.ndim : s->ndim;
    shape = as_arena_alloc(q->c.arena, 8 * (size_t)t->ndim, 8);
    if (!shape)
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    t->shape = shape;
    if (as_nested) {
        memcpy(shape, e.shape, 8 * (size_t)t->ndim);
    } else if (solve_shape(s, e.count, shape)) {
        t->shape = s->shape;
        return as_oip_json_refuse_tensor(q, i, "%llu elements do not fit the declared shape %s",
                                         (unsigned long long)e.count, as_oip_shape_text(text, t));
    }
    q->c.table_bytes += 8 * (size_t)t->ndim;
    return as_oip_check_shape(&q->c, t, &q->sources[i].elements);
}

static int get_generate_member(struct as_oip_json_parse *q, struct as_json_items *it, bool given[2])
{
    const struct as_tensor_spec *s = as_tensor_spec_find(q->specs, q->n_specs, it->key);
    bool is_id = as_str_eq(it->key, AS_STR("id"));
    int err;

    if (s)
        return as_oip_json_add_flat_tensor(q, s->name, s->dtype, &it->value);
    if (!is_id && !as_str_eq(it->key, AS_STR("parameters")))
        return as_oip_json_add_param(q, it->key, &it->value);
    if (given[is_id])
        return as_oip_refuse(&q->c, AS_EINVALID, "key '%s' is given twice",
                             is_id ? "id" : "parameters");
    given[is_id] = true;
    if (!is_id)
        return as_oip_json_get_params(q, &it->value);
    err = as_json_string(q->j, &it->value, &q->id);
    return err ? as_oip_json_reader_error(q, err, "id must be a string") : 0;
}

static int get_generate(struct as_oip_json_parse *q, struct as_json_value *root)
{
    bool given[2] = {false, false}; /* parameters, id */
    struct as_json_items it;
    int err = as_oip_json_items(q, root, AS_JSON_OBJECT, "the body must be a JSON object", &it);

    while (as_oip_json_next(q, &it, &err))
        err = get_generate_member(q, &it, given);
    err = as_oip_json_expect_end(q, err);
    for (uint32_t i = 0; !err && i < q->n_tensors; i++)
        err = as_oip_json_derive_shape(
            q, i, as_tensor_spec_find(q->specs, q->n_specs, q->tensors[i].name));
    return err;
}

int as_oip_json_parse_generate(struct as_json *j, const uint8_t *p, size_t n,
                               const struct as_tensor_spec *inputs, uint32_t n_inputs,
                               struct as_arena *a, struct as_oip_infer *ret_r, char *why,
                               size_t cap)
{
    struct as_oip_json_parse q = {.c = {.arena = a, .why = why, .cap = cap},
                                  .j = j,
                                  .binary_output = -1,
                                  .specs = inputs,
                                  .n_specs = n_inputs};

    return as_oip_json_parse_body(&q, p, n, n, get_generate, ret_r);
}

/* --- errors: the client's side --- */

int as_oip_json_parse_error(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_str *ret_text)
{
    struct as_json_value root;
    struct as_json_items it;
    bool found = false;
    int more, err;

    err = as_json_open(j, a, p, n, &root);
    if (!err)
        err = as_json_items(j, &root, &it);
    while (!err && (more = as_json_next(j, &it)) != 0) {
        if (more < 0) {
            err = more;
        } else if (it.object && as_str_eq(it.key, AS_STR("error"))) {
            err = as_json_string(j, &it.value, ret_text);
            found = !err;
        }
    }
    as_json_close(j);
    return err || !found ? AS_EINVALID : 0;
}
