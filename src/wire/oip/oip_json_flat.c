#include "wire/oip/oip_json_flat.h"

#include "wire/oip/oip_json_internal.h"

static const struct as_tensor_spec any_rank = {.ndim = AS_ANY_RANK};

/* --- requests --- */

/* Whether the server will derive t's shape from its elements: the rules of
 * as_oip_json_parse_generate. */
static bool same_shape(const struct as_tensor *t, const struct as_tensor_spec *s)
{
    uint32_t variable = 0, last = 0;
    bool nested, empty = false;

    for (uint32_t i = 0; i < s->ndim; i++) {
        variable += s->shape[i] < 0;
        last = s->shape[i] < 0 ? i : last;
    }
    for (uint32_t i = 0; i < t->ndim; i++)
        empty = empty || t->shape[i] == 0;
    nested = t->ndim == s->ndim && variable > 1 && !empty;
    if (t->ndim != s->ndim)
        return false;
    for (uint32_t i = 0; i < s->ndim; i++) {
        if (s->shape[i] >= 0 ? t->shape[i] != s->shape[i]
                             : !nested && i != last && t->shape[i] != 1)
            return false;
    }
    return true;
}

int as_oip_json_flat_fits(const struct as_tensor *t, const struct as_tensor_spec *spec, char *why,
                          size_t cap)
{
    struct as_oip_parse c = {.why = why, .cap = cap};
    char text[AS_OIP_SHAPE_TEXT], declared[AS_OIP_SHAPE_TEXT];

    if (!spec)
        return as_oip_refuse_tensor(
            &c, t, AS_EINVALID,
            "generate needs a declared input, and the model does not declare this one");
    if (t->dtype != spec->dtype)
        return as_oip_refuse_tensor(&c, t, AS_EINVALID,
                                    "generate needs the declared datatype %s, not %s",
                                    as_dtype_name(spec->dtype), as_dtype_name(t->dtype));
    if (spec->ndim && spec->ndim != AS_ANY_RANK && !same_shape(t, spec)) {
        const struct as_tensor want = {.ndim = spec->ndim, .shape = spec->shape};

        return as_oip_refuse_tensor(&c, t, AS_EINVALID,
                                    "generate needs the declared shape %s, not %s",
                                    as_oip_shape_text(declared, &want), as_oip_shape_text(text, t));
    }
    return 0;
}

/* The number of bytes that the n elements at p take. */
static size_t elements_size(enum as_dtype t, const uint8_t *p, int64_t n)
{
    size_t at = 0;
    uint32_t len;

    if (t != AS_DT_BYTES)
        return (size_t)n * as_dtype_size(t);
    for (; n > 0; n--) {
        memcpy(&len, p + at, 4);
        at += 4 + len;
    }
    return at;
}

/* Writes the elements at p, with brackets for the dimensions from `dim` on. Returns the end of the
 * elements, or NULL: BYTES that are not UTF-8. */
static const uint8_t *put_values(struct as_buf *b, const struct as_tensor *t, uint32_t dim,
                                 const uint8_t *p)
{
    int64_t n = dim < t->ndim ? t->shape[dim] : 1;
    uint64_t max;
    size_t len;

    if (dim < t->ndim)
        as_json_put_open(b, '[');
    if (dim + 1 < t->ndim) {
        for (int64_t i = 0; p && i < n; i++)
            p = put_values(b, t, dim + 1, p);
    } else if (n) {
        len = elements_size(t->dtype, p, n);
        max = as_json_elements_max(t->dtype, p, len);
        if (max == UINT64_MAX)
            return NULL;
        b->n += as_json_put_elements(as_buf_reserve(b, (size_t)max), t->dtype, p, len);
        p += len;
    }
    if (dim < t->ndim)
        as_json_put_close(b, ']');
    return p;
}

static void put_json_param(struct as_buf *b, const struct as_param *p)
{
    as_json_put_escaped_key(b, p->name);
    switch (p->type) {
    case AS_PARAM_BOOL:
        as_json_put_bool(b, p->b);
        break;
    case AS_PARAM_INT64:
        as_json_put_i64(b, p->i64);
        break;
    case AS_PARAM_UINT64:
        as_json_put_u64(b, p->u64);
        break;
    case AS_PARAM_DOUBLE:
        as_json_put_f64(b, p->f64);
        break;
    default:
        as_json_put_string(b, p->str);
    }
}

int as_oip_json_flat_put(struct as_buf *b, const struct as_oip_request *r, char *why, size_t cap)
{
    const struct as_oip_response *h = &r->head;
    struct as_oip_parse c = {.why = why, .cap = cap};

    as_json_put_open(b, '{');
    if (h->id.n)
        as_json_put_member_string(b, "id", h->id);
    if (h->n_params) {
        as_json_put_member_open(b, "parameters", '{');
        for (uint32_t i = 0; i < h->n_params; i++)
            put_json_param(b, &h->params[i]);
        as_json_put_close(b, '}');
    }
    for (uint32_t i = 0; i < h->n_outputs; i++) {
        static const uint8_t none[1];
        const struct as_tensor *t = &h->outputs[i];

        as_json_put_escaped_key(b, t->name);
        if (!put_values(b, t, 0, t->data ? t->data : none))
            return as_oip_refuse_tensor(&c, t, AS_EINVALID,
                                        "BYTES that are not UTF-8 cannot be sent as JSON");
    }
    as_json_put_close(b, '}');
    return 0;
}

/* --- responses --- */

/* Reads id, model_name, model_version, parameters or an output. One of these names is an output if
 * it is declared as such, or if its value has another type: an output replaces a member of its
 * name. */
static int get_response_member(struct as_oip_json_parse *q, const struct as_tensor_spec *s,
                               struct as_json_items *it)
{
    struct {
        const char *name;
        struct as_str *to;
    } words[] = {{"id", &q->id}, {"model_name", &q->model}, {"model_version", &q->version}};
    int err;

    if (!s && it->value.type == AS_JSON_OBJECT && as_str_eq(it->key, AS_STR("parameters")))
        return as_oip_json_get_params(q, &it->value);
    for (size_t i = 0; !s && it->value.type == AS_JSON_STRING && i < AS_COUNT(words); i++) {
        if (!as_str_eq(it->key, as_str_of(words[i].name)))
            continue;
        err = as_json_string(q->j, &it->value, words[i].to);
        return err ? as_oip_json_reader_error(q, err,
                                              "id, model_name and model_version must be strings")
                   : 0;
    }
    return as_oip_json_add_flat_tensor(q, it->key, s ? s->dtype : AS_DT_INVALID, &it->value);
}

/* The body is {"error": text}, without anything that a model's response has. */
static bool is_error(struct as_oip_json_parse *q, struct as_str *ret_error)
{
    struct as_json_value v;

    if (q->n_tensors != 1 || q->model.n || q->tensors[0].dtype != AS_DT_INVALID ||
        !as_str_eq(q->tensors[0].name, AS_STR("error")))
        return false;
    v = q->sources[0].data;
    return v.type == AS_JSON_STRING && as_json_string(q->j, &v, ret_error) == 0;
}

/* Sets the first datatype that all elements fit. */
static int guess_dtype(struct as_oip_json_parse *q, uint32_t i)
{
    static const enum as_dtype order[] = {AS_DT_INT64, AS_DT_UINT64, AS_DT_FP64, AS_DT_BOOL,
                                          AS_DT_BYTES};
    struct as_json_elements e = {.why = ""};
    uint8_t none[8];

    for (size_t k = 0; k < AS_COUNT(order); k++) {
        struct as_json_value v = q->sources[i].data;
        int err = as_json_elements(q->j, &v, order[k], 0, none, 0, &e);

        if (err && err != AS_EINVALID)
            return as_oip_json_reader_error(q, err, "");
        if (!err) {
            q->tensors[i].dtype = order[k];
            return 0;
        }
    }
    return as_oip_json_refuse_tensor(q, i, "its values do not fit any datatype");
}

static int find_types(struct as_oip_json_parse *q)
{
    int err = 0;

    for (uint32_t i = 0; i < q->n_tensors && !err; i++) {
        const struct as_tensor_spec *s =
            as_tensor_spec_find(q->specs, q->n_specs, q->tensors[i].name);

        if (q->tensors[i].dtype == AS_DT_INVALID)
            err = guess_dtype(q, i);
        if (!err)
            err = as_oip_json_derive_shape(q, i, s && s->ndim ? s : &any_rank);
    }
    return err;
}

/* An error has no outputs. */
static int get_response(struct as_oip_json_parse *q, struct as_json_value *root)
{
    struct as_json_items it;
    int err = as_oip_json_items(q, root, AS_JSON_OBJECT, "the body must be a JSON object", &it);

    while (as_oip_json_next(q, &it, &err))
        err = get_response_member(q, as_tensor_spec_find(q->specs, q->n_specs, it.key), &it);
    err = as_oip_json_expect_end(q, err);
    if (err || !is_error(q, &q->error))
        return err ? err : find_types(q);
    q->n_tensors = q->n_params = 0;
    return 0;
}

int as_oip_json_flat_parse(struct as_json *j, const uint8_t *p, size_t n,
                           const struct as_tensor_spec *outputs, uint32_t n_outputs,
                           struct as_arena *a, struct as_oip_response *ret_r,
                           struct as_blob **ret_blob, struct as_str *ret_error, char *why,
                           size_t cap)
{
    struct as_oip_json_parse q = {.c = {.arena = a, .why = why, .cap = cap, .response = true},
                                  .j = j,
                                  .specs = outputs,
                                  .n_specs = n_outputs};
    struct as_oip_infer m = {.n_inputs = 0};
    int err = as_oip_json_parse_body(&q, p, n, n, get_response, &m);

    if (err)
        return err;
    *ret_error = q.error;
    *ret_blob = m.blob;
    *ret_r = as_oip_response_of(&m);
    return 0;
}
