/* wire/json/json_internal.h — shared by the files that read and write JSON. Private to json*.c.
 *
 * A reader's position is a token of the index. The last token of an opened text is a closing
 * bracket. Therefore any other token has one after it, and a number or word ends at a delimiter
 * inside the text: neither needs a check for the end of the text.
 */
#ifndef AS_WIRE_JSON_INTERNAL_H
#define AS_WIRE_JSON_INTERNAL_H

#include "wire/json/json.h"
#include "wire/json/json_cxx.h"

struct as_json {
    struct as_json_cxx *cxx;
    struct as_arena *arena;
    const uint8_t *text;
    const uint32_t *offsets; /* where each token begins in the text */
    uint32_t n;              /* number of tokens */
    uint32_t token;          /* index of the next token to read */
    size_t len;              /* bytes of the text */
    char why[160];
};

/* Sets the reason to "not JSON at byte N: `what`", N being where the next token begins. Returns
 * AS_EPROTO. */
int as_json_fail(struct as_json *j, const char *what);

/* The first byte of the next token, which must exist (j->token < j->n). */
static inline const uint8_t *as_json_peek(const struct as_json *j)
{
    return j->text + j->offsets[j->token];
}

/* Moves to a value in order to read it. */
static inline void as_json_seek(struct as_json *j, struct as_json_value *v)
{
    AS_ASSERT(!v->consumed && v->token < j->n);
    v->consumed = true;
    j->token = v->token;
}

/* If the next token is this byte, moves past it and returns true. */
static inline bool as_json_accept(struct as_json *j, uint8_t c)
{
    if (j->token >= j->n || *as_json_peek(j) != c)
        return false;
    j->token++;
    return true;
}

/* White space or punctuation: what ends a number, true, false or null. */
static inline bool as_json_is_delimiter(uint8_t c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t' ||
           c == ':' || c == '[' || c == '{';
}

/* A number as it is written. */
struct as_json_number {
    const char *p, *end;
    uint64_t m; /* the digits without the point, unless `truncated` */
    int32_t e;  /* the value is m × 10^e */
    bool negative;
    bool integer;   /* no point, no exponent */
    bool truncated; /* there are more digits than m can hold */
};
/* Scans the number at p. False: there is none. */
bool as_json_scan_number(const uint8_t *p, struct as_json_number *ret_n);
/* Its value, correctly rounded. */
double as_json_number_f64(const struct as_json_number *n);

/* The content of the string at the next token, without the quotes and with escapes as written.
 * Stays at the token. False, with the reason set: the token is no string. */
bool as_json_raw_string(struct as_json *j, struct as_str *ret_s);
/* Decodes the escapes of a string's content into out (at most s.n bytes), or only computes the
 * length if out is NULL. False: a bad escape. */
bool as_json_unescape(struct as_str s, uint8_t *out, size_t *ret_n);

/* Write a number as text and return its end. They may overwrite AS_JSON_NUMBER_ROOM bytes. */
#define AS_JSON_NUMBER_ROOM 32u
uint8_t *as_json_print_i64(uint8_t *out, int64_t v);
uint8_t *as_json_print_u64(uint8_t *out, uint64_t v);
uint8_t *as_json_print_f64(uint8_t *out, double v);

/* Checks the syntax of the value at the next token and moves past it. depth: number of arrays and
 * objects around it. 0 or AS_EPROTO. */
int as_json_walk(struct as_json *j, uint32_t depth);

#endif
