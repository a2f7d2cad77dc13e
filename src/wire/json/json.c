/* The reader's cursor: objects, arrays, strings, numbers. The elements of tensors are read in
 * json_elements.c. */
#include "wire/json/json.h"

#include "base/utf8.h"
#include "wire/json/json_internal.h"

#include <math.h>

struct as_json *as_json_new(void)
{
    struct as_json *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->cxx = as_json_cxx_new();
    if (!j->cxx) {
        free(j);
        return NULL;
    }
    return j;
}

void as_json_free(struct as_json *j)
{
    if (!j)
        return;
    as_json_cxx_free(j->cxx);
    free(j);
}

const char *as_json_why(const struct as_json *j)
{
    return j->why;
}

int as_json_fail(struct as_json *j, const char *what)
{
    size_t at = j->token < j->n ? j->offsets[j->token] : j->len;

    snprintf(j->why, sizeof(j->why), "not JSON at byte %zu: %s", at, what);
    return AS_EPROTO;
}

/* --- opening and closing a text --- */

static bool token_type(uint8_t c, enum as_json_type *ret_t)
{
    switch (c) {
    case '{':
        *ret_t = AS_JSON_OBJECT;
        return true;
    case '[':
        *ret_t = AS_JSON_ARRAY;
        return true;
    case '"':
        *ret_t = AS_JSON_STRING;
        return true;
    case 't':
    case 'f':
        *ret_t = AS_JSON_BOOL;
        return true;
    case 'n':
        *ret_t = AS_JSON_NULL;
        return true;
    default:
        *ret_t = AS_JSON_NUMBER;
        return c == '-' || (c >= '0' && c <= '9');
    }
}

/* The value that begins at the next token; does not read it. */
static int get_value(struct as_json *j, uint8_t depth, struct as_json_value *ret_v)
{
    enum as_json_type type;

    if (j->token >= j->n)
        return as_json_fail(j, "the text ends early");
    if (!token_type(*as_json_peek(j), &type))
        return as_json_fail(j, "expected a value");
    *ret_v = (struct as_json_value){.type = type, .depth = depth, .token = j->token};
    return 0;
}

int as_json_open(struct as_json *j, struct as_arena *a, const uint8_t *p, size_t n,
                 struct as_json_value *ret_root)
{
    const char *what;
    uint8_t open, close;
    int err;

    j->arena = a;
    j->text = p;
    j->len = n;
    j->n = j->token = 0;
    err = as_json_cxx_index(j->cxx, p, n, &j->offsets, &j->n, &what);
    if (err > 0)
        return AS_ENOMEM;
    if (err < 0) {
        snprintf(j->why, sizeof(j->why), "not JSON: %s", what);
        return AS_EPROTO;
    }
    open = *as_json_peek(j);
    close = p[j->offsets[j->n - 1]];
    if (open != '{' && open != '[')
        return as_json_fail(j, "expected an object or an array");
    if (close != '}' && close != ']') {
        j->token = j->n - 1;
        return as_json_fail(j, "expected the end of the object or array");
    }
    return get_value(j, 0, ret_root);
}

int as_json_expect_end(struct as_json *j)
{
    return j->token == j->n ? 0 : as_json_fail(j, "something follows the end");
}

void as_json_close(struct as_json *j)
{
    j->n = j->token = 0;
    as_json_cxx_trim(j->cxx);
}

/* --- strings --- */

bool as_json_raw_string(struct as_json *j, struct as_str *ret_s)
{
    const uint8_t *p, *end;

    if (j->token >= j->n || *as_json_peek(j) != '"') {
        as_json_fail(j, "expected a string");
        return false;
    }
    p = as_json_peek(j) + 1;
    /* only white space is between the closing quote and the next token */
    end = j->text + j->offsets[j->token + 1] - 1;
    while (end > p && *end != '"')
        end--;
    *ret_s = (struct as_str){(const char *)p, (size_t)(end - p)};
    return true;
}

static bool parse_hex4(const char *p, const char *end, uint32_t *ret_c)
{
    uint32_t c = 0;

    if (end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int d = as_hex_digit(p[i]);

        if (d < 0)
            return false;
        c = c << 4 | (uint32_t)d;
    }
    *ret_c = c;
    return true;
}

/* Decodes the escape whose backslash is before p. Returns the end of the escape, or NULL: it is
 * invalid. */
static const char *unescape_one(const char *p, const char *end, uint8_t out[4], size_t *ret_n)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t c, low;

    if (p == end)
        return NULL;
    found = *p ? strchr(names, *p) : NULL;
    if (found) {
        out[0] = (uint8_t)means[found - names];
        *ret_n = 1;
        return p + 1;
    }
    if (*p != 'u' || !parse_hex4(p + 1, end, &c))
        return NULL;
    p += 5;
    if (c >= 0xd800 && c < 0xdc00) { /* the first half of a surrogate pair */
        if (end - p < 6 || p[0] != '\\' || p[1] != 'u' || !parse_hex4(p + 2, end, &low) ||
            low < 0xdc00 || low > 0xdfff)
            return NULL;
        c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
        p += 6;
    } else if (c >= 0xdc00 && c <= 0xdfff) {
        return NULL;
    }
    *ret_n = as_utf8_put(out, c);
    return p;
}

bool as_json_unescape(struct as_str s, uint8_t *out, size_t *ret_n)
{
    const char *p = s.p, *end = s.p + s.n;
    size_t n = 0;

    while (p < end) {
        const char *stop = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((stop ? stop : end) - p), k;
        uint8_t one[4];

        if (out)
            memcpy(out + n, p, run);
        n += run;
        if (!stop)
            break;
        p = unescape_one(stop + 1, end, one, &k);
        if (!p)
            return false;
        if (out)
            memcpy(out + n, one, k);
        n += k;
    }
    *ret_n = n;
    return true;
}

/* Reads the string at the next token, with its escapes decoded, and moves past it. */
static int read_string(struct as_json *j, struct as_str *ret_s)
{
    struct as_str raw;
    uint8_t *out;
    size_t n;

    if (!as_json_raw_string(j, &raw))
        return AS_EPROTO;
    if (!raw.n || !memchr(raw.p, '\\', raw.n)) {
        j->token++;
        *ret_s = raw;
        return 0;
    }
    out = as_arena_alloc(j->arena, raw.n, 1);
    if (!out)
        return AS_ENOMEM;
    if (!as_json_unescape(raw, out, &n))
        return as_json_fail(j, "a bad escape in a string");
    j->token++;
    *ret_s = (struct as_str){(char *)out, n};
    return 0;
}

/* --- skipping values that the caller does not read --- */

static int walk_word(struct as_json *j, const char *word, size_t n)
{
    const uint8_t *p = as_json_peek(j);

    /* no check for the end of the text: its last byte is a bracket, which is in none of these words
     */
    for (size_t i = 0; i < n; i++) {
        if (p[i] != (uint8_t)word[i])
            return as_json_fail(j, "expected a value");
    }
    if (!as_json_is_delimiter(p[n]))
        return as_json_fail(j, "expected a value");
    j->token++;
    return 0;
}

static int walk_string(struct as_json *j)
{
    struct as_str raw;
    size_t n;

    if (!as_json_raw_string(j, &raw))
        return AS_EPROTO;
    if (raw.n && memchr(raw.p, '\\', raw.n) && !as_json_unescape(raw, NULL, &n))
        return as_json_fail(j, "a bad escape in a string");
    j->token++;
    return 0;
}

static int walk_items(struct as_json *j, uint32_t depth)
{
    bool object = *as_json_peek(j) == '{';
    uint8_t close = object ? '}' : ']';
    int err;

    if (depth == AS_JSON_DEPTH)
        return as_json_fail(j, "nested deeper than 100 levels");
    j->token++;
    if (as_json_accept(j, close))
        return 0;
    do {
        if (object) {
            err = walk_string(j);
            if (err)
                return err;
            if (!as_json_accept(j, ':'))
                return as_json_fail(j, "expected ':'");
        }
        err = as_json_walk(j, depth + 1);
        if (err)
            return err;
    } while (as_json_accept(j, ','));
    return as_json_accept(j, close)
               ? 0
               : as_json_fail(j, object ? "expected ',' or '}'" : "expected ',' or ']'");
}

int as_json_walk(struct as_json *j, uint32_t depth)
{
    struct as_json_number number;

    if (j->token >= j->n)
        return as_json_fail(j, "the text ends early");
    switch (*as_json_peek(j)) {
    case '{':
    case '[':
        return walk_items(j, depth);
    case '"':
        return walk_string(j);
    case 't':
        return walk_word(j, "true", 4);
    case 'f':
        return walk_word(j, "false", 5);
    case 'n':
        return walk_word(j, "null", 4);
    default:
        if (!as_json_scan_number(as_json_peek(j), &number))
            return as_json_fail(j, "expected a value");
        j->token++;
        return 0;
    }
}

int as_json_skip(struct as_json *j, struct as_json_value *v)
{
    as_json_seek(j, v);
    return as_json_walk(j, v->depth);
}

int as_json_defer(struct as_json *j, struct as_json_value *v, struct as_json_value *ret_v,
                  size_t *ret_len)
{
    struct as_json_value deferred = *v;
    uint32_t open = 0;

    as_json_seek(j, v);
    do {
        uint8_t c;

        if (j->token >= j->n)
            return as_json_fail(j, "the text ends early");
        c = *as_json_peek(j);
        open += c == '[' || c == '{';
        open -= c == ']' || c == '}';
        j->token++;
    } while (open);
    if (j->token >= j->n)
        return as_json_fail(j, "the text ends early");
    *ret_v = deferred;
    *ret_len = j->offsets[j->token] - j->offsets[deferred.token];
    return 0;
}

/* --- objects and arrays --- */

int as_json_items(struct as_json *j, struct as_json_value *v, struct as_json_items *ret_it)
{
    if (v->type != AS_JSON_OBJECT && v->type != AS_JSON_ARRAY) {
        int err = as_json_skip(j, v);

        return err ? err : AS_EINVALID;
    }
    as_json_seek(j, v);
    if (v->depth >= AS_JSON_DEPTH)
        return as_json_fail(j, "nested deeper than 100 levels");
    j->token++;
    *ret_it = (struct as_json_items){.object = v->type == AS_JSON_OBJECT};
    ret_it->value.depth = (uint8_t)(v->depth + 1);
    return 0;
}

int as_json_next(struct as_json *j, struct as_json_items *it)
{
    uint8_t close = it->object ? '}' : ']';
    int err;

    if (it->begun && !it->value.consumed) {
        err = as_json_skip(j, &it->value);
        if (err)
            return err;
    }
    if (as_json_accept(j, close))
        return 0;
    if (it->begun && !as_json_accept(j, ','))
        return as_json_fail(j, it->object ? "expected ',' or '}'" : "expected ',' or ']'");
    it->begun = true;
    if (it->object) {
        err = read_string(j, &it->key);
        if (err)
            return err;
        if (!as_json_accept(j, ':'))
            return as_json_fail(j, "expected ':'");
    }
    err = get_value(j, it->value.depth, &it->value);
    return err ? err : 1;
}

/* --- scalars --- */

/* Moves to a value of this type. If it has another type, skips it: AS_EINVALID, or the error of the
 * skip. */
static int seek_type(struct as_json *j, struct as_json_value *v, enum as_json_type type)
{
    int err;

    if (v->type == type) {
        as_json_seek(j, v);
        return 0;
    }
    err = as_json_skip(j, v);
    return err ? err : AS_EINVALID;
}

int as_json_string(struct as_json *j, struct as_json_value *v, struct as_str *ret_s)
{
    int err = seek_type(j, v, AS_JSON_STRING);

    return err ? err : read_string(j, ret_s);
}

int as_json_bool(struct as_json *j, struct as_json_value *v, bool *ret_b)
{
    int err = seek_type(j, v, AS_JSON_BOOL);
    bool yes;

    if (err)
        return err;
    yes = *as_json_peek(j) == 't';
    err = as_json_walk(j, v->depth);
    if (!err)
        *ret_b = yes;
    return err;
}

static int read_number(struct as_json *j, struct as_json_value *v, struct as_json_number *ret_n)
{
    int err = seek_type(j, v, AS_JSON_NUMBER);

    if (err)
        return err;
    if (!as_json_scan_number(as_json_peek(j), ret_n))
        return as_json_fail(j, "expected a value");
    j->token++;
    return 0;
}

int as_json_i64(struct as_json *j, struct as_json_value *v, int64_t *ret_i)
{
    struct as_json_number n;
    int err = read_number(j, v, &n);

    if (err)
        return err;
    if (!n.integer || n.truncated || n.m > (uint64_t)INT64_MAX + n.negative)
        return AS_EINVALID;
    *ret_i = (int64_t)(n.negative ? -n.m : n.m);
    return 0;
}

int as_json_u64(struct as_json *j, struct as_json_value *v, uint64_t *ret_u)
{
    struct as_json_number n;
    int err = read_number(j, v, &n);

    if (err)
        return err;
    if (!n.integer || n.truncated || (n.negative && n.m))
        return AS_EINVALID;
    *ret_u = n.m;
    return 0;
}

int as_json_f64(struct as_json *j, struct as_json_value *v, double *ret_d)
{
    struct as_json_number n;
    int err = read_number(j, v, &n);
    double d;

    if (err)
        return err;
    d = as_json_number_f64(&n);
    if (isinf(d))
        return AS_EINVALID;
    *ret_d = d;
    return 0;
}
