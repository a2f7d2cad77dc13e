/* conf/spec/spec_print.c — a spec as YAML and as JSON. */
#include "conf/option/option_row.h"
#include "conf/spec/keys/spec_autoscale.h"
#include "conf/spec/spec_internal.h"
#include "wire/json/json.h"

static const char *percent_text(int64_t i, char text[8])
{
    snprintf(text, 8, "%d%%", (int)AS_MIN(-1 - i, (int64_t)100));
    return text;
}

void as_spec_put_value(const struct as_spec_row *row, const struct as_spec_value *v,
                       struct as_buf *out)
{
    switch (row->type) {
    case AS_SPEC_BOOL:
        as_json_put_bool(out, v->i != 0);
        break;
    case AS_SPEC_INT:
    case AS_SPEC_SIZE:
        if (row->words[0] && v->i < 0)
            as_json_put_cstr(out, row->words);
        else
            as_json_put_i64(out, v->i);
        break;
    case AS_SPEC_AMOUNT:
        if (v->i < 0)
            as_json_put_cstr(out, percent_text(v->i, (char[8]){0}));
        else
            as_json_put_i64(out, v->i);
        break;
    case AS_SPEC_NUMBER:
    case AS_SPEC_DURATION: {
        int64_t unit = as_spec_unit(row);

        if (v->i % unit == 0)
            as_json_put_i64(out, v->i / unit);
        else
            as_json_put_f64(out, (double)v->i / (double)unit);
        break;
    }
    case AS_SPEC_STRING:
    case AS_SPEC_TEXT:
    case AS_SPEC_ENUM:
        as_json_put_cstr(out, v->s);
        break;
    case AS_SPEC_JSON:
        if (out->n && !strchr("{[: ,", out->p[out->n - 1]))
            as_buf_str(out, ",");
        as_buf_str(out, v->s);
        break;
    case AS_SPEC_TEXTS:
        as_json_put_open(out, '[');
        for (uint32_t i = 0; i < v->n; i++)
            as_json_put_cstr(out, v->texts[i]);
        as_json_put_close(out, ']');
        break;
    case AS_SPEC_MAP:
        as_json_put_open(out, '{');
        for (uint32_t i = 0; i < v->n; i++) {
            size_t n = strcspn(v->texts[i], "=");

            as_json_put_escaped_key(out, (struct as_str){v->texts[i], n});
            as_json_put_cstr(out, v->texts[i] + n + 1);
        }
        as_json_put_close(out, '}');
        break;
    case AS_SPEC_OBJECT:
    case AS_SPEC_OBJECTS:
        AS_ASSERT(false); /* the callers print their members */
    }
}

static bool is_object(const struct as_spec_row *row)
{
    return row->type == AS_SPEC_OBJECT || row->type == AS_SPEC_OBJECTS;
}

/* The default of num_replicas does not count beside autoscaling_config, and as a value of the file
 * it would contradict it. */
static bool is_without_effect(const struct as_spec_object *o, enum as_spec_key key)
{
    return key == AS_SPEC_DEPLOYMENT_NUM_REPLICAS &&
           as_spec_value(o, key)->from == AS_SPEC_FROM_DEFAULT && as_spec_autoscale(o, NULL);
}

void as_spec_json(const struct as_spec_object *o, bool all, struct as_buf *out)
{
    uint32_t first = as_spec_first_key(o->level), width = as_spec_key_count(o->level);

    as_json_put_open(out, '{');
    for (uint32_t i = 0; i < width; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];
        const struct as_spec_value *v = &o->v[i];

        if (!v->set || (!all && v->from == AS_SPEC_FROM_DEFAULT) || is_without_effect(o, first + i))
            continue;
        as_json_put_key(out, row->key);
        if (!is_object(row)) {
            as_spec_put_value(row, v, out);
            continue;
        }
        if (row->type == AS_SPEC_OBJECTS)
            as_json_put_open(out, '[');
        for (uint32_t k = 0; k < v->n; k++)
            as_spec_json(v->objects[k], all, out);
        if (row->type == AS_SPEC_OBJECTS)
            as_json_put_close(out, ']');
    }
    as_json_put_close(out, '}');
}

/* --- YAML --- */

static void indent(struct as_buf *out, uint32_t depth)
{
    as_buf_printf(out, "%*s", 2 * (int)depth, "");
}

/* Is it a text without quotes for every YAML reader? Readers of YAML 1.1 have booleans such as `no`
 * and numbers such as 1_000 and 12:30. */
static bool is_bare(struct as_str s)
{
    static const char *const words[] = {"y",    "n",     "yes",  "no",  "on", "off",
                                        "true", "false", "null", "nan", "inf"};
    bool letter = false;

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        letter = letter || is_letter;
        if (i == 0 && !is_letter && c != '/' && strncmp(s.p, "./", 2) != 0)
            return false;
        if (!is_letter && !(c >= '0' && c <= '9') && !strchr("./-", c) &&
            !(c == ':' && i + 1 < s.n))
            return false;
    }
    for (size_t i = 0; i < AS_COUNT(words); i++) {
        if (strlen(words[i]) == s.n && strncasecmp(words[i], s.p, s.n) == 0)
            return false;
    }
    return letter;
}

static void print_text(struct as_buf *out, const char *text)
{
    if (is_bare(as_str_of(text)))
        as_buf_str(out, text);
    else
        as_buf_json(out, as_str_of(text)); /* a JSON string is a YAML one */
}

static void print_texts(const struct as_spec_row *row, const struct as_spec_value *v,
                        uint32_t depth, struct as_buf *out)
{
    bool map = row->type == AS_SPEC_MAP;

    if (v->n == 0)
        as_buf_str(out, map ? " {}" : " []");
    as_buf_str(out, "\n");
    for (uint32_t i = 0; i < v->n; i++) {
        size_t n = map ? strcspn(v->texts[i], "=") : 0;

        indent(out, depth + 1);
        if (map)
            as_buf_printf(out, "%.*s: ", (int)n, v->texts[i]);
        else
            as_buf_str(out, "- ");
        print_text(out, v->texts[i] + (map ? n + 1 : 0));
        as_buf_str(out, "\n");
    }
}

static void print_object(const struct as_spec_object *o, uint32_t depth, bool item, bool all,
                         struct as_buf *out);

static void print_key(const struct as_spec_row *row, const struct as_spec_value *v, uint32_t depth,
                      bool all, struct as_buf *out)
{
    as_buf_printf(out, "%s:", row->key);
    if (is_object(row)) {
        as_buf_str(out, v->n ? "\n" : " []\n");
        for (uint32_t i = 0; i < v->n; i++)
            print_object(v->objects[i], depth + 1, row->type == AS_SPEC_OBJECTS, all, out);
        return;
    }
    if (row->type == AS_SPEC_TEXTS || row->type == AS_SPEC_MAP) {
        print_texts(row, v, depth, out);
        return;
    }
    as_buf_str(out, " ");
    if (row->type == AS_SPEC_STRING || row->type == AS_SPEC_TEXT || row->type == AS_SPEC_ENUM)
        print_text(out, v->s);
    else if (row->type == AS_SPEC_SIZE)
        as_spec_put_number(row, v->i, out);
    else
        as_spec_put_value(row, v, out);
    as_buf_str(out, "\n");
}

/* `all`: defaults too, except a mapping that nobody has set (logging_config): when it is printed,
 * it is set. */
static bool is_printed(const struct as_spec_row *row, const struct as_spec_value *v, bool all)
{
    return v->set && (v->from != AS_SPEC_FROM_DEFAULT || (all && row->type != AS_SPEC_OBJECT));
}

static void print_object(const struct as_spec_object *o, uint32_t depth, bool item, bool all,
                         struct as_buf *out)
{
    uint32_t first = as_spec_first_key(o->level), width = as_spec_key_count(o->level);
    bool any = false;

    for (uint32_t i = 0; i < width; i++) {
        if (!is_printed(&as_spec_rows[first + i], &o->v[i], all) || is_without_effect(o, first + i))
            continue;
        indent(out, depth);
        if (item)
            as_buf_str(out, any ? "  " : "- ");
        print_key(&as_spec_rows[first + i], &o->v[i], depth + item, all, out);
        any = true;
    }
    AS_ASSERT(any || !item); /* each object of a list has a key that is required */
}

void as_spec_print(const struct as_spec *s, bool all, struct as_buf *out)
{
    print_object(s->file, 0, false, all, out);
}
