/* wire/json/json.h — reads and writes JSON (RFC 8259), with a fast path for tensors.
 *
 * The reader is a cursor over the token index that simdjson builds. It moves forward only and
 * visits every value once. A value that the caller does not read is still checked, so that the same
 * texts are accepted as by Python's json module, with two exceptions: NaN and Infinity are read
 * only as elements of a tensor, and half of a surrogate pair (a \ud800 alone) is refused. The root
 * must be an object or an array. A key that occurs twice is returned twice. Floats are printed as
 * by std::to_chars, but whole ones as 1.0. Pure: no I/O, no global state. The input may be hostile.
 */
#ifndef AS_WIRE_JSON_H
#define AS_WIRE_JSON_H

#include "base/buf.h"
#include "base/err.h"
#include "base/memory/arena.h"
#include "base/tensor.h"

#define AS_JSON_PADDING 64u  /* bytes after a text that must be readable, whatever their value */
#define AS_JSON_DEPTH   100u /* most levels of nested arrays and objects, the root included */

/* --- reading --- */

/* The working memory of a reader: for one text at a time, and for one thread. Reuse it for the next
 * text. */
struct as_json;

struct as_json *as_json_new(void); /* NULL: out of memory */
void as_json_free(struct as_json *j);

enum as_json_type {
    AS_JSON_NULL,
    AS_JSON_BOOL,
    AS_JSON_NUMBER,
    AS_JSON_STRING,
    AS_JSON_ARRAY,
    AS_JSON_OBJECT,
};

struct as_json_value { /* a position in the text; valid until as_json_close */
    enum as_json_type type;
    bool consumed;  /* it was read or skipped */
    uint8_t depth;  /* number of arrays and objects around it */
    uint32_t token; /* where it begins in the token index */
};

/* Starts to read the n bytes at p. They and the AS_JSON_PADDING readable bytes after them must stay
 * until as_json_close. Strings with escapes are decoded into the arena.
 * 0; AS_EPROTO: not JSON (as_json_why has the reason); AS_ENOMEM. */
int as_json_open(struct as_json *j, struct as_arena *a, const uint8_t *p, size_t n,
                 struct as_json_value *ret_root);
/* Call it after the root was read. 0, or AS_EPROTO when something follows the root. */
int as_json_expect_end(struct as_json *j);
/* Ends the reading of a text, and frees a large index. Due after every as_json_open, failed or not.
 */
void as_json_close(struct as_json *j);
/* The reason for the last AS_EPROTO, one line: "not JSON at byte 17: …". */
const char *as_json_why(const struct as_json *j);

/* All readers below return 0, AS_EINVALID (the value is of another type, or the number does not
 * fit; the value counts as read), AS_EPROTO (not JSON) or AS_ENOMEM. A value is read once. To try
 * several types, copy the struct first and read the copy right after the original. */

/* The slice points into the text, or into the arena if the string has escapes. It is UTF-8. */
int as_json_string(struct as_json *j, struct as_json_value *v, struct as_str *ret_s);
int as_json_bool(struct as_json *j, struct as_json_value *v, bool *ret_b);
/* Only numbers that are written without a fraction and an exponent: 1.0 and 1e0 are AS_EINVALID. */
int as_json_i64(struct as_json *j, struct as_json_value *v, int64_t *ret_i);
int as_json_u64(struct as_json *j, struct as_json_value *v, uint64_t *ret_u);
/* Any number, correctly rounded. AS_EINVALID: it is beyond the largest double. */
int as_json_f64(struct as_json *j, struct as_json_value *v, double *ret_d);
/* Skips a value of any type, and checks its syntax. */
int as_json_skip(struct as_json *j, struct as_json_value *v);
/* Skips a value without a check, to read it later: the caller must read *ret_v after the rest of
 * the text (after as_json_expect_end), because only that checks its syntax. *ret_len: bytes of its
 * text. */
int as_json_defer(struct as_json *j, struct as_json_value *v, struct as_json_value *ret_v,
                  size_t *ret_len);

/* The members of an object, or the elements of an array:
 *     err = as_json_items(j, &v, &it);
 *     while (!err && (more = as_json_next(j, &it)) > 0)
 *         … it.key, it.value …
 * as_json_next skips a value that the caller has not read. An array or object that the caller has
 * entered with as_json_items must be read to its end. */
struct as_json_items {
    struct as_str key; /* of an object's member; empty for an array */
    struct as_json_value value;
    bool object;
    bool begun; /* as_json_next was called */
};
int as_json_items(struct as_json *j, struct as_json_value *v, struct as_json_items *ret_it);
/* 1: key and value are set; 0: there are no more; AS_EPROTO, AS_ENOMEM. */
int as_json_next(struct as_json *j, struct as_json_items *it);

/* Reads an object by a table of the members that the caller needs; the others are skipped. */
enum as_json_field_type {
    AS_JSON_FIELD_STR,    /* struct as_str */
    AS_JSON_FIELD_I64,    /* int64_t */
    AS_JSON_FIELD_U64,    /* uint64_t */
    AS_JSON_FIELD_BOOL,   /* bool */
    AS_JSON_FIELD_OBJECT, /* struct as_json_fields */
    AS_JSON_FIELD_LIST,   /* struct as_json_list: an array */
    AS_JSON_FIELD_MAP     /* struct as_json_list: an object of any keys */
};

#define AS_JSON_FIELD_NOT_NULL 0x100u /* added to a row's type: null is AS_EINVALID */

struct as_json_row {
    const char *key;
    uint32_t type; /* AS_JSON_FIELD_… */
    void *to;      /* a value of the type; null does not set it */
};

struct as_json_fields {
    const struct as_json_row *at;
    uint32_t n;
};

struct as_json_list {
    /* 0 or AS_E…; for each element or member; it->key is empty in an array */
    int (*each)(struct as_json *j, struct as_json_items *it, void *ctx);
    void *ctx;
    bool seen; /* set when it has come */
    bool once; /* AS_EINVALID when it comes again */
};

/* 0; AS_EINVALID: it is not an object, or a member has another type; AS_EPROTO, AS_ENOMEM. */
int as_json_read(struct as_json *j, struct as_json_value *v, const struct as_json_row *rows,
                 uint32_t n);
/* One value, as a member of that type. */
int as_json_field(struct as_json *j, struct as_json_value *v, enum as_json_field_type type,
                  void *to);

/* Reads the elements of a tensor: a flat array, a nested array (all arrays of a level have the same
 * length), or a single value. At most `max` elements are written to `out` in the datatype's binary
 * form; the others are only checked and counted. Integers must be written without a fraction and an
 * exponent, and must fit. Floats are rounded correctly and must not overflow; NaN, Infinity and
 * -Infinity are accepted. BOOL is true or false. BYTES are strings.
 * `room`: bytes at out: at least AS_JSON_BYTES_ROOM(bytes of the value's text) for BYTES, else
 * max × element size.
 * AS_EINVALID: ret_e->why has the reason, a line like "data[5]: 300 does not fit UINT8". */
#define AS_JSON_BYTES_ROOM(len) ((size_t)(len) + (size_t)(len) / 2 + AS_JSON_PADDING + 8)
struct as_json_elements {
    uint64_t count; /* elements in the text */
    size_t bytes;   /* written to out */
    uint32_t ndim;  /* levels of arrays; 0: a single value */
    int64_t shape[AS_MAX_DIMS];
    char why[128];
};
int as_json_elements(struct as_json *j, struct as_json_value *v, enum as_dtype t, uint64_t max,
                     uint8_t *out, size_t room, struct as_json_elements *ret_e);

/* --- writing --- */

/* All as_json_put_… but as_json_put_elements append to a buffer. They write the comma before a
 * value by themselves, whenever the buffer is not empty and does not end in `{`, `[`, `:` or white
 * space: as_json_put_open(b, '{'); as_json_put_key(b, "name"); as_json_put_string(b, name);
 *     as_json_put_close(b, '}');
 */
void as_json_put_open(struct as_buf *b, char bracket);
void as_json_put_close(struct as_buf *b, char bracket);
void as_json_put_key(struct as_buf *b, const char *key);
void as_json_put_escaped_key(struct as_buf *b, struct as_str key); /* key: any text */
void as_json_put_string(struct as_buf *b,
                        struct as_str s); /* bytes that are not UTF-8 become U+FFFD */
void as_json_put_cstr(struct as_buf *b, const char *z);
void as_json_put_bool(struct as_buf *b, bool v);
void as_json_put_null(struct as_buf *b);
void as_json_put_i64(struct as_buf *b, int64_t v);
void as_json_put_u64(struct as_buf *b, uint64_t v);
/* The shortest text that reads back as the same double; null for NaN and infinities. */
void as_json_put_f64(struct as_buf *b, double v);
/* A key and its value. A shape of AS_ANY_RANK is written as []. */
void as_json_put_member_string(struct as_buf *b, const char *key, struct as_str s);
void as_json_put_member_text(struct as_buf *b, const char *key, const char *z);
void as_json_put_member_bool(struct as_buf *b, const char *key, bool v);
void as_json_put_member_i64(struct as_buf *b, const char *key, int64_t v);
void as_json_put_member_u64(struct as_buf *b, const char *key, uint64_t v);
/* null if v is `none` */
void as_json_put_member_u64_or_null(struct as_buf *b, const char *key, uint64_t v, uint64_t none);
void as_json_put_member_open(struct as_buf *b, const char *key, char bracket);
void as_json_put_member_shape(struct as_buf *b, const char *key, const struct as_tensor_spec *s);
/* {"error":"…"} */
void as_json_put_error(struct as_buf *b, struct as_str text);

/* Writes a tensor's elements, `a,b,c` without brackets. Floats have the shortest text that reads
 * back as the same value of their type (FP16 and BF16: as the same FP32); NaN and infinities are
 * NaN, Infinity and -Infinity (docs/protocol/rest.md explains this). as_json_elements_max returns
 * how many bytes `out` must have (for BYTES: exactly the bytes that they take), or UINT64_MAX when
 * BYTES are not UTF-8. as_json_put_elements returns how many bytes the text has; it may overwrite
 * the rest of that room. */
uint64_t as_json_elements_max(enum as_dtype t, const uint8_t *data, size_t nbytes);
size_t as_json_put_elements(uint8_t *out, enum as_dtype t, const uint8_t *data, size_t nbytes);
/* A string in quotes, with escapes: its length, and the function that writes it and returns the
 * length. */
size_t as_json_string_len(struct as_str s);
size_t as_json_copy_string(uint8_t *out, struct as_str s);

#endif
