/* wire/json/json.h — reading and writing JSON (RFC 8259), tensors at full speed.
 *
 * Reading is a cursor over the index that simdjson makes of a text; numbers are printed in
 * the form of std::to_chars. A text is walked forward, every value once: what its reader leaves
 * alone is walked all the same, so that a text is accepted or refused as Python's json does it (NaN
 * and Infinity aside, and a \ud800 without its other half, which is no text). The root is an object
 * or an array. What the text holds twice is told twice. Pure; hostile texts are welcome.
 */
#ifndef AS_WIRE_JSON_H
#define AS_WIRE_JSON_H

#include "base/memory/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

#define AS_JSON_PADDING 64u  /* readable bytes behind a text, of any value */
#define AS_JSON_DEPTH   100u /* arrays and objects inside each other, the outermost counted */

/* --- reading --- */

/* The working memory of one reader. One text at a time; used again and again by its thread. */
struct as_json;

struct as_json *as_json_new(void); /* NULL when memory is out */
void as_json_free(struct as_json *j);

enum as_json_type {
    AS_JSON_NULL,
    AS_JSON_BOOL,
    AS_JSON_NUMBER,
    AS_JSON_STRING,
    AS_JSON_ARRAY,
    AS_JSON_OBJECT,
};

struct as_json_value { /* a place in the text; good until as_json_close */
    enum as_json_type type;
    bool consumed;  /* was read */
    uint8_t depth;  /* arrays and objects around it */
    uint32_t token; /* of the index */
};

/* A text of n bytes at p, with AS_JSON_PADDING readable bytes behind it, which must all stay until
 * as_json_close. Strings that are not there as they mean (escapes) go into the arena.
 * 0, AS_EPROTO (no JSON: as_json_why), AS_ENOMEM. */
int as_json_open(struct as_json *j, struct as_arena *a, const uint8_t *p, size_t n,
                 struct as_json_value *ret_root);
/* After the root was read: nothing follows it. 0 or AS_EPROTO. */
int as_json_expect_end(struct as_json *j);
/* Gives back working memory beyond what is kept for the next text; after every as_json_open. */
void as_json_close(struct as_json *j);
/* After AS_EPROTO: one line, "not JSON at byte 17: …". */
const char *as_json_why(const struct as_json *j);

/* All readers below: 0; AS_EINVALID when the value is of another type, or a number does not fit
 * (then it counts as read); AS_EPROTO when it is no JSON; AS_ENOMEM. A value is read once; a copy
 * made before may be read right after it, as another type. */

/* Slices point into the text where it has no escapes, else into the arena. Always UTF-8. */
int as_json_string(struct as_json *j, struct as_json_value *v, struct as_str *ret_s);
int as_json_bool(struct as_json *j, struct as_json_value *v, bool *ret_b);
/* Integers as JSON writes them: no fraction, no exponent. */
int as_json_i64(struct as_json *j, struct as_json_value *v, int64_t *ret_i);
int as_json_u64(struct as_json *j, struct as_json_value *v, uint64_t *ret_u);
/* Any number, correctly rounded; AS_EINVALID beyond the largest double. */
int as_json_f64(struct as_json *j, struct as_json_value *v, double *ret_d);
/* Walks a value of any type for its grammar only. */
int as_json_skip(struct as_json *j, struct as_json_value *v);
/* Passes over a value whose turn comes later: *ret_v is read when the whole text has been walked
 * (as_json_expect_end), and must be then, because only that checks it. *ret_len: bytes of its text.
 */
int as_json_defer(struct as_json *j, struct as_json_value *v, struct as_json_value *ret_v,
                  size_t *ret_len);

/* The members of an object, or the elements of an array:
 *     err = as_json_items(j, &v, &it);
 *     while (!err && (more = as_json_next(j, &it)) > 0)
 *         … it.key, it.value …
 * A value that was not read when the next is asked for is skipped; an array or object that was
 * begun must be walked to its end. */
struct as_json_items {
    struct as_str key; /* of a member, else empty */
    struct as_json_value value;
    bool object;
    bool begun; /* the first was told */
};
int as_json_items(struct as_json *j, struct as_json_value *v, struct as_json_items *ret_it);
/* 1: key and value are set; 0: that was the last; AS_EPROTO, AS_ENOMEM. */
int as_json_next(struct as_json *j, struct as_json_items *it);

/* The elements of a tensor: an array, flat or nested (then evenly: all arrays of a level are of
 * one length), or a value alone. They are written to `out` in the dtype's bytes, at most `max`
 * of them; the rest is counted. Integers must be written as such and fit; floats are rounded
 * correctly to their type, and must not overflow it; NaN, Infinity and -Infinity are read here
 * and nowhere else; BOOL is true and false; BYTES are strings. `room`: bytes at out, for BYTES at
 * least AS_JSON_BYTES_ROOM; for the others max × size of an element.
 * AS_EINVALID: *ret_e has why, a line like "data[5]: 300 does not fit UINT8". */
#define AS_JSON_BYTES_ROOM(len) ((size_t)(len) + (size_t)(len) / 2 + AS_JSON_PADDING + 8)
struct as_json_elements {
    uint64_t count; /* elements there are */
    size_t bytes;   /* that were written */
    uint32_t ndim;  /* levels of arrays; 0: a value alone */
    int64_t shape[AS_MAX_DIMS];
    char why[128];
};
int as_json_elements(struct as_json *j, struct as_json_value *v, enum as_dtype t, uint64_t max,
                     uint8_t *out, size_t room, struct as_json_elements *ret_e);

/* --- writing --- */

/* Texts are appended to a buffer. A comma is put by itself where a value stands before (the last
 * byte is none of `{`, `[`, `:`, white space, and the buffer is not empty):
 *     as_json_put_open(b, '{');
 *     as_json_put_key(b, "name");
 *     as_json_put_string(b, name);
 *     as_json_put_close(b, '}');
 */
void as_json_put_open(struct as_buf *b, char bracket);
void as_json_put_close(struct as_buf *b, char bracket);
void as_json_put_key(struct as_buf *b, const char *key);
void as_json_put_escaped_key(struct as_buf *b, struct as_str key); /* a key that needs escaping */
void as_json_put_string(struct as_buf *b, struct as_str s);        /* not UTF-8: U+FFFD */
void as_json_put_cstr(struct as_buf *b, const char *z);
void as_json_put_bool(struct as_buf *b, bool v);
void as_json_put_null(struct as_buf *b);
void as_json_put_i64(struct as_buf *b, int64_t v);
void as_json_put_u64(struct as_buf *b, uint64_t v);
/* Shortest text that reads back as the same double; null for what is no number. */
void as_json_put_f64(struct as_buf *b, double v);
/* A key and its value. The sizes of any shape are no sizes. */
void as_json_put_member_string(struct as_buf *b, const char *key, struct as_str s);
void as_json_put_member_u64(struct as_buf *b, const char *key, uint64_t v);
void as_json_put_member_shape(struct as_buf *b, const char *key, const struct as_tensor_spec *s);
/* {"error":"…"} */
void as_json_put_error(struct as_buf *b, struct as_str text);

/* A tensor's elements, `a,b,c` without brackets, shortest round trip for their type (FP16 and BF16:
 * for the FP32 of the same value); NaN and infinities as NaN, Infinity, -Infinity (docs/PROTOCOL.md
 * says why). as_json_elements_max is the room that they need (for BYTES it looks at them:
 * exactly what they take), or UINT64_MAX when BYTES are not UTF-8; as_json_put_elements writes and
 * returns how many bytes it were; more of the room may have been written to. */
uint64_t as_json_elements_max(enum as_dtype t, const uint8_t *data, size_t nbytes);
size_t as_json_put_elements(uint8_t *out, enum as_dtype t, const uint8_t *data, size_t nbytes);
/* "s" with quotes and escapes into memory; its length first. */
size_t as_json_string_len(struct as_str s);
size_t as_json_copy_string(uint8_t *out, struct as_str s);

#endif
