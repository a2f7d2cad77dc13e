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

/* Enters an array, or an object. */
static int open_items(struct as_json *j, struct as_json_value *v, bool object,
                      struct as_json_items *ret_it)
{
    if (v->type != (object ? AS_JSON_OBJECT : AS_JSON_ARRAY))
        return AS_EINVALID;
    return as_json_items(j, v, ret_it);
}

static int get_spec_shape(struct as_json *j, struct as_json_value *v, struct as_arena *a,
                          struct as_tensor_spec *s)
{
    int64_t shape[AS_MAX_DIMS], *copy;
    struct as_json_items it;
    int err = open_items(j, v, false, &it), more = 0;

    s->ndim = 0;
    while (!err && (more = as_json_next(j, &it)) > 0) {
        if (s->ndim == AS_MAX_DIMS)
            return AS_EINVALID;
        err = as_json_i64(j, &it.value, &shape[s->ndim++]);
    }
    if (err || more < 0)
        return err ? err : more;
    copy = as_arena_alloc(a, 8 * (size_t)s->ndim, 8);
    if (!copy)
        return AS_ENOMEM;
    memcpy(copy, shape, 8 * (size_t)s->ndim);
    s->shape = copy;
    return 0;
}

static int get_json_spec(struct as_json *j, struct as_json_value *v, struct as_arena *a,
                         struct as_tensor_spec *ret_s)
{
    struct as_tensor_spec s = {.dtype = AS_DT_INVALID};
    struct as_json_items it;
    struct as_str text;
    int err = open_items(j, v, true, &it), more = 0;

    while (!err && (more = as_json_next(j, &it)) > 0) {
        if (as_str_eq(it.key, AS_STR("name"))) {
            err = as_json_string(j, &it.value, &s.name);
        } else if (as_str_eq(it.key, AS_STR("datatype"))) {
            err = as_json_string(j, &it.value, &text);
            s.dtype = err ? AS_DT_INVALID : as_dtype_of(text);
        } else if (as_str_eq(it.key, AS_STR("shape"))) {
            err = get_spec_shape(j, &it.value, a, &s);
        }
    }
    if (!err && !more)
        *ret_s = s;
    return err ? err : more;
}

static int get_specs(struct as_json *j, struct as_json_value *v, struct as_arena *a,
                     struct item_list *specs)
{
    struct as_tensor_spec s;
    struct as_json_items it;
    int err = open_items(j, v, false, &it), more = 0;

    while (!err && (more = as_json_next(j, &it)) > 0) {
        err = get_json_spec(j, &it.value, a, &s);
        if (!err)
            err = append_item(specs, &s, sizeof(s));
    }
    return err ? err : more;
}

static int get_versions(struct as_json *j, struct as_json_value *v, struct item_list *versions)
{
    struct as_json_items it;
    struct as_str s;
    int err = open_items(j, v, false, &it), more = 0;

    while (!err && (more = as_json_next(j, &it)) > 0) {
        err = as_json_string(j, &it.value, &s);
        if (!err)
            err = append_item(versions, &s, sizeof(s));
    }
    return err ? err : more;
}

enum { VERSIONS, INPUTS, OUTPUTS, LISTS };

static int get_model(struct as_json *j, struct as_json_value *v, struct as_arena *a,
                     struct as_oip_model *m, struct item_list lists[LISTS])
{
    static const char *const names[LISTS] = {"versions", "inputs", "outputs"};
    struct as_json_items it;
    int err = open_items(j, v, true, &it), more = 0;

    while (!err && (more = as_json_next(j, &it)) > 0) {
        for (int i = 0; i < LISTS && !err; i++) {
            if (!as_str_eq(it.key, as_str_of(names[i])) || it.value.type == AS_JSON_NULL)
                continue;
            if (lists[i].n)
                return AS_EINVALID; /* the key was given twice */
            err = i == VERSIONS ? get_versions(j, &it.value, &lists[i])
                                : get_specs(j, &it.value, a, &lists[i]);
        }
        if (!err && as_str_eq(it.key, AS_STR("name")))
            err = as_json_string(j, &it.value, &m->name);
        else if (!err && as_str_eq(it.key, AS_STR("platform")))
            err = as_json_string(j, &it.value, &m->platform);
    }
    return err ? err : more;
}

int as_oip_json_model_parse(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_oip_model *ret_m)
{
    struct as_oip_model m = {.n_inputs = 0};
    struct item_list lists[LISTS] = {{{0}, 0}};
    struct as_json_value root;
    int err = as_json_open(j, a, p, n, &root);

    if (!err)
        err = get_model(j, &root, a, &m, lists);
    if (!err)
        err = as_json_expect_end(j);
    as_json_close(j);
    m.n_versions = lists[VERSIONS].n;
    m.n_inputs = lists[INPUTS].n;
    m.n_outputs = lists[OUTPUTS].n;
    m.versions = err ? NULL : copy_list(&lists[VERSIONS], a);
    m.inputs = err ? NULL : copy_list(&lists[INPUTS], a);
    m.outputs = err ? NULL : copy_list(&lists[OUTPUTS], a);
    if (!err && (!m.versions || !m.inputs || !m.outputs))
        err = AS_ENOMEM;
    for (int i = 0; i < LISTS; i++)
        as_buf_fini(&lists[i].b);
    if (!err)
        *ret_m = m;
    return err;
}
