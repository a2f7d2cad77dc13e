#include "edge/triton/extension_rest.h"

#include "edge/triton/extension.h"

/* --- bodies: a small object, or empty --- */

#define LIKE "the body must be like "

static bool read_fields(struct as_exchange *x, const struct as_json_row *rows, uint32_t n,
                        const char *wrong)
{
    return as_rest_read_json(x, AS_JSON_FIELD_OBJECT, &(struct as_json_fields){rows, n}, wrong);
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

void as_extension_rest_index(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    bool ready = false;
    const struct as_json_row rows[] = {{"ready", AS_JSON_FIELD_BOOL, &ready}};

    if (read_fields(x, rows, AS_COUNT(rows), LIKE "{\"ready\":true}"))
        as_extension_index(x, ready);
}

struct change {
    struct as_repository_change c;
    struct as_exchange *x;
    struct as_str *keys;
};

/* Collects the names of parameters. */
static int read_parameter(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct change *b = ctx;

    if (it->value.type == AS_JSON_NULL)
        return 0;
    if (b->c.n_parameters == AS_SETTINGS_MAX)
        return AS_EINVALID;
    if (!b->keys)
        b->keys = as_arena_alloc(&b->x->arena, AS_SETTINGS_MAX * sizeof(*b->keys), 8);
    if (!b->keys)
        return AS_ENOMEM;
    b->keys[b->c.n_parameters++] = it->key;
    b->c.parameters = b->keys;
    if (as_str_eq(it->key, AS_STR("unload_dependents")))
        return as_json_bool(j, &it->value, &b->c.dependents);
    return 0;
}

static bool read_change(struct as_exchange *x, struct change *b, const char *wrong)
{
    struct as_json_list parameters = {.each = read_parameter, .ctx = b};
    const struct as_json_row rows[] = {{"parameters", AS_JSON_FIELD_MAP, &parameters}};

    return read_fields(x, rows, AS_COUNT(rows), wrong);
}

void as_extension_rest_load(struct as_exchange *x, const struct as_rest_match *m)
{
    struct change b = {.c.model = m->model, .x = x};

    if (read_change(x, &b, LIKE "{\"parameters\":{}}"))
        as_extension_load(x, &b.c);
}

void as_extension_rest_unload(struct as_exchange *x, const struct as_rest_match *m)
{
    struct change b = {.c.model = m->model, .x = x};

    if (read_change(x, &b, LIKE "{\"parameters\":{\"unload_dependents\":false}}"))
        as_extension_unload(x, &b.c);
}

/* --- shared memory --- */

void as_extension_rest_shm_status(struct as_exchange *x, const struct as_rest_match *m)
{
    as_extension_shm_status(x, m->name);
}

void as_extension_rest_shm_register(struct as_exchange *x, const struct as_rest_match *m)
{
    struct as_shm_region r = {.name = m->name};
    const struct as_json_row rows[] = {{"key", AS_JSON_FIELD_STR, &r.key},
                                       {"offset", AS_JSON_FIELD_U64, &r.offset},
                                       {"byte_size", AS_JSON_FIELD_U64, &r.size}};

    if (read_fields(x, rows, AS_COUNT(rows),
                    LIKE "{\"key\":\"/name\",\"offset\":0,\"byte_size\":64}"))
        as_extension_shm_register(x, &r);
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

struct settings {
    struct as_exchange *x;
    struct as_setting *at;
    uint32_t n;
};

static int read_setting(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct settings *b = ctx;
    struct as_setting *s;

    if (it->value.type == AS_JSON_NULL)
        return 0;
    if (b->n == AS_SETTINGS_MAX)
        return AS_EINVALID;
    if (!b->at)
        b->at = as_arena_alloc(&b->x->arena, AS_SETTINGS_MAX * sizeof(*s), 8);
    if (!b->at)
        return AS_ENOMEM;
    s = &b->at[b->n++];
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

static bool read_settings(struct as_exchange *x, struct settings *b, const char *wrong)
{
    *b = (struct settings){.x = x};
    return as_rest_read_json(x, AS_JSON_FIELD_MAP,
                             &(struct as_json_list){.each = read_setting, .ctx = b}, wrong);
}

void as_extension_rest_trace(struct as_exchange *x, const struct as_rest_match *m)
{
    struct settings b;

    if (read_settings(x, &b, LIKE "{\"trace_level\":[\"OFF\"]}"))
        as_extension_trace(x, m->model, b.at, b.n);
}

void as_extension_rest_log(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    struct settings b;

    if (read_settings(x, &b, LIKE "{\"log_info\":true}"))
        as_extension_log(x, b.at, b.n);
}
