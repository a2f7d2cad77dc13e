/* wire/json/json_internal.h — what the files that read and write JSON share. Private to json*.c.
 *
 * A reader stands on a token of the index. The last token of an opened text is a bracket, so behind
 * any token that is none there is another, and behind the last byte of a scalar a byte that ends
 * it: neither needs a check for the end of the text.
 */
#ifndef AS_WIRE_JSON_OWN_H
#define AS_WIRE_JSON_OWN_H

#include "wire/json/json.h"
#include "wire/json/json_cxx.h"

struct as_json {
    struct as_json_cxx *cxx;
    struct as_arena *arena;
    const uint8_t *text;
    const uint32_t *offsets; /* where the tokens begin */
    uint32_t n;              /* of them */
    uint32_t token;          /* the next one to read */
    size_t len;              /* of the text */
    char why[160];
};

/* AS_EPROTO, with the line: "not JSON at byte N: `what`", N where the next token begins. */
int as_json_fail(struct as_json *j, const char *what);

/* The next token's first byte; j->token < j->n. */
static inline const uint8_t *as_json_peek(const struct as_json *j)
{
    return j->text + j->offsets[j->token];
}

/* Steps on to a value that is being read. */
static inline void as_json_seek(struct as_json *j, struct as_json_value *v)
{
    AS_ASSERT(!v->consumed && v->token < j->n);
    v->consumed = true;
    j->token = v->token;
}

/* Is the next token this byte? Steps over it then. */
static inline bool as_json_accept(struct as_json *j, uint8_t c)
{
    if (j->token >= j->n || *as_json_peek(j) != c)
        return false;
    j->token++;
    return true;
}

/* White space or the byte of a token of its own: what ends a number, true, false, null. */
static inline bool as_json_is_delimiter(uint8_t c)
{
    return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t' ||
           c == ':' || c == '[' || c == '{';
}

/* A number of the grammar, as far as its digits fit. */
struct as_json_number {
    const char *p, *end;
    uint64_t m; /* the digits without the point, unless `cut` */
    int32_t e;  /* value: m × 10^e */
    bool negative;
    bool integer; /* no point, no exponent */
    bool cut;     /* more digits than m holds */
};
/* The scalar at p. False: it is none. */
bool as_json_scan_number(const uint8_t *p, struct as_json_number *ret_n);
/* Its value, correctly rounded. */
double as_json_number_f64(const struct as_json_number *n);

/* The content of the string that the next token is, quotes and all white space off; false (with the
 * line) when that token is no string. Does not step. */
bool as_json_raw_string(struct as_json *j, struct as_str *ret_s);
/* Means what a content with escapes says; writes it to out (at most s.n bytes) unless that is NULL.
 * False: a bad escape. */
bool as_json_unescape(struct as_str s, uint8_t *out, size_t *ret_n);

/* Numbers as text; the end of it is returned, but AS_JSON_NUMBER_ROOM bytes may be written. */
#define AS_JSON_NUMBER_ROOM 32u
uint8_t *as_json_print_i64(uint8_t *out, int64_t v);
uint8_t *as_json_print_u64(uint8_t *out, uint64_t v);
uint8_t *as_json_print_f64(uint8_t *out, double v);

/* Walks the value at the next token, `depth` arrays and objects around it. 0 or AS_EPROTO. */
int as_json_walk(struct as_json *j, uint32_t depth);

#endif
