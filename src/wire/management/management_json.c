/* The JSON form of the requests of wire/management/management. */
#include "wire/management/management_internal.h"

#include <errno.h>

/* True: the key is the field's name. "model_name" may also be written "modelName". */
static bool is_key(const char *name, struct as_str key)
{
    const char *p = key.p, *end = key.p + key.n;

    if (as_str_eq(key, as_str_of(name)))
        return true;
    for (; *name && p < end; name++, p++) {
        char want = *name;

        if (want == '_')
            want = (char)(*++name - 'a' + 'A');
        if (*p != want)
            return false;
    }
    return !*name && p == end;
}

static int wrong_type(struct as_management_reader *r, const struct as_management_field *f, int err,
                      const char *want)
{
    return err == AS_EINVALID ? as_management_fail(r, "%s%s: must be %s", r->path, f->name, want)
                              : err;
}

/* Reads an integer: a number, or a string with a number. */
static int json_integer(struct as_management_reader *r, const struct as_management_field *f,
                        struct as_json_value *v, bool is_signed, uint64_t *ret)
{
    struct as_str s;
    char text[24], *end;
    int64_t i = 0;
    int err;

    if (v->type != AS_JSON_STRING) {
        err = is_signed ? as_json_i64(r->json, v, &i) : as_json_u64(r->json, v, ret);
        if (!err && is_signed)
            *ret = (uint64_t)i;
        return wrong_type(r, f, err, is_signed ? "an integer" : "an integer, 0 or more");
    }
    err = as_json_string(r->json, v, &s);
    if (err)
        return err;
    if (s.n && s.n < sizeof(text) && (s.p[0] == '-' ? is_signed && s.n > 1 : true)) {
        bool minus = s.p[0] == '-';

        memcpy(text, s.p, s.n);
        text[s.n] = 0;
        if (text[minus] >= '0' && text[minus] <= '9') {
            errno = 0;
            if (is_signed)
                *ret = (uint64_t)strtoll(text, &end, 10);
            else
                *ret = strtoull(text, &end, 10);
            if (!errno && !*end && (size_t)(end - text) == s.n)
                return 0;
        }
    }
    return wrong_type(r, f, AS_EINVALID, is_signed ? "an integer" : "an integer, 0 or more");
}

static int json_u32(struct as_management_reader *r, const struct as_management_field *f,
                    struct as_json_value *v, uint32_t *ret)
{
    uint64_t wide = 0;
    int err = json_integer(r, f, v, false, &wide);

    if (!err && wide > UINT32_MAX)
        return as_management_fail(r, "%s%s: %lu is above %u", r->path, f->name, wide, UINT32_MAX);
    if (!err)
        *ret = (uint32_t)wide;
    return err;
}

static int json_element(struct as_management_reader *r, const struct as_management_field *f,
                        struct as_json_value *v, struct as_management_list *l)
{
    struct as_management_spec spec = {0};
    struct as_str s;
    uint64_t size = 0;
    size_t before;
    int err;

    if (f->kind == AS_MANAGEMENT_SIZES) {
        err = json_integer(r, f, v, true, &size);
        return err ? err : as_management_add_size(r, f, l, (int64_t)size);
    }
    if (f->kind != AS_MANAGEMENT_SPECS) {
        err = wrong_type(r, f, as_json_string(r->json, v, &s), "an array of strings");
        return err ? err : as_management_add_text(r, f, l, s);
    }
    if (l->n == AS_MANAGEMENT_TENSORS)
        return as_management_too_many(r, f, AS_MANAGEMENT_TENSORS);
    before = as_management_enter_field(r, f, l->n);
    err = as_management_read_json(r, f->of, v, &spec);
    if (!err)
        err = as_management_add_tensor(r, f, l, &spec);
    if (!err)
        r->path[before] = 0;
    return err;
}

static int json_list(struct as_management_reader *r, const struct as_management_field *f,
                     struct as_json_value *v, struct as_management_list *l)
{
    struct as_json_items it;
    int err, more;

    if (v->type != AS_JSON_ARRAY)
        return wrong_type(r, f, AS_EINVALID, "an array");
    err = as_json_items(r->json, v, &it);
    while (!err && (more = as_json_next(r->json, &it)) != 0)
        err = more < 0 ? more : json_element(r, f, &it.value, l);
    return err;
}

static int read_json_field(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_json_value *v, void *to)
{
    size_t before;
    int err;

    if (v->type == AS_JSON_NULL)
        return 0;
    switch (f->kind) {
    case AS_MANAGEMENT_FLAG:
        return wrong_type(r, f, as_json_bool(r->json, v, to), "true or false");
    case AS_MANAGEMENT_U32:
        return json_u32(r, f, v, to);
    case AS_MANAGEMENT_U64:
        return json_integer(r, f, v, false, to);
    case AS_MANAGEMENT_I64:
        return json_integer(r, f, v, true, to);
    case AS_MANAGEMENT_TEXT:
        return wrong_type(r, f, as_json_string(r->json, v, to), "a string");
    case AS_MANAGEMENT_TEXTS:
    case AS_MANAGEMENT_LINES:
    case AS_MANAGEMENT_SIZES:
    case AS_MANAGEMENT_SPECS:
        return json_list(r, f, v, to);
    case AS_MANAGEMENT_GROUP:
    default:
        before = as_management_enter_field(r, f, -1);
        err = as_management_read_json(r, f->of, v, to);
        if (!err)
            r->path[before] = 0;
        return err;
    }
}

int as_management_read_json(struct as_management_reader *r, const struct as_management_message *m,
                            struct as_json_value *v, void *to)
{
    struct as_json_items it;
    uint32_t seen = 0;
    int err, more;

    if (v->type != AS_JSON_OBJECT)
        return as_management_fail(r, "%.*s must be an object",
                                  (int)(r->path[0] ? strlen(r->path) - 1 : strlen(m->name)),
                                  r->path[0] ? r->path : m->name);
    err = as_json_items(r->json, v, &it);
    while (!err && (more = as_json_next(r->json, &it)) != 0) {
        const struct as_management_field *f = m->fields;

        if (more < 0)
            return more;
        while (f < m->fields + m->n && !is_key(f->name, it.key))
            f++;
        if (f == m->fields + m->n) { /* unknown, of a later version: its value is skipped */
            if (!r->unknown.p)
                r->unknown = it.key;
            continue;
        }
        if (seen & 1u << (f - m->fields))
            return as_management_fail(r, "%s%s: given twice", r->path, f->name);
        seen |= 1u << (f - m->fields);
        err = read_json_field(r, f, &it.value, (uint8_t *)to + f->at);
    }
    return err;
}
