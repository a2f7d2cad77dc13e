/* Reads objects and lists by tables. */
#include "wire/json/json.h"

static int read_items(struct as_json *j, struct as_json_value *v, bool object,
                      struct as_json_list *l)
{
    struct as_json_items it;
    int err = as_json_items(j, v, &it), more;

    if (!err && (it.object != object || (l->once && l->seen)))
        return AS_EINVALID;
    l->seen = true;
    while (!err && (more = as_json_next(j, &it)) != 0)
        err = more < 0 ? more : l->each(j, &it, l->ctx);
    return err;
}

static int read_object(struct as_json *j, struct as_json_value *v, const struct as_json_fields *of)
{
    struct as_json_items it;
    int err = as_json_items(j, v, &it), more;

    if (!err && !it.object)
        return AS_EINVALID;
    while (!err && (more = as_json_next(j, &it)) != 0) {
        err = more < 0 ? more : 0;
        for (uint32_t i = 0; !err && i < of->n; i++) {
            const struct as_json_row *row = &of->at[i];

            if (!as_str_eq(it.key, as_str_of(row->key)))
                continue;
            if (row->type & AS_JSON_FIELD_NOT_NULL && it.value.type == AS_JSON_NULL)
                return AS_EINVALID;
            err = as_json_field(j, &it.value,
                                (enum as_json_field_type)(row->type & ~AS_JSON_FIELD_NOT_NULL),
                                row->to);
        }
    }
    return err;
}

int as_json_field(struct as_json *j, struct as_json_value *v, enum as_json_field_type type,
                  void *to)
{
    if (v->type == AS_JSON_NULL)
        return 0;
    switch (type) {
    case AS_JSON_FIELD_STR:
        return as_json_string(j, v, to);
    case AS_JSON_FIELD_I64:
        return as_json_i64(j, v, to);
    case AS_JSON_FIELD_U64:
        return as_json_u64(j, v, to);
    case AS_JSON_FIELD_BOOL:
        return as_json_bool(j, v, to);
    case AS_JSON_FIELD_OBJECT:
        return read_object(j, v, to);
    case AS_JSON_FIELD_LIST:
    case AS_JSON_FIELD_MAP:
        return read_items(j, v, type == AS_JSON_FIELD_MAP, to);
    }
    return AS_EINVALID;
}

int as_json_read(struct as_json *j, struct as_json_value *v, const struct as_json_row *rows,
                 uint32_t n)
{
    return read_object(j, v, &(struct as_json_fields){rows, n});
}
