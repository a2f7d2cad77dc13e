/* Writes JSON into a buffer. Numbers and tensors are printed in json_print.c. */
#include "wire/json/json.h"
#include "wire/json/json_internal.h"
#include "wire/name_check.h"

#include <math.h>

/* --- structure --- */

static void put_comma(struct as_buf *b)
{
    static const char no_comma_after[] = {'{', '[', ':', ' ', '\n', '\t', '\r'};

    if (b->n && !memchr(no_comma_after, b->p[b->n - 1], sizeof(no_comma_after)))
        as_buf_add(b, ",", 1);
}

void as_json_put_open(struct as_buf *b, char bracket)
{
    put_comma(b);
    as_buf_add(b, &bracket, 1);
}

void as_json_put_close(struct as_buf *b, char bracket)
{
    as_buf_add(b, &bracket, 1);
}

void as_json_put_escaped_key(struct as_buf *b, struct as_str key)
{
    as_json_put_string(b, key);
    as_buf_add(b, ":", 1);
}

void as_json_put_key(struct as_buf *b, const char *key)
{
    as_json_put_escaped_key(b, as_str_of(key));
}

void as_json_put_cstr(struct as_buf *b, const char *z)
{
    as_json_put_string(b, as_str_of(z));
}

void as_json_put_bool(struct as_buf *b, bool v)
{
    put_comma(b);
    as_buf_str(b, v ? "true" : "false");
}

void as_json_put_null(struct as_buf *b)
{
    put_comma(b);
    as_buf_str(b, "null");
}

void as_json_put_member_string(struct as_buf *b, const char *key, struct as_str s)
{
    as_json_put_key(b, key);
    as_json_put_string(b, s);
}

void as_json_put_member_text(struct as_buf *b, const char *key, const char *z)
{
    as_json_put_member_string(b, key, as_str_of(z));
}

void as_json_put_member_bool(struct as_buf *b, const char *key, bool v)
{
    as_json_put_key(b, key);
    as_json_put_bool(b, v);
}

void as_json_put_member_i64(struct as_buf *b, const char *key, int64_t v)
{
    as_json_put_key(b, key);
    as_json_put_i64(b, v);
}

void as_json_put_member_u64_or_null(struct as_buf *b, const char *key, uint64_t v, uint64_t none)
{
    as_json_put_key(b, key);
    if (v == none)
        as_json_put_null(b);
    else
        as_json_put_u64(b, v);
}

void as_json_put_member_open(struct as_buf *b, const char *key, char bracket)
{
    as_json_put_key(b, key);
    as_json_put_open(b, bracket);
}

void as_json_put_member_u64(struct as_buf *b, const char *key, uint64_t v)
{
    as_json_put_key(b, key);
    as_json_put_u64(b, v);
}

void as_json_put_member_shape(struct as_buf *b, const char *key, const struct as_tensor_spec *s)
{
    as_json_put_member_open(b, key, '[');
    for (uint32_t i = 0; s->ndim != AS_ANY_RANK && i < s->ndim; i++)
        as_json_put_i64(b, s->shape[i]);
    as_json_put_close(b, ']');
}

void as_json_put_error(struct as_buf *b, struct as_str text)
{
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "error", text);
    as_json_put_close(b, '}');
}

/* --- strings --- */

/* The character after the backslash; 'u': \u00XX, six bytes; 0: no escape. */
static const char escape_of[256] = {
    [0x00] = 'u', [0x01] = 'u', [0x02] = 'u', [0x03] = 'u',  [0x04] = 'u', [0x05] = 'u',
    [0x06] = 'u', [0x07] = 'u', [0x08] = 'b', [0x09] = 't',  [0x0a] = 'n', [0x0b] = 'u',
    [0x0c] = 'f', [0x0d] = 'r', [0x0e] = 'u', [0x0f] = 'u',  [0x10] = 'u', [0x11] = 'u',
    [0x12] = 'u', [0x13] = 'u', [0x14] = 'u', [0x15] = 'u',  [0x16] = 'u', [0x17] = 'u',
    [0x18] = 'u', [0x19] = 'u', [0x1a] = 'u', [0x1b] = 'u',  [0x1c] = 'u', [0x1d] = 'u',
    [0x1e] = 'u', [0x1f] = 'u', ['"'] = '"',  ['\\'] = '\\', [0x7f] = 'u',
};

/* The number of bytes from p on that need no escape. Tests eight at a time: the lowest byte of
 * `odd` whose highest bit is set is the first byte that may need one. */
static inline size_t plain_run(const char *p, size_t n)
{
    const uint64_t each = 0x0101010101010101u;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint64_t v, quote, slash, del, odd;

        memcpy(&v, p + i, 8);
        quote = v ^ each * '"';
        slash = v ^ each * '\\';
        del = v ^ each * 0x7f;
        odd = ((v - each * 0x20) & ~v) | ((quote - each) & ~quote) | ((slash - each) & ~slash) |
              ((del - each) & ~del);
        odd &= each * 0x80;
        if (odd)
            return i + (size_t)__builtin_ctzll(odd) / 8;
    }
    while (i < n && !escape_of[(uint8_t)p[i]])
        i++;
    return i;
}

size_t as_json_string_len(struct as_str s)
{
    size_t n = s.n + 2;

    for (size_t i = 0; (i += plain_run(s.p + i, s.n - i)) < s.n; i++)
        n += escape_of[(uint8_t)s.p[i]] == 'u' ? 5 : 1;
    return n;
}

size_t as_json_copy_string(uint8_t *out, struct as_str s)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t *p = out;

    *p++ = '"';
    for (size_t i = 0; i < s.n;) {
        size_t run = plain_run(s.p + i, s.n - i);
        uint8_t c;

        if (run)
            memcpy(p, s.p + i, run);
        p += run;
        i += run;
        if (i == s.n)
            break;
        c = (uint8_t)s.p[i++];
        *p++ = '\\';
        *p++ = (uint8_t)escape_of[c];
        if (escape_of[c] == 'u') {
            p[0] = p[1] = '0';
            p[2] = (uint8_t)hex[c >> 4];
            p[3] = (uint8_t)hex[c & 15];
            p += 4;
        }
    }
    *p++ = '"';
    return (size_t)(p - out);
}

void as_json_put_string(struct as_buf *b, struct as_str s)
{
    put_comma(b);
    if (as_name_check_utf8(s))
        b->n += as_json_copy_string(as_buf_reserve(b, as_json_string_len(s)), s);
    else
        as_buf_json(b, s);
}

/* --- numbers --- */

void as_json_put_i64(struct as_buf *b, int64_t v)
{
    uint8_t *p;

    put_comma(b);
    p = as_buf_reserve(b, AS_JSON_NUMBER_ROOM);
    b->n += (size_t)(as_json_print_i64(p, v) - p);
}

void as_json_put_u64(struct as_buf *b, uint64_t v)
{
    uint8_t *p;

    put_comma(b);
    p = as_buf_reserve(b, AS_JSON_NUMBER_ROOM);
    b->n += (size_t)(as_json_print_u64(p, v) - p);
}

void as_json_put_f64(struct as_buf *b, double v)
{
    uint8_t *p;

    if (!isfinite(v)) {
        as_json_put_null(b);
        return;
    }
    put_comma(b);
    p = as_buf_reserve(b, AS_JSON_NUMBER_ROOM);
    b->n += (size_t)(as_json_print_f64(p, v) - p);
}
