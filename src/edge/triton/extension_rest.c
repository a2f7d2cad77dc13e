#include "edge/triton/extension_rest.h"

#include "edge/triton/extension.h"

/* --- bodies: a small object, or empty --- */

/* The fields of a body; each handler uses those of its resource. */
struct body {
    bool ready;                    /* index */
    struct as_repository_change c; /* load, unload */
    struct as_str *keys;
    struct as_shm_region region; /* register */
    struct as_setting *settings; /* log, trace */
    uint32_t n_settings;
};

typedef int (*member)(struct as_exchange *x, struct as_json *j, struct as_json_items *it,
                      struct body *b);

/* Calls fn for each member of an object that is not null. 0, or an error of the parser or of fn. */
static int read_members(struct as_exchange *x, struct as_json *j, struct as_json_value *v,
                        member fn, struct body *b)
{
    struct as_json_items it;
    int err = v->type == AS_JSON_OBJECT ? as_json_items(j, v, &it) : AS_EINVALID;
    int more;

    while (!err && (more = as_json_next(j, &it)) != 0) {
        if (more < 0)
            err = more;
        else if (it.value.type != AS_JSON_NULL)
            err = fn(x, j, &it, b);
    }
    return err;
}

/* Parses the body with fn; an empty one is valid. False: the request was failed. */
static bool read_body(struct as_exchange *x, member fn, struct body *b, const char *form)
{
    struct as_json *j;
    struct as_json_value root;
    int err;

    if (!x->body.len)
        return true;
    j = as_rest_json_reader(x, false);
    if (!j)
        return false;
    err = as_json_open(j, &x->arena, x->body.p, x->body.len, &root);
    if (!err)
        err = read_members(x, j, &root, fn, b);
    if (!err)
        err = as_json_expect_end(j);
    if (err == AS_EPROTO)
        as_exchange_fail(x, AS_EINVALID, "%s", as_json_why(j));
    else if (err == AS_ENOMEM)
        as_exchange_fail(x, err, "no memory for the request");
    else if (err)
        as_exchange_fail(x, AS_EINVALID, "the body must be like %s", form);
    as_json_close(j);
    return !err;
}

/* --- configuration, statistics --- */

void as_extension_rest_config(struct as_exchange *x, const struct as_rest_match *m)
{
    as_extension_config(x, m->model, m->version);
}

void as_extension_rest_statistics(struct as_exchange *x, const struct as_rest_match *m)
{
    as_extension_statistics(x, m->model, m->version);
}

/* --- repository --- */

static int index_member(struct as_exchange *x AS_UNUSED, struct as_json *j,
                        struct as_json_items *it, struct body *b)
{
    return as_str_eq(it->key, AS_STR("ready")) ? as_json_bool(j, &it->value, &b->ready) : 0;
}

void as_extension_rest_index(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct body b = {0};

    if (read_body(x, index_member, &b, "{\"ready\":true}"))
        as_extension_index(x, b.ready);
}

/* Collects the names of parameters. */
static int parameter_member(struct as_exchange *x, struct as_json *j, struct as_json_items *it,
                            struct body *b)
{
    if (b->c.n_parameters == AS_SETTINGS_MAX)
        return AS_EINVALID;
    if (!b->keys)
        b->keys = as_arena_alloc(&x->arena, AS_SETTINGS_MAX * sizeof(*b->keys), 8);
    if (!b->keys)
        return AS_ENOMEM;
    b->keys[b->c.n_parameters++] = it->key;
    b->c.parameters = b->keys;
    if (as_str_eq(it->key, AS_STR("unload_dependents")))
        return as_json_bool(j, &it->value, &b->c.dependents);
    return 0;
}

static int change_member(struct as_exchange *x, struct as_json *j, struct as_json_items *it,
                         struct body *b)
{
    return as_str_eq(it->key, AS_STR("parameters"))
               ? read_members(x, j, &it->value, parameter_member, b)
               : 0;
}

void as_extension_rest_load(struct as_exchange *x, const struct as_rest_match *m)
{
    struct body b = {.c.model = m->model};

    if (read_body(x, change_member, &b, "{\"parameters\":{}}"))
        as_extension_load(x, &b.c);
}

void as_extension_rest_unload(struct as_exchange *x, const struct as_rest_match *m)
{
    struct body b = {.c.model = m->model};

    if (read_body(x, change_member, &b, "{\"parameters\":{\"unload_dependents\":false}}"))
        as_extension_unload(x, &b.c);
}

/* --- shared memory --- */

void as_extension_rest_shm_status(struct as_exchange *x, const struct as_rest_match *m)
{
    as_extension_shm_status(x, m->name);
}

static int region_member(struct as_exchange *x AS_UNUSED, struct as_json *j,
                         struct as_json_items *it, struct body *b)
{
    if (as_str_eq(it->key, AS_STR("key")))
        return as_json_string(j, &it->value, &b->region.key);
    if (as_str_eq(it->key, AS_STR("offset")))
        return as_json_u64(j, &it->value, &b->region.offset);
    if (as_str_eq(it->key, AS_STR("byte_size")))
        return as_json_u64(j, &it->value, &b->region.size);
    return 0;
}

void as_extension_rest_shm_register(struct as_exchange *x, const struct as_rest_match *m)
{
    struct body b = {.region.name = m->name};

    if (read_body(x, region_member, &b, "{\"key\":\"/name\",\"offset\":0,\"byte_size\":64}"))
        as_extension_shm_register(x, &b.region);
}

void as_extension_rest_shm_unregister(struct as_exchange *x, const struct as_rest_match *m)
{
    as_extension_shm_unregister(x, m->name);
}

void as_extension_rest_cuda_status(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    as_extension_cuda_status(x);
}

void as_extension_rest_cuda_register(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    as_extension_cuda_register(x);
}

void as_extension_rest_cuda_unregister(struct as_exchange *x,
                                       const struct as_rest_match *m AS_UNUSED)
{
    as_extension_cuda_unregister(x);
}

/* --- settings --- */

/* Reads a number; larger ones count as UINT32_MAX. */
static int read_number(struct as_json *j, struct as_json_value *v, struct as_setting *s)
{
    uint64_t n;
    int err = as_json_u64(j, v, &n);

    s->type = AS_SETTING_NUMBER;
    if (!err)
        s->number = (uint32_t)AS_MIN(n, (uint64_t)UINT32_MAX);
    return err;
}

/* Reads the first string of a list. */
static int read_first_text(struct as_json *j, struct as_json_value *v, struct as_setting *s)
{
    struct as_json_items it;
    int err = as_json_items(j, v, &it), more;

    while (!err && (more = as_json_next(j, &it)) != 0) {
        struct as_str text = {0};

        err = more < 0 ? more : as_json_string(j, &it.value, &text);
        if (s->type == AS_SETTING_NONE)
            s->text = text;
        s->type = AS_SETTING_TEXT;
    }
    return err;
}

static int setting_member(struct as_exchange *x, struct as_json *j, struct as_json_items *it,
                          struct body *b)
{
    struct as_setting *s;

    if (b->n_settings == AS_SETTINGS_MAX)
        return AS_EINVALID;
    if (!b->settings)
        b->settings = as_arena_alloc(&x->arena, AS_SETTINGS_MAX * sizeof(*s), 8);
    if (!b->settings)
        return AS_ENOMEM;
    s = &b->settings[b->n_settings++];
    *s = (struct as_setting){.name = it->key};
    switch (it->value.type) {
    case AS_JSON_BOOL:
        s->type = AS_SETTING_BOOL;
        return as_json_bool(j, &it->value, &s->b);
    case AS_JSON_NUMBER:
        return read_number(j, &it->value, s);
    case AS_JSON_STRING:
        s->type = AS_SETTING_TEXT;
        return as_json_string(j, &it->value, &s->text);
    case AS_JSON_ARRAY:
        return read_first_text(j, &it->value, s);
    case AS_JSON_NULL:
    case AS_JSON_OBJECT:
    default:
        return AS_EINVALID;
    }
}

void as_extension_rest_trace(struct as_exchange *x, const struct as_rest_match *m)
{
    struct body b = {0};

    if (read_body(x, setting_member, &b, "{\"trace_level\":[\"OFF\"]}"))
        as_extension_trace(x, m->model, b.settings, b.n_settings);
}

void as_extension_rest_log(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct body b = {0};

    if (read_body(x, setting_member, &b, "{\"log_info\":true}"))
        as_extension_log(x, b.settings, b.n_settings);
}
