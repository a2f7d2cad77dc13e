#include "wire/oip/oip_json_model.h"

/* A growing list of items of one size. */
struct item_list {
    struct as_buf b;
    uint32_t n;
};

static int append_item(struct item_list *l, const void *item, size_t size)
{
    if (l->n == AS_OIP_TENSORS_MAX)
        return AS_EINVALID;
    as_buf_add(&l->b, item, size);
    l->n++;
    return 0;
}

static void *copy_list(const struct item_list *l, struct as_arena *a)
{
    void *p = as_arena_alloc(a, l->b.n, 8);

    if (p && l->b.n)
        memcpy(p, l->b.p, l->b.n);
    return p;
}

struct shape {
    int64_t at[AS_MAX_DIMS];
    uint32_t n;
};

static int get_size(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct shape *s = ctx;

    return s->n == AS_MAX_DIMS ? AS_EINVALID : as_json_i64(j, &it->value, &s->at[s->n++]);
}

struct lists {
    struct as_arena *arena;
    struct item_list versions, inputs, outputs;
};

static int get_spec(struct as_json *j, struct as_json_items *it, struct as_arena *a,
                    struct item_list *specs)
{
    struct as_tensor_spec s = {.dtype = AS_DT_INVALID};
    struct as_str datatype = {0};
    struct shape shape = {.n = 0};
    struct as_json_list sizes = {.each = get_size, .ctx = &shape};
    const struct as_json_row rows[] = {
        {"name", AS_JSON_FIELD_STR | AS_JSON_FIELD_NOT_NULL, &s.name},
        {"datatype", AS_JSON_FIELD_STR | AS_JSON_FIELD_NOT_NULL, &datatype},
        {"shape", AS_JSON_FIELD_LIST | AS_JSON_FIELD_NOT_NULL, &sizes}};
    int err = as_json_read(j, &it->value, rows, AS_COUNT(rows));
    int64_t *copy;

    if (err)
        return err;
    copy = as_arena_alloc(a, 8 * (size_t)shape.n, 8);
    if (!copy)
        return AS_ENOMEM;
    memcpy(copy, shape.at, 8 * (size_t)shape.n);
    s.dtype = as_dtype_of(datatype);
    s.shape = copy;
    s.ndim = shape.n;
    return append_item(specs, &s, sizeof(s));
}

static int get_input(struct as_json *j, struct as_json_items *it, void *lists)
{
    struct lists *l = lists;

    return get_spec(j, it, l->arena, &l->inputs);
}

static int get_output(struct as_json *j, struct as_json_items *it, void *lists)
{
    struct lists *l = lists;

    return get_spec(j, it, l->arena, &l->outputs);
}

static int get_version(struct as_json *j, struct as_json_items *it, void *lists)
{
    struct as_str s;
    int err = as_json_string(j, &it->value, &s);

    return err ? err : append_item(&((struct lists *)lists)->versions, &s, sizeof(s));
}

int as_oip_json_model_parse(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_oip_model *ret_m)
{
    struct lists l = {.arena = a};
    struct as_oip_model m = {.n_inputs = 0};
    /* a key that is given twice is refused */
    struct as_json_list versions = {.each = get_version, .ctx = &l, .once = true},
                        inputs = {.each = get_input, .ctx = &l, .once = true},
                        outputs = {.each = get_output, .ctx = &l, .once = true};
    const struct as_json_row rows[] = {
        {"name", AS_JSON_FIELD_STR | AS_JSON_FIELD_NOT_NULL, &m.name},
        {"platform", AS_JSON_FIELD_STR | AS_JSON_FIELD_NOT_NULL, &m.platform},
        {"versions", AS_JSON_FIELD_LIST, &versions},
        {"inputs", AS_JSON_FIELD_LIST, &inputs},
        {"outputs", AS_JSON_FIELD_LIST, &outputs}};
    struct as_json_value root;
    int err = as_json_open(j, a, p, n, &root);

    if (!err)
        err = as_json_read(j, &root, rows, AS_COUNT(rows));
    if (!err)
        err = as_json_expect_end(j);
    as_json_close(j);
    m.n_versions = l.versions.n;
    m.n_inputs = l.inputs.n;
    m.n_outputs = l.outputs.n;
    m.versions = err ? NULL : copy_list(&l.versions, a);
    m.inputs = err ? NULL : copy_list(&l.inputs, a);
    m.outputs = err ? NULL : copy_list(&l.outputs, a);
    if (!err && (!m.versions || !m.inputs || !m.outputs))
        err = AS_ENOMEM;
    as_buf_fini(&l.versions.b);
    as_buf_fini(&l.inputs.b);
    as_buf_fini(&l.outputs.b);
    if (!err)
        *ret_m = m;
    return err;
}
