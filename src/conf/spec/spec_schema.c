/* conf/spec/spec_schema.c — prints the table of keys as JSON Schema. */
#include "conf/option/option_row.h"
#include "conf/spec/spec_internal.h"
#include "wire/json/json.h"

#define VARIABLE "^(?!ANYSERVE_)[A-Za-z_][A-Za-z0-9_]*$"

/* --- JSON Schema --- */

static void put_number(struct as_buf *b, const char *key, const struct as_spec_row *row, int64_t v)
{
    double d = (double)v / (double)as_spec_unit(row);

    as_json_put_key(b, key);
    if (d >= -9e15 && d <= 9e15 && d == (double)(int64_t)d)
        as_json_put_i64(b, (int64_t)d);
    else
        as_json_put_f64(b, d);
}

static void put_types(struct as_buf *b, const char *const *types, bool null)
{
    as_json_put_member_open(b, "type", '[');
    for (size_t i = 0; types[i]; i++)
        as_json_put_cstr(b, types[i]);
    if (null)
        as_json_put_cstr(b, "null");
    as_json_put_close(b, ']');
}

#define TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void put_reference(struct as_buf *b, const struct as_spec_row *row)
{
    char name[64];

    snprintf(name, sizeof(name), "#/$defs/%s", row->words);
    as_json_put_member_text(b, "$ref", name);
}

static void put_counts(struct as_buf *b, const struct as_spec_row *row, const char *min,
                       const char *max)
{
    as_json_put_member_u64(b, min, (uint64_t)row->min);
    as_json_put_member_u64(b, max, (uint64_t)row->max);
}

static void put_text_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    if (row->type == AS_SPEC_TEXT)
        put_types(b, TYPES("string", "number", "boolean"), null);
    else
        put_types(b, TYPES("string"), null);
    put_counts(b, row, "minLength", "maxLength");
    if (as_spec_pattern(row))
        as_json_put_member_text(b, "pattern", as_spec_pattern(row));
}

static void put_number_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    bool size = row->type == AS_SPEC_SIZE, amount = row->type == AS_SPEC_AMOUNT;
    bool word = row->type == AS_SPEC_INT && row->words[0];
    struct as_buf pattern = {0};

    as_buf_printf(&pattern, "^%s$", row->words);
    if (size || amount || word)
        put_types(b, TYPES("integer", "string"), null);
    else if (row->type == AS_SPEC_INT)
        put_types(b, TYPES("integer"), null);
    else
        put_types(b, TYPES("number"), null);
    put_number(b, "minimum", row, row->min);
    put_number(b, "maximum", row, row->max);
    if (size || amount) {
        as_json_put_member_text(b, "pattern",
                                size ? "^[0-9]+[KMGT]?$" : "^(0{0,2}[0-9]|0?[0-9]{2}|100)%$");
    }
    if (word)
        as_json_put_member_text(b, "pattern", as_buf_cstr(&pattern));
    as_buf_fini(&pattern);
    if (row->flags & AS_SPEC_NOT_ZERO) {
        as_json_put_member_open(b, "not", '{');
        as_json_put_member_u64(b, "const", 0);
        as_json_put_close(b, '}');
    }
}

/* A list or a map of texts. */
static void put_texts_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    bool map = row->type == AS_SPEC_MAP;

    put_types(b, map ? TYPES("object") : TYPES("array"), null);
    put_counts(b, row, map ? "minProperties" : "minItems", map ? "maxProperties" : "maxItems");
    as_json_put_key(b, map ? "additionalProperties" : "items");
    as_json_put_open(b, '{');
    put_types(b, TYPES("string", "number", "boolean"), false);
    as_json_put_close(b, '}');
    if (!map)
        return;
    as_json_put_member_open(b, "propertyNames", '{');
    as_json_put_member_text(b, "pattern", VARIABLE);
    as_json_put_member_u64(b, "maxLength", 255);
    as_json_put_close(b, '}');
}

/* The words are "object", or "object:KEY|KEY…": then it has no others. */
static void put_mapping_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    struct as_str w;

    put_types(b, TYPES("object"), null);
    if (!strchr(row->words, ':'))
        return;
    as_json_put_member_open(b, "properties", '{');
    for (size_t i = 0; (w = as_option_word(strchr(row->words, ':') + 1, i)).p; i++) {
        as_json_put_escaped_key(b, w);
        as_json_put_open(b, '{');
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, '}');
    as_json_put_member_bool(b, "additionalProperties", false);
}

static void put_enum_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    struct as_str w;

    as_json_put_member_open(b, "enum", '[');
    for (size_t i = 0; (w = as_option_word(row->words, i)).p; i++)
        as_json_put_string(b, w);
    if (null)
        as_json_put_null(b);
    as_json_put_close(b, ']');
}

/* An object, or null: every key that is not required may be null. */
static void put_object_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    if (row->type == AS_SPEC_OBJECTS) {
        put_types(b, TYPES("array"), null);
        put_counts(b, row, "minItems", "maxItems");
        as_json_put_member_open(b, "items", '{');
        put_reference(b, row);
        as_json_put_close(b, '}');
        return;
    }
    as_json_put_member_open(b, "anyOf", '[');
    as_json_put_open(b, '{');
    put_reference(b, row);
    as_json_put_close(b, '}');
    if (null) {
        as_json_put_open(b, '{');
        put_types(b, TYPES("null"), false);
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}

static void put_type(struct as_buf *b, const struct as_spec_row *row, bool null)
{
    switch (row->type) {
    case AS_SPEC_BOOL:
        put_types(b, TYPES("boolean"), null);
        break;
    case AS_SPEC_INT:
    case AS_SPEC_NUMBER:
    case AS_SPEC_DURATION:
    case AS_SPEC_SIZE:
    case AS_SPEC_AMOUNT:
        put_number_type(b, row, null);
        break;
    case AS_SPEC_STRING:
    case AS_SPEC_TEXT:
        put_text_type(b, row, null);
        break;
    case AS_SPEC_ENUM:
        put_enum_type(b, row, null);
        break;
    case AS_SPEC_JSON:
        if (row->words[0])
            put_mapping_type(b, row, null);
        break;
    case AS_SPEC_TEXTS:
    case AS_SPEC_MAP:
        put_texts_type(b, row, null);
        break;
    case AS_SPEC_OBJECT:
    case AS_SPEC_OBJECTS:
        put_object_type(b, row, null);
        break;
    }
}

static void put_default(struct as_buf *b, const struct as_spec_row *row)
{
    struct as_spec_value v;
    struct as_arena a;

    if (!row->def[0])
        return;
    as_arena_init(&a, NULL, 0);
    as_spec_read_default(&a, row, &v);
    as_json_put_key(b, "default");
    as_spec_put_value(row, &v, b);
    as_arena_fini(&a);
}

#define ZERO_AMOUNT "{\"enum\":[0,\"0%\"]}"

/* The checks of spec_check.c, as far as JSON Schema can express them. */
static void put_rules(struct as_buf *b, enum as_spec_level level)
{
    if (level == AS_SPEC_LEVEL_APPLICATION)
        as_buf_str(b, ",\"oneOf\":[{\"required\":[\"import_path\"],\"properties\":{\"import_path\":"
                      "{\"not\":{\"type\":\"null\"}}}},{\"required\":[\"command\"],\"properties\":"
                      "{\"command\":{\"not\":{\"type\":\"null\"}}}}]");
    else if (level == AS_SPEC_LEVEL_DEPLOYMENT)
        as_buf_str(b, ",\"allOf\":[{\"properties\":{\"num_gpus\":{\"anyOf\":[{\"type\":\"null\"},"
                      "{\"type\":\"integer\"},{\"maximum\":1}]}}},"
                      "{\"if\":{\"required\":[\"cpu_affinity\"],\"properties\":{\"cpu_affinity\":"
                      "{\"const\":\"auto\"}}},\"then\":{\"required\":[\"num_cpus\"],\"properties\":"
                      "{\"num_cpus\":{\"type\":\"number\",\"anyOf\":[{\"type\":\"integer\"},{"
                      "\"maximum\":1}]}}}},"
                      "{\"not\":{\"required\":[\"max_surge\",\"max_unavailable\"],"
                      "\"properties\":{\"max_surge\":" ZERO_AMOUNT
                      ",\"max_unavailable\":" ZERO_AMOUNT "}}}]");
}

static void put_level(struct as_buf *b, enum as_spec_level level)
{
    uint32_t first = as_spec_first_key(level), width = as_spec_key_count(level);
    bool any = false;

    as_json_put_member_text(b, "type", "object");
    as_json_put_member_bool(b, "additionalProperties", false);
    as_json_put_member_open(b, "properties", '{');
    for (uint32_t i = 0; i < width; i++) {
        const struct as_spec_row *row = &as_spec_rows[first + i];

        as_json_put_key(b, row->key);
        as_json_put_open(b, '{');
        as_json_put_member_text(b, "description", row->doc);
        put_type(b, row, !(row->flags & AS_SPEC_REQUIRED));
        put_default(b, row);
        as_json_put_close(b, '}');
        any = any || (row->flags & AS_SPEC_REQUIRED);
    }
    as_json_put_close(b, '}');
    if (any) {
        as_json_put_member_open(b, "required", '[');
        for (uint32_t i = 0; i < width; i++) {
            if (as_spec_rows[first + i].flags & AS_SPEC_REQUIRED)
                as_json_put_cstr(b, as_spec_rows[first + i].key);
        }
        as_json_put_close(b, ']');
    }
    put_rules(b, level);
}

void as_spec_schema(struct as_buf *out)
{
    as_json_put_open(out, '{');
    as_json_put_member_text(out, "$schema", "https://json-schema.org/draft/2020-12/schema");
    as_json_put_member_text(out, "title", "AnyServe deployment file");
    put_level(out, AS_SPEC_LEVEL_FILE);
    as_json_put_member_open(out, "$defs", '{');
    for (int level = AS_SPEC_LEVEL_FILE + 1; level < AS_SPEC_LEVELS; level++) {
        as_json_put_key(out, as_spec_level_name((enum as_spec_level)level));
        as_json_put_open(out, '{');
        put_level(out, (enum as_spec_level)level);
        as_json_put_close(out, '}');
    }
    as_json_put_close(out, '}');
    as_json_put_close(out, '}');
    as_buf_str(out, "\n");
}
