#include "tool/tensor/literal.h"

#include "base/utf8.h"
#include "tool/tensor/number.h"

#define SHOWN 40u /* most bytes of a value that an error repeats */

struct reader {
    const char *start, *p, *end;
    enum as_dtype t;
    struct as_literal *l;
    struct as_buf *why;
    uint32_t depth;
    uint32_t leaf_depth; /* depth of the lists that hold elements; 0: not known yet */
    int64_t count[AS_MAX_DIMS];
};

AS_PRINTF(2, 3)
static int refuse_literal(struct reader *r, const char *fmt, ...)
{
    va_list ap;

    as_buf_printf(r->why, "at position %zu: ", (size_t)(r->p - r->start) + 1);
    va_start(ap, fmt);
    as_buf_vprintf(r->why, fmt, ap);
    va_end(ap);
    return AS_EINVALID;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_space(struct reader *r)
{
    while (r->p < r->end && is_space(*r->p))
        r->p++;
}

/* --- elements --- */

static int refuse_number(struct reader *r, struct as_str s, int err)
{
    as_buf_printf(r->why, "value %llu at position %zu, '%.*s%s', ", (unsigned long long)r->l->n + 1,
                  (size_t)(s.p - r->start) + 1, AS_STR_CUT(s, SHOWN), s.n > SHOWN ? "…" : "");
    as_number_why(r->t, err, r->why);
    return AS_EINVALID;
}

static int read_number(struct reader *r)
{
    struct as_str s = {r->p, 0};
    uint8_t bytes[8];
    int err;

    while (r->p < r->end && !is_space(*r->p) && *r->p != ',' && *r->p != ']' && *r->p != '[')
        r->p++;
    s.n = (size_t)(r->p - s.p);
    if (s.n == 0)
        return refuse_literal(r, "a value is missing");
    err = as_number_read(r->t, s, bytes);
    if (err)
        return refuse_number(r, s, err);
    as_buf_add(&r->l->data, bytes, as_dtype_size(r->t));
    return 0;
}

static int read_hex(struct reader *r, uint32_t digits, uint32_t *ret_v)
{
    *ret_v = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int d = as_hex_digit(r->p < r->end ? *r->p : 0);

        if (d < 0)
            return refuse_literal(r, "expected %u hexadecimal digits", digits);
        *ret_v = *ret_v << 4 | (uint32_t)d;
        r->p++;
    }
    return 0;
}

/* After "\u": one UTF-16 unit, or a surrogate pair. */
static int read_unicode(struct reader *r)
{
    uint8_t out[4];
    uint32_t high, low;
    int err = read_hex(r, 4, &high);

    if (err)
        return err;
    if (high >= 0xd800 && high < 0xdc00 && r->end - r->p >= 6 && memcmp(r->p, "\\u", 2) == 0) {
        r->p += 2;
        err = read_hex(r, 4, &low);
        if (err)
            return err;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse_literal(r, "\\u%04x is not the second half of a surrogate pair", low);
        high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    } else if (high >= 0xd800 && high <= 0xdfff) {
        return refuse_literal(r, "\\u%04x is half of a surrogate pair", high);
    }
    as_buf_add(&r->l->data, out, as_utf8_put(out, high));
    return 0;
}

static int read_escape(struct reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *known;
    uint32_t v;
    int err;
    char c;

    if (r->p == r->end)
        return refuse_literal(r, "the string does not end");
    c = *r->p++;
    if (c == 'u')
        return read_unicode(r);
    if (c == 'x') {
        err = read_hex(r, 2, &v);
        as_buf_add(&r->l->data, &(uint8_t){(uint8_t)v}, 1);
        return err;
    }
    known = c ? strchr(from, c) : NULL;
    if (!known)
        return refuse_literal(r, "unknown escape \\%c", c);
    as_buf_add(&r->l->data, &to[known - from], 1);
    return 0;
}

/* Writes the length of an element into the 4 bytes at `at`, which precede it. */
static int end_element(struct reader *r, size_t at)
{
    size_t n = r->l->data.n - at - 4;
    uint32_t len = (uint32_t)n;

    if (n > UINT32_MAX)
        return refuse_literal(r, "a BYTES element of %zu bytes is too long", n);
    memcpy(r->l->data.p + at, &len, 4);
    return 0;
}

static int read_string(struct reader *r)
{
    size_t at = r->l->data.n;
    int err = 0;

    if (*r->p != '"')
        return refuse_literal(r, "strings in lists must be in quotes");
    as_buf_add(&r->l->data, "\0\0\0", 4);
    r->p++;
    while (r->p < r->end && *r->p != '"' && !err) {
        const char *plain = r->p;

        while (r->p < r->end && *r->p != '"' && *r->p != '\\')
            r->p++;
        as_buf_add(&r->l->data, plain, (size_t)(r->p - plain));
        if (r->p < r->end && *r->p == '\\') {
            r->p++;
            err = read_escape(r);
        }
    }
    if (err)
        return err;
    if (r->p == r->end)
        return refuse_literal(r, "the string does not end");
    r->p++;
    return end_element(r, at);
}

static int read_element(struct reader *r)
{
    int err = r->t == AS_DT_BYTES ? read_string(r) : read_number(r);

    r->l->n += err == 0;
    return err;
}

/* --- lists --- */

static int open_list(struct reader *r)
{
    if (r->depth == AS_MAX_DIMS)
        return refuse_literal(r, "more than %d dimensions", AS_MAX_DIMS);
    if (r->leaf_depth && r->depth == r->leaf_depth)
        return refuse_literal(r, "unexpected list: the lists before have values at this depth");
    r->count[r->depth++] = 0;
    if (r->depth > r->l->ndim) {
        r->l->ndim = r->depth;
        r->l->shape[r->depth - 1] = -1;
    }
    r->p++;
    return 0;
}

static int close_list(struct reader *r)
{
    int64_t n = r->count[r->depth - 1], *size = &r->l->shape[r->depth - 1];

    if (n == 0 && !r->leaf_depth)
        r->leaf_depth = r->depth; /* an empty list counts as one of elements */
    if (*size >= 0 && *size != n)
        return refuse_literal(r, "this list has %lld entries, the lists before have %lld",
                              (long long)n, (long long)*size);
    *size = n;
    r->p++;
    r->depth--;
    if (r->depth)
        r->count[r->depth - 1]++;
    return 0;
}

/* Reads what is between two entries: white space, at most one comma. 1: there was a comma, so
 * another entry must follow. */
static int read_separator(struct reader *r)
{
    const char *from = r->p;

    skip_space(r);
    if (r->p < r->end && *r->p == ',') {
        r->p++;
        skip_space(r);
        return 1;
    }
    /* "[1][2]" and "[1 2]" are fine, "\"a\"\"b\"" is not */
    if (r->p == from && r->p < r->end && *r->p != ']' && *r->p != '[')
        return refuse_literal(r, "a comma is missing");
    return 0;
}

static int read_entry(struct reader *r)
{
    if (!r->leaf_depth)
        r->leaf_depth = r->depth;
    if (r->depth != r->leaf_depth)
        return refuse_literal(r, "unexpected value: the lists before have lists at this depth");
    r->count[r->depth - 1]++;
    return read_element(r);
}

static int read_lists(struct reader *r)
{
    int more = 0, err;

    do {
        if (r->p == r->end)
            return refuse_literal(r, "the list does not end");
        if (*r->p == '[')
            err = open_list(r);
        else if (*r->p == ']' && !more)
            err = close_list(r);
        else
            err = read_entry(r);
        if (err)
            return err;
        more = 0;
        if (r->p[-1] == '[' && r->depth && r->count[r->depth - 1] == 0)
            skip_space(r);
        else if (r->depth)
            more = read_separator(r);
        if (more < 0)
            return more;
    } while (r->depth);
    skip_space(r);
    return r->p == r->end ? 0 : refuse_literal(r, "unexpected text after the list");
}

static int read_row(struct reader *r)
{
    int more = 0;

    while (more || r->p < r->end) {
        int err = r->p == r->end ? refuse_literal(r, "a value is missing") : read_element(r);

        if (err)
            return err;
        more = read_separator(r);
        if (more < 0)
            return more;
    }
    return 0;
}

static int read_plain(struct reader *r)
{
    as_buf_add(&r->l->data, "\0\0\0", 4);
    as_buf_add(&r->l->data, r->p, (size_t)(r->end - r->p));
    r->l->n = 1;
    return end_element(r, 0);
}

int as_literal_read(enum as_dtype t, struct as_str text, struct as_literal *l, struct as_buf *why)
{
    struct reader r = {
        .start = text.p, .p = text.p, .end = text.p + text.n, .t = t, .l = l, .why = why};

    skip_space(&r);
    if (t == AS_DT_BYTES && (r.p == r.end || (*r.p != '[' && *r.p != '"'))) {
        r.p = r.start;
        return read_plain(&r);
    }
    if (r.p < r.end && *r.p == '[') {
        l->lists = true;
        return read_lists(&r);
    }
    return read_row(&r);
}

void as_literal_fini(struct as_literal *l)
{
    as_buf_fini(&l->data);
}
