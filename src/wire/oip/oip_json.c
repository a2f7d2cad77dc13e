/* Parses inference requests and responses in JSON with binary data. One pass over the text reads
 * everything but the tensors' data. Data in JSON are read afterwards (oip_json_fill.c), directly
 * into their final memory: keys may come in any order, and only then the datatypes and shapes are
 * known. */
#include "wire/oip/oip_json.h"

#include "wire/name_check.h"
#include "wire/oip/oip_json_internal.h"

#include <stdarg.h>

/* --- errors --- */

int as_oip_json_reader_error(struct as_oip_json_parse *q, int err, const char *what)
{
    if (err == AS_EPROTO)
        return as_oip_refuse(&q->c, AS_EINVALID, "%s", as_json_why(q->j));
    if (err == AS_ENOMEM)
        return as_oip_refuse(&q->c, AS_ENOMEM, "out of memory");
    return as_oip_refuse(&q->c, AS_EINVALID, "%s", what);
}

int as_oip_json_refuse_tensor(struct as_oip_json_parse *q, uint32_t i, const char *fmt, ...)
{
    const struct as_tensor *t = &q->tensors[i];
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (t->name.n)
        return as_oip_refuse_tensor(&q->c, t, AS_EINVALID, "%s", text);
    return as_oip_refuse(&q->c, AS_EINVALID, "%s[%u]: %s", as_oip_json_tensors_key(q), i, text);
}

int as_oip_json_items(struct as_oip_json_parse *q, struct as_json_value *v, enum as_json_type type,
                      const char *what, struct as_json_items *ret_it)
{
    int err;

    if (v->type != type)
        return as_oip_refuse(&q->c, AS_EINVALID, "%s", what);
    err = as_json_items(q->j, v, ret_it);
    return err ? as_oip_json_reader_error(q, err, "") : 0;
}

bool as_oip_json_next(struct as_oip_json_parse *q, struct as_json_items *it, int *err)
{
    int more = 0;

    while (!*err && (more = as_json_next(q->j, it)) > 0 && it->object &&
           as_oip_json_is_absent(&it->value))
        ;
    if (more < 0)
        *err = as_oip_json_reader_error(q, more, "");
    return !*err && more > 0;
}

int as_oip_json_expect_end(struct as_oip_json_parse *q, int err)
{
    int rc = err ? 0 : as_json_expect_end(q->j);

    return rc ? as_oip_json_reader_error(q, rc, "") : err;
}

/* --- arrays that grow --- */

/* Makes room for one more entry in an array in the arena. Returns the array; NULL: out of memory.
 */
static void *grow_array(struct as_arena *a, void *old, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t more = *cap ? 2 * *cap : 4;
    void *p;

    if (n < *cap)
        return old;
    p = as_arena_alloc(a, more * size, 8);
    if (!p)
        return NULL;
    if (n)
        memcpy(p, old, n * size);
    *cap = more;
    return p;
}

int as_oip_json_add_tensor(struct as_oip_json_parse *q)
{
    uint32_t n = q->n_tensors, cap = q->cap_tensors;

    if (n == AS_OIP_TENSORS_MAX)
        return as_oip_refuse(&q->c, AS_EINVALID, "%s: more than %u entries",
                             as_oip_json_tensors_key(q), AS_OIP_TENSORS_MAX);
    q->tensors = grow_array(q->c.arena, q->tensors, n, &cap, sizeof(*q->tensors));
    q->sources = grow_array(q->c.arena, q->sources, n, &q->cap_tensors, sizeof(*q->sources));
    if (!q->tensors || !q->sources)
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    q->tensors[n] = (struct as_tensor){0};
    q->sources[n] = (struct as_oip_json_source){0};
    q->n_tensors++;
    return 0;
}

int as_oip_json_add_flat_tensor(struct as_oip_json_parse *q, struct as_str name, enum as_dtype t,
                                struct as_json_value *v)
{
    uint32_t i = q->n_tensors;
    int err = as_oip_json_add_tensor(q);

    if (err)
        return err;
    q->tensors[i].name = name;
    q->tensors[i].dtype = t;
    q->c.table_bytes += 32 + AS_ALIGN(name.n, 8);
    q->sources[i].has_data = q->sources[i].allow_scalar = true;
    err = as_json_defer(q->j, v, &q->sources[i].data, &q->sources[i].len);
    return err ? as_oip_json_reader_error(q, err, "") : 0;
}

/* --- parameters --- */

int as_oip_json_get_param_value(struct as_oip_json_parse *q, struct as_param *m,
                                struct as_json_value *v)
{
    struct as_json_value as_u64 = *v, as_f64 = *v;
    int err;

    switch (v->type) {
    case AS_JSON_BOOL:
        m->type = AS_PARAM_BOOL;
        err = as_json_bool(q->j, v, &m->b);
        break;
    case AS_JSON_STRING:
        m->type = AS_PARAM_STRING;
        err = as_json_string(q->j, v, &m->str);
        break;
    case AS_JSON_NUMBER:
        m->type = AS_PARAM_INT64;
        err = as_json_i64(q->j, v, &m->i64);
        if (err == AS_EINVALID) {
            m->type = AS_PARAM_UINT64;
            err = as_json_u64(q->j, &as_u64, &m->u64);
        }
        if (err == AS_EINVALID) {
            m->type = AS_PARAM_DOUBLE;
            err = as_json_f64(q->j, &as_f64, &m->f64);
        }
        break;
    case AS_JSON_NULL:
    case AS_JSON_ARRAY:
    case AS_JSON_OBJECT:
    default:
        err = as_json_skip(q->j, v);
        if (!err)
            err = AS_EINVALID;
    }
    if (err == AS_EINVALID)
        return as_oip_refuse(&q->c, err, "parameter '%.*s': expected a string, a number or a bool",
                             AS_OIP_SHOWN(m->name));
    return err ? as_oip_json_reader_error(q, err, "") : 0;
}

int as_oip_json_get_tensor_option(struct as_oip_json_parse *q, const char *what, struct as_str name,
                                  struct as_json_items *it, struct as_oip_tensor_options *options)
{
    struct as_param m = {.name = it->key};
    int err = as_oip_json_get_param_value(q, &m, &it->value);

    return err ? err : as_oip_read_tensor_option(&q->c, what, name, &m, options);
}

int as_oip_json_add_param(struct as_oip_json_parse *q, struct as_str name, struct as_json_value *v)
{
    struct as_param *m;
    int err;

    if (as_oip_json_is_absent(v))
        return 0;
    if (q->n_params + q->c.n_tensor_params >= AS_OIP_PARAMS_MAX)
        return as_oip_refuse_param_count(&q->c);
    if (name.n > UINT16_MAX)
        return as_oip_refuse(&q->c, AS_EINVALID, "parameter '%.*s…': the name is too long",
                             AS_OIP_SHOWN(name));
    q->params = grow_array(q->c.arena, q->params, q->n_params, &q->cap_params, sizeof(*m));
    if (!q->params)
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    m = &q->params[q->n_params++];
    q->c.n_params = q->n_params;
    *m = (struct as_param){.name = name};
    err = as_oip_json_get_param_value(q, m, v);
    if (err)
        return err;
    /* at least the size of the link's record, whose names are padded */
    q->c.table_bytes += 40 + name.n + (m->type == AS_PARAM_STRING ? m->str.n : 0);
    return 0;
}

int as_oip_json_get_params(struct as_oip_json_parse *q, struct as_json_value *v)
{
    struct as_json_items it;
    bool yes;
    int err = as_oip_json_items(q, v, AS_JSON_OBJECT, "parameters must be an object", &it);

    while (as_oip_json_next(q, &it, &err)) {
        if (q->c.response || !as_str_eq(it.key, AS_STR("binary_data_output"))) {
            err = as_oip_json_add_param(q, it.key, &it.value);
            continue;
        }
        if (q->binary_output >= 0)
            return as_oip_refuse(&q->c, AS_EINVALID,
                                 "parameter 'binary_data_output' is given twice");
        err = as_json_bool(q->j, &it.value, &yes);
        if (err)
            return as_oip_json_reader_error(q, err,
                                            "parameter 'binary_data_output' must be a bool");
        q->binary_output = yes;
    }
    return err;
}

/* --- one requested output --- */

static int get_output_params(struct as_oip_json_parse *q, const struct as_oip_requested_output *o,
                             struct as_json_value *v, int8_t *binary,
                             struct as_oip_tensor_options *options)
{
    struct as_json_items it;
    bool yes;
    int err = as_oip_json_items(q, v, AS_JSON_OBJECT, "outputs: parameters must be an object", &it);

    while (as_oip_json_next(q, &it, &err)) {
        if (as_oip_is_tensor_option("output", it.key)) {
            err = as_oip_json_get_tensor_option(q, "output", o->name, &it, options);
        } else if (as_str_eq(it.key, AS_STR("binary_data"))) {
            err = as_json_bool(q->j, &it.value, &yes);
            if (err)
                return as_oip_json_reader_error(q, err,
                                                "outputs: parameter 'binary_data' must be a bool");
            *binary = yes;
        }
    }
    return err;
}

static int get_requested_output(struct as_oip_json_parse *q, struct as_json_value *v,
                                int8_t *binary)
{
    struct as_oip_requested_output *o = &q->outputs[q->n_outputs];
    struct as_oip_tensor_options options = {0};
    struct as_json_items it;
    int err;

    *o = (struct as_oip_requested_output){0};
    *binary = -1;
    if (v->type != AS_JSON_OBJECT)
        return as_oip_refuse(&q->c, AS_EINVALID, "outputs[%u]: expected an object", q->n_outputs);
    err = as_oip_json_items(q, v, AS_JSON_OBJECT, "", &it);
    while (as_oip_json_next(q, &it, &err)) {
        if (as_str_eq(it.key, AS_STR("name"))) {
            if (o->name.n)
                return as_oip_refuse(&q->c, AS_EINVALID, "outputs[%u]: key 'name' is given twice",
                                     q->n_outputs);
            err = as_json_string(q->j, &it.value, &o->name);
            if (err)
                return as_oip_json_reader_error(q, err, "outputs: name must be a string");
        } else if (as_str_eq(it.key, AS_STR("parameters"))) {
            err = get_output_params(q, o, &it.value, binary, &options);
        }
    }
    if (err)
        return err;
    if (!o->name.n)
        return as_oip_refuse(&q->c, AS_EINVALID, "outputs[%u] has no name", q->n_outputs);
    q->n_outputs++;
    return options.given ? as_oip_set_output_options(&q->c, o, &options) : 0;
}

/* binary_choices gets each output's binary_data (-1: not given). They are applied after the whole
 * text was read, because the request's binary_data_output may come later. */
static int get_outputs(struct as_oip_json_parse *q, struct as_json_value *v,
                       int8_t **binary_choices)
{
    uint32_t cap = 0;
    struct as_json_items it;
    int err = as_oip_json_items(q, v, AS_JSON_ARRAY, "outputs must be an array", &it);

    while (as_oip_json_next(q, &it, &err)) {
        uint32_t n = q->n_outputs;

        if (n == AS_OIP_TENSORS_MAX)
            return as_oip_refuse(&q->c, AS_EINVALID, "outputs: more than %u entries",
                                 AS_OIP_TENSORS_MAX);
        q->outputs = grow_array(q->c.arena, q->outputs, n, &q->cap_outputs, sizeof(*q->outputs));
        *binary_choices = grow_array(q->c.arena, *binary_choices, n, &cap, 1);
        if (!q->outputs || !*binary_choices)
            return as_oip_json_reader_error(q, AS_ENOMEM, "");
        err = get_requested_output(q, &it.value, &(*binary_choices)[n]);
    }
    return err;
}

/* --- the whole message --- */

enum { R_ID, R_PARAMETERS, R_TENSORS, R_OUTPUTS, R_MODEL, R_VERSION, R_KEYS };

static int get_root_member(struct as_oip_json_parse *q, uint32_t key, struct as_json_value *v,
                           int8_t **binary_choices)
{
    struct as_str *text[R_KEYS] = {
        [R_ID] = &q->id, [R_MODEL] = &q->model, [R_VERSION] = &q->version};
    struct as_json_items it;
    int err;

    if (text[key]) {
        err = as_json_string(q->j, v, text[key]);
        return err ? as_oip_json_reader_error(q, err,
                                              "id, model_name and model_version must be strings")
                   : 0;
    }
    if (key == R_PARAMETERS)
        return as_oip_json_get_params(q, v);
    if (key == R_OUTPUTS)
        return get_outputs(q, v, binary_choices);
    err = as_oip_json_items(q, v, AS_JSON_ARRAY,
                            q->c.response ? "outputs must be an array" : "inputs must be an array",
                            &it);
    while (as_oip_json_next(q, &it, &err))
        err = as_oip_json_get_tensor(q, &it.value);
    return err;
}

static int get_root(struct as_oip_json_parse *q, struct as_json_value *root)
{
    const char *names[R_KEYS] = {[R_ID] = "id",
                                 [R_PARAMETERS] = "parameters",
                                 [R_TENSORS] = as_oip_json_tensors_key(q),
                                 [R_OUTPUTS] = q->c.response ? NULL : "outputs",
                                 [R_MODEL] = q->c.response ? "model_name" : NULL,
                                 [R_VERSION] = q->c.response ? "model_version" : NULL};
    struct as_json_items it;
    int8_t *binary_choices = NULL;
    uint32_t given = 0;
    int err = as_oip_json_items(q, root, AS_JSON_OBJECT, "the body must be a JSON object", &it);

    while (as_oip_json_next(q, &it, &err)) {
        uint32_t key = 0;

        while (key < R_KEYS && !(names[key] && as_str_eq(it.key, as_str_of(names[key]))))
            key++;
        if (key == R_KEYS)
            continue;
        if (given & 1u << key)
            return as_oip_refuse(&q->c, AS_EINVALID, "key '%s' is given twice", names[key]);
        given |= 1u << key;
        err = get_root_member(q, key, &it.value, &binary_choices);
    }
    err = as_oip_json_expect_end(q, err);
    if (err)
        return err;
    if (!(given & 1u << R_TENSORS))
        return as_oip_refuse(&q->c, AS_EINVALID, "%s is missing", as_oip_json_tensors_key(q));
    for (uint32_t i = 0; i < q->n_outputs; i++)
        q->outputs[i].binary = binary_choices[i] >= 0 ? binary_choices[i] : q->binary_output > 0;
    if (q->binary != q->binary_end)
        return as_oip_refuse(
            &q->c, AS_EINVALID, "%zu bytes of binary data are in no %s's binary_data_size",
            (size_t)(q->binary_end - q->binary), q->c.response ? "output" : "input");
    return 0;
}

/* Collects the inputs' shared memory ranges into q->c.ranges. False: out of memory. */
static bool collect_shm_ranges(struct as_oip_json_parse *q)
{
    struct as_oip_shm_range *r = as_arena_alloc(q->c.arena, q->n_tensors * sizeof(*r) + 1, 8);

    if (!r)
        return false;
    for (uint32_t i = 0; i < q->n_tensors; i++)
        r[i] = q->sources[i].in_shm ? q->sources[i].options.range : (struct as_oip_shm_range){0};
    q->c.ranges = r;
    return true;
}

/* Checks that names are unique and that the table is within its limit; sets *ret_r. */
static int finish(struct as_oip_json_parse *q, struct as_blob *blob, struct as_oip_infer *ret_r)
{
    const struct as_str *duplicate =
        as_name_check_duplicate(q->tensors, sizeof(*q->tensors), q->n_tensors);
    uint64_t table = q->c.table_bytes + AS_ALIGN(q->id.n, 8);

    if (duplicate)
        return as_oip_refuse(&q->c, AS_EINVALID, "%s '%.*s' is given twice",
                             q->c.response ? "output" : "input", AS_OIP_SHOWN(*duplicate));
    duplicate = as_name_check_duplicate(q->params, sizeof(*q->params), q->n_params);
    if (duplicate)
        return as_oip_refuse(&q->c, AS_EINVALID, "parameter '%.*s' is given twice",
                             AS_OIP_SHOWN(*duplicate));
    if (table > AS_OIP_TABLE_MAX)
        return as_oip_refuse(&q->c, AS_EINVALID,
                             "id, names, shapes and parameters take %llu bytes, the limit is %u",
                             (unsigned long long)table, AS_OIP_TABLE_MAX);
    if (q->c.n_shm_inputs && !collect_shm_ranges(q))
        return as_oip_json_reader_error(q, AS_ENOMEM, "");
    *ret_r = (struct as_oip_infer){
        .model = q->model,
        .version = q->version,
        .id = q->id,
        .inputs = q->tensors,
        .n_inputs = q->n_tensors,
        .params = q->params,
        .n_params = q->n_params,
        .tensor_params = {q->c.tensor_params, q->c.n_tensor_params},
        .outputs = q->outputs,
        .n_outputs = as_name_check_keep_last(q->outputs, sizeof(*q->outputs), q->n_outputs),
        .ranges = q->c.ranges,
        .has_output_range = q->c.has_output_range,
        .has_classification = q->c.has_classification,
        .typed = q->c.typed_bytes,
        .blob = blob,
        .binary_output = q->binary_output > 0,
    };
    return 0;
}

int as_oip_json_parse_body(struct as_oip_json_parse *q, const uint8_t *p, size_t json_len, size_t n,
                           int (*get)(struct as_oip_json_parse *q, struct as_json_value *root),
                           struct as_oip_infer *ret_r)
{
    struct as_blob *blob = NULL;
    struct as_json_value root;
    int err = as_json_open(q->j, q->c.arena, p, json_len, &root);

    q->binary = p + json_len;
    q->binary_end = p + n;
    q->c.typed_max = n + AS_OIP_TYPED_MAX;
    err = err ? as_oip_json_reader_error(q, err, "") : get(q, &root);
    if (!err)
        err = as_oip_json_fill(q, &blob);
    as_json_close(q->j);
    if (!err)
        err = finish(q, blob, ret_r);
    if (err)
        as_blob_unref(blob);
    return err;
}

int as_oip_json_parse_infer(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                            struct as_arena *a, struct as_oip_infer *ret_r, char *why, size_t cap)
{
    struct as_oip_json_parse q = {
        .c = {.arena = a, .why = why, .cap = cap}, .j = j, .binary_output = -1};

    return as_oip_json_parse_body(&q, p, json_len, n, get_root, ret_r);
}

int as_oip_json_parse_response(struct as_json *j, const uint8_t *p, size_t json_len, size_t n,
                               struct as_arena *a, struct as_oip_response *ret_r,
                               struct as_blob **ret_blob, char *why, size_t cap)
{
    struct as_oip_json_parse q = {.c = {.arena = a, .why = why, .cap = cap, .response = true},
                                  .j = j};
    struct as_oip_infer m = {0};
    int err = as_oip_json_parse_body(&q, p, json_len, n, get_root, &m);

    if (err)
        return err;
    *ret_r = as_oip_response_of(&m);
    *ret_blob = m.blob;
    return 0;
}
