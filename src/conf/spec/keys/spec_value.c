#include "conf/option/option_row.h"
#include "conf/spec/spec_internal.h"
#include "wire/json/json.h"

#include <math.h>

void *as_spec_alloc(struct as_arena *a, size_t n)
{
    /* texts are bounded, and so is what is made of them */
    return memset(as_arena_xalloc(a, AS_MAX(n, (size_t)1)), 0, AS_MAX(n, (size_t)1));
}

const char *as_spec_dup(struct as_arena *a, struct as_str s)
{
    return as_arena_xdup(a, s).p;
}

/* Reports "KEY: 'value' why" at the value's place; always returns false. */
static bool fail_value(struct as_spec_reader *r, const char *key, const struct as_spec_node *n,
                       const char *why)
{
    struct as_buf b = {0};

    as_spec_node_describe(n, &b);
    as_spec_error(r->errors, n->line, n->column, "%s: %.*s %s", key, AS_STR_FMT(as_buf_slice(&b)),
                  why);
    as_buf_fini(&b);
    return false;
}

static bool is_scalar(const struct as_spec_node *n, enum as_spec_scalar what)
{
    return n->type == AS_SPEC_NODE_SCALAR && as_spec_scalar(n) == what;
}

static bool is_number(const struct as_spec_node *n)
{
    return is_scalar(n, AS_SPEC_WHOLE) || is_scalar(n, AS_SPEC_REAL);
}

/* --- numbers --- */

void as_spec_put_number(const struct as_spec_row *row, int64_t v, struct as_buf *out)
{
    const struct as_option_row size = {.type = AS_OPTION_SIZE, .words = ""};

    if (row->type == AS_SPEC_SIZE)
        as_option_write(&size, &(struct as_option_value){.i = v}, out);
    else
        as_buf_printf(out, "%.12g", (double)v / (double)as_spec_unit(row));
}

static bool fail_bound(struct as_spec_reader *r, const struct as_spec_row *row,
                       const struct as_spec_node *n, bool above)
{
    struct as_buf b = {0};

    as_buf_str(&b, above ? "is above the maximum " : "is below the minimum ");
    as_spec_put_number(row, above ? row->max : row->min, &b);
    fail_value(r, row->key, n, as_buf_cstr(&b));
    as_buf_fini(&b);
    return false;
}

/* 2.0 is a whole number, as in JSON Schema. */
static bool read_int(struct as_spec_reader *r, const struct as_spec_row *row,
                     const struct as_spec_node *n, struct as_spec_value *v)
{
    double d;
    int64_t i;

    if (row->type == AS_SPEC_INT && row->words[0] && is_scalar(n, AS_SPEC_WORD) &&
        as_str_eq(n->text, as_str_of(row->words))) {
        v->i = -1;
        return true;
    }
    if (!is_number(n))
        return fail_value(r, row->key, n, "is not a whole number");
    d = as_spec_scalar_f64(n);
    if (d != nearbyint(d))
        return fail_value(r, row->key, n, "is not a whole number");
    if (d < (double)row->min || d > (double)row->max)
        return fail_bound(r, row, n, d > (double)row->max);
    i = (int64_t)d; /* exact, since the bounds of all rows are below 2^53 */
    if (i == 0 && (row->flags & AS_SPEC_NOT_ZERO))
        return fail_value(r, row->key, n, "is not allowed; -1 means no limit");
    v->i = i;
    return true;
}

/* "25%": up to three digits, 0 to 100. */
static bool read_percent(struct as_str s, int64_t *ret_percent)
{
    uint64_t v;

    if (s.n < 2 || s.n > 4 || s.p[s.n - 1] != '%' ||
        as_str_u64((struct as_str){s.p, s.n - 1}, &v) < 0 || v > 100)
        return false;
    *ret_percent = (int64_t)v;
    return true;
}

static bool read_amount(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v)
{
    int64_t percent;

    if (is_number(n))
        return read_int(r, row, n, v);
    if (!is_scalar(n, AS_SPEC_WORD) || !read_percent(n->text, &percent))
        return fail_value(r, row->key, n,
                          "is neither a whole number nor a percentage from 0% to 100%");
    v->i = -1 - percent;
    return true;
}

static bool read_scaled(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v)
{
    double d;

    if (!is_number(n))
        return fail_value(r, row->key, n,
                          row->type == AS_SPEC_DURATION ? "is not a number of seconds"
                                                        : "is not a number");
    d = as_spec_scalar_f64(n) * (double)as_spec_unit(row);
    /* the product may be wrong in its last bits, which are far below one unit */
    if (d < (double)row->min - 0.05 || d > (double)row->max + 0.05)
        return fail_bound(r, row, n, d > (double)row->min);
    v->i = llround(d);
    return true;
}

static bool read_size(struct as_spec_reader *r, const struct as_spec_row *row,
                      const struct as_spec_node *n, struct as_spec_value *v)
{
    struct as_option_row any = {
        .type = AS_OPTION_SIZE, .min = INT64_MIN, .max = INT64_MAX, .words = ""};
    struct as_option_value o;
    struct as_buf b = {0};
    int rc = AS_EINVALID;

    if (n->type == AS_SPEC_NODE_SCALAR && strlen(n->text.p) == n->text.n)
        rc = as_option_read(&any, n->text.p, &o, &b);
    as_buf_fini(&b);
    if (rc < 0)
        return fail_value(r, row->key, n, "is not a size (bytes, or with K, M, G, T)");
    if (o.i < row->min || o.i > row->max)
        return fail_bound(r, row, n, o.i > row->max);
    v->i = o.i;
    return true;
}

/* --- texts --- */

/* Checks the length, and that there is no zero byte: neither a path nor the environment can have
 * one. */
static bool check_text(struct as_spec_reader *r, const char *key, const struct as_spec_node *n,
                       int64_t min, int64_t max)
{
    char why[64];

    if (memchr(n->text.p, 0, n->text.n))
        return fail_value(r, key, n, "contains a zero byte");
    if ((int64_t)n->text.n >= min && (int64_t)n->text.n <= max)
        return true;
    snprintf(why, sizeof(why), "must have %lld to %lld bytes", (long long)min, (long long)max);
    return fail_value(r, key, n, why);
}

static bool read_string(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v)
{
    if (n->type != AS_SPEC_NODE_SCALAR)
        return fail_value(r, row->key, n, "is not a text");
    if (row->type == AS_SPEC_STRING && as_spec_scalar(n) != AS_SPEC_WORD)
        return fail_value(r, row->key, n,
                          is_number(n) ? "is a number; write it in quotes to make it a text"
                                       : "is not a text; write it in quotes to make it one");
    if (!check_text(r, row->key, n, row->min, row->max))
        return false;
    if (!as_spec_matches(row, n->text))
        return fail_value(r, row->key, n, as_spec_form_error(row));
    v->s = as_spec_dup(r->arena, n->text);
    return true;
}

static bool read_enum(struct as_spec_reader *r, const struct as_spec_row *row,
                      const struct as_spec_node *n, struct as_spec_value *v)
{
    int64_t i = is_scalar(n, AS_SPEC_WORD) ? as_option_find_word(row->words, n->text) : -1;
    struct as_buf b = {0};

    if (i >= 0) {
        v->i = i;
        v->s = as_spec_dup(r->arena, n->text);
        return true;
    }
    as_buf_str(&b, "is not one of ");
    as_option_put_words(row->words, ", ", &b);
    fail_value(r, row->key, n, as_buf_cstr(&b));
    as_buf_fini(&b);
    return false;
}

static bool fail_count(struct as_spec_reader *r, const struct as_spec_row *row,
                       const struct as_spec_node *n, int64_t min, int64_t max)
{
    as_spec_error(r->errors, n->line, n->column, "%s: has %u items; %lld to %lld are allowed",
                  row->key, n->n, (long long)min, (long long)max);
    return false;
}

static bool read_texts(struct as_spec_reader *r, const struct as_spec_row *row,
                       const struct as_spec_node *n, struct as_spec_value *v)
{
    bool ok = true;

    if (n->type != AS_SPEC_NODE_LIST)
        return fail_value(r, row->key, n, "is not a list of texts");
    if (n->n < row->min || n->n > row->max)
        return fail_count(r, row, n, row->min, row->max);
    v->texts = as_spec_alloc(r->arena, n->n * sizeof(*v->texts));
    v->n = 0;
    for (const struct as_spec_node *k = n->first; k; k = k->next) {
        if (k->type != AS_SPEC_NODE_SCALAR || as_spec_scalar(k) == AS_SPEC_NULL)
            ok = fail_value(r, row->key, k, "is not a text");
        else if (!check_text(r, row->key, k, v->n ? 0 : 1,
                             131071)) /* Linux's limit of one argument */
            ok = false;
        v->texts[v->n++] = as_spec_dup(r->arena, k->text);
    }
    return ok;
}

static bool is_variable_name(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
              (i && c >= '0' && c <= '9')))
            return false;
    }
    return s.n > 0 && s.n <= 255;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool read_map(struct as_spec_reader *r, const struct as_spec_row *row,
                     const struct as_spec_node *n, struct as_spec_value *v)
{
    bool ok = true;

    if (n->type != AS_SPEC_NODE_MAP)
        return fail_value(r, row->key, n, "is not a mapping of names to texts");
    if (n->n > row->max)
        return fail_count(r, row, n, 0, row->max);
    v->texts = as_spec_alloc(r->arena, n->n * sizeof(*v->texts));
    v->n = 0;
    for (const struct as_spec_node *k = n->first; k; k = k->next) {
        char *line;

        if (!is_variable_name(k->key) || strncmp(k->key.p, "ANYSERVE_", 9) == 0) {
            as_spec_error(r->errors, k->key_line, k->key_column,
                          "%s: '%.*s' is not the name of a variable that can be set", row->key,
                          AS_STR_FMT(as_spec_excerpt(k->key)));
            ok = false;
            continue;
        }
        if (k->type != AS_SPEC_NODE_SCALAR || as_spec_scalar(k) == AS_SPEC_NULL) {
            ok = fail_value(r, k->key.p, k, "is not a text; write '' for an empty one");
            continue;
        }
        if (!check_text(r, k->key.p, k, 0, 131071 - 256)) {
            ok = false;
            continue;
        }
        line = as_spec_alloc(r->arena, k->key.n + k->text.n + 2);
        memcpy(line, k->key.p, k->key.n);
        line[k->key.n] = '=';
        memcpy(line + k->key.n + 1, k->text.p, k->text.n);
        v->texts[v->n++] = line;
    }
    /* '=' does not sort before digits, but any fixed order will do */
    if (v->n)
        qsort(v->texts, v->n, sizeof(*v->texts), by_text);
    return ok;
}

/* --- JSON --- */

/* Appends a whole number as JSON; a decimal number of any length keeps its digits. */
static bool put_whole(const struct as_spec_node *n, struct as_buf *out)
{
    struct as_str s = n->text;
    int64_t i;

    if (as_spec_scalar_i64(n, &i) == 0) {
        as_json_put_i64(out, i);
        return true;
    }
    if (s.p[0] == '0')
        return false; /* 0x… above 64 bits, or a number above 64 bits with leading zeros */
    if (s.p[0] == '+')
        s = (struct as_str){s.p + 1, s.n - 1};
    if (s.p[0] == '0' || (s.p[0] == '-' && s.p[1] == '0'))
        return false;
    if (out->n && !strchr("{[:,", out->p[out->n - 1]))
        as_buf_str(out, ",");
    as_buf_add(out, s.p, s.n);
    return true;
}

static bool put_scalar(struct as_spec_reader *r, const struct as_spec_row *row,
                       const struct as_spec_node *n, struct as_buf *out)
{
    double d;

    switch (as_spec_scalar(n)) {
    case AS_SPEC_NULL:
        as_json_put_null(out);
        return true;
    case AS_SPEC_WORD_BOOL:
        as_json_put_bool(out, as_spec_scalar_bool(n));
        return true;
    case AS_SPEC_WHOLE:
        return put_whole(n, out) || fail_value(r, row->key, n, "is too large a number");
    case AS_SPEC_REAL:
        d = as_spec_scalar_f64(n);
        if (!isfinite(d))
            return fail_value(r, row->key, n, "is too large a number");
        as_json_put_f64(out, d);
        return true;
    case AS_SPEC_WORD:
        break;
    }
    as_json_put_string(out, n->text);
    return true;
}

/* Appends a node as JSON. Keys are sorted, so that equal values have equal texts. The tree bounds
 * the depth of the recursion. */
static bool put_node(struct as_spec_reader *r, const struct as_spec_row *row,
                     const struct as_spec_node *n, struct as_buf *out)
{
    const struct as_spec_node **all;
    bool ok = true, map = n->type == AS_SPEC_NODE_MAP;

    if (n->type == AS_SPEC_NODE_SCALAR)
        return put_scalar(r, row, n, out);
    all = as_spec_members(n);
    as_json_put_open(out, map ? '{' : '[');
    for (uint32_t i = 0; i < n->n; i++) {
        if (map)
            as_json_put_escaped_key(out, all[i]->key);
        ok = put_node(r, row, all[i], out) && ok;
    }
    as_json_put_close(out, map ? '}' : ']');
    free(all);
    return ok;
}

/* The words are "object:KEY|KEY…": it has no others. */
static bool check_members(struct as_spec_reader *r, const struct as_spec_row *row,
                          const struct as_spec_node *n)
{
    const char *known = row->words + 7;
    bool ok = true;

    for (const struct as_spec_node *k = n->first; k; k = k->next) {
        struct as_buf b = {0};

        if (as_option_find_word(known, k->key) >= 0)
            continue;
        as_option_put_words(known, ", ", &b);
        as_spec_error(r->errors, k->key_line, k->key_column,
                      "%s: unknown key %.*s; it may have %.*s", row->key,
                      AS_STR_FMT(as_spec_excerpt(k->key)), AS_STR_FMT(as_buf_slice(&b)));
        as_buf_fini(&b);
        ok = false;
    }
    return ok;
}

static bool read_json(struct as_spec_reader *r, const struct as_spec_row *row,
                      const struct as_spec_node *n, struct as_spec_value *v)
{
    struct as_buf b = {0};
    bool ok;

    if (row->words[0] && n->type != AS_SPEC_NODE_MAP)
        return fail_value(r, row->key, n, "is not a mapping");
    if (row->words[0] && row->words[6] == ':' && !check_members(r, row, n))
        return false;
    ok = put_node(r, row, n, &b);
    if (ok && (int64_t)b.n > row->max) {
        as_spec_error(r->errors, n->line, n->column, "%s: has %zu bytes as JSON; %lld are allowed",
                      row->key, b.n, (long long)row->max);
        ok = false;
    }
    if (ok)
        v->s = as_spec_dup(r->arena, as_buf_slice(&b));
    as_buf_fini(&b);
    return ok;
}

/* --- objects --- */

static uint32_t objects_max(const struct as_spec_reader *r, const struct as_spec_row *row)
{
    if (as_spec_inner_level(row) == AS_SPEC_LEVEL_APPLICATION)
        return r->limits->applications;
    if (as_spec_inner_level(row) == AS_SPEC_LEVEL_DEPLOYMENT)
        return r->limits->deployments - r->deployments;
    return (uint32_t)row->max;
}

static bool read_objects(struct as_spec_reader *r, const struct as_spec_row *row,
                         const struct as_spec_node *n, struct as_spec_value *v)
{
    bool one = row->type == AS_SPEC_OBJECT;
    const struct as_spec_node *k = one ? n : n->first;
    bool deployments = as_spec_inner_level(row) == AS_SPEC_LEVEL_DEPLOYMENT;
    uint32_t i = 0, count = one ? 1 : n->n;

    if (!one && n->type != AS_SPEC_NODE_LIST)
        return fail_value(r, row->key, n, "is not a list");
    if (!one && n->n > objects_max(r, row)) {
        as_spec_error(r->errors, n->line, n->column, "%s: has %u items; at most %u are allowed%s",
                      row->key, n->n, objects_max(r, row),
                      deployments && r->deployments ? " after those above" : "");
        return false;
    }
    if (deployments)
        r->deployments += n->n;
    v->objects = as_spec_alloc(r->arena, count * sizeof(struct as_spec_object *));
    for (; i < count; i++, k = k->next) {
        struct as_spec_object *o = as_spec_read_object(r, as_spec_inner_level(row), k);

        if (o)
            v->objects[v->n++] = o;
    }
    return true; /* errors inside are counted; the checks of the whole object can still run */
}

/* --- all types --- */

static bool read_bool(struct as_spec_reader *r, const struct as_spec_row *row,
                      const struct as_spec_node *n, struct as_spec_value *v)
{
    if (!is_scalar(n, AS_SPEC_WORD_BOOL))
        return fail_value(r, row->key, n, "is neither true nor false");
    v->i = as_spec_scalar_bool(n);
    return true;
}

typedef bool read_type(struct as_spec_reader *r, const struct as_spec_row *row,
                       const struct as_spec_node *n, struct as_spec_value *v);

static read_type *const readers[] = {
    [AS_SPEC_BOOL] = read_bool,      [AS_SPEC_INT] = read_int,
    [AS_SPEC_NUMBER] = read_scaled,  [AS_SPEC_DURATION] = read_scaled,
    [AS_SPEC_SIZE] = read_size,      [AS_SPEC_AMOUNT] = read_amount,
    [AS_SPEC_STRING] = read_string,  [AS_SPEC_TEXT] = read_string,
    [AS_SPEC_ENUM] = read_enum,      [AS_SPEC_JSON] = read_json,
    [AS_SPEC_TEXTS] = read_texts,    [AS_SPEC_MAP] = read_map,
    [AS_SPEC_OBJECT] = read_objects, [AS_SPEC_OBJECTS] = read_objects,
};

bool as_spec_read_value(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v)
{
    struct as_spec_value read = {
        .set = true, .from = r->from, .line = n->line, .column = n->column};
    bool ok;

    if (is_scalar(n, AS_SPEC_NULL))
        return true;
    ok = readers[row->type](r, row, n, &read);
    if (ok)
        *v = read;
    return ok;
}

void as_spec_read_default(struct as_arena *a, const struct as_spec_row *row,
                          struct as_spec_value *v)
{
    struct as_buf none = {0};
    struct as_spec_errors errors = {.out = &none};
    struct as_spec_reader r = {.arena = a, .errors = &errors, .from = AS_SPEC_FROM_DEFAULT};
    struct as_spec_node n = {.plain = true, .text = as_str_of(row->def)};

    *v = (struct as_spec_value){0};
    /* a default outside its own bounds is a bug of the table, found by the first run */
    AS_ASSERT(as_spec_read_value(&r, row, &n, v));
}
