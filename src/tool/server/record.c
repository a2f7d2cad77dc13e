#include "tool/server/record.h"

#define ELLIPSIS "…"

int as_record_open(struct as_record *r, struct as_str text, struct as_json_value *ret_root)
{
    as_arena_init(&r->arena, NULL, 0);
    as_buf_init(&r->text);
    memset(as_buf_reserve(&r->text, text.n + AS_JSON_PADDING), 0, text.n + AS_JSON_PADDING);
    as_buf_add(&r->text, text.p, text.n);
    r->json = as_json_new();
    return r->json ? as_json_open(r->json, &r->arena, r->text.p, text.n, ret_root) : AS_ENOMEM;
}

void as_record_close(struct as_record *r)
{
    if (r->json)
        as_json_close(r->json);
    as_json_free(r->json);
    as_arena_fini(&r->arena);
    as_buf_fini(&r->text);
}

static int read_list(struct as_record *r, struct as_json_value *v, struct as_record_list *l)
{
    struct as_json_items it;
    int err = as_json_items(r->json, v, &it), more;

    l->seen = true;
    if (!err && it.object)
        return AS_EINVALID;
    while (!err && (more = as_json_next(r->json, &it)) != 0)
        err = more < 0 ? more : l->each(r, &it.value, l->ctx);
    return err;
}

static int read_value(struct as_record *r, struct as_json_value *v, const struct as_record_field *f)
{
    if (v->type == AS_JSON_NULL)
        return 0;
    switch (f->type) {
    case AS_RECORD_STR:
        return as_json_string(r->json, v, f->to);
    case AS_RECORD_I64:
        return as_json_i64(r->json, v, f->to);
    case AS_RECORD_BOOL:
        return as_json_bool(r->json, v, f->to);
    case AS_RECORD_OBJECT: {
        const struct as_record_object *o = f->to;

        return as_record_read(r, v, o->fields, o->n);
    }
    case AS_RECORD_LIST:
        return read_list(r, v, f->to);
    }
    return AS_EINVALID;
}

int as_record_read(struct as_record *r, struct as_json_value *object,
                   const struct as_record_field *fields, uint32_t n)
{
    struct as_json_items it;
    int err = as_json_items(r->json, object, &it), more;

    if (!err && !it.object)
        return AS_EINVALID;
    while (!err && (more = as_json_next(r->json, &it)) != 0) {
        err = more < 0 ? more : 0;
        for (uint32_t i = 0; !err && i < n; i++) {
            if (as_str_eq(it.key, as_str_of(fields[i].key)))
                err = read_value(r, &it.value, &fields[i]);
        }
    }
    return err;
}

int as_record_parse(struct as_record *r, struct as_str text, const struct as_record_field *fields,
                    uint32_t n)
{
    struct as_json_value root;
    int err = as_record_open(r, text, &root);

    return err ? err : as_record_read(r, &root, fields, n);
}

static struct as_str last_line(struct as_str text)
{
    const char *nl;

    while (text.n && strchr(" \t\r\n", text.p[text.n - 1]))
        text.n--;
    nl = text.n ? memrchr(text.p, '\n', text.n) : NULL;
    if (nl)
        text = (struct as_str){nl + 1, text.n - (size_t)(nl + 1 - text.p)};
    return text;
}

void as_record_line(struct as_buf *out, struct as_str text, size_t max)
{
    struct as_str line = last_line(text);
    size_t n = line.n;

    if (n > max) {
        n = max > sizeof(ELLIPSIS) - 1 ? max - (sizeof(ELLIPSIS) - 1) : 0;
        while (n && ((uint8_t)line.p[n] & 0xc0) == 0x80) /* never within a character */
            n--;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)line.p[i];

        c = c < ' ' || c == 0x7f ? '?' : c;
        as_buf_add(out, &c, 1);
    }
    if (n < line.n)
        as_buf_str(out, ELLIPSIS);
}
