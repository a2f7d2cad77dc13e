/* Reads the elements of a tensor from JSON directly into the bytes of its datatype. */
#include "wire/json/json_internal.h"

#include <fenv.h>
#include <math.h>

struct element_reader {
    struct as_json *j;
    struct as_json_elements *e;
    enum as_dtype dtype;
    uint8_t *out;
    size_t room;
    uint64_t max;
    uint32_t leaf_level;   /* level of the arrays that hold elements; 0: none was found yet */
    uint32_t known_levels; /* bit i: the length of the arrays of level i + 1 is known */
};

/* --- numbers into bytes --- */

/* d is n's text rounded to a double, and lies exactly between two numbers of a narrower type. Which
 * of them is nearer to the text depends on the error of d. Returns a double on the text's side of
 * d, or d if d is exact. */
static double break_rounding_tie(const struct as_json_number *n, double d)
{
    int mode = fegetround();
    double low, high;

    fesetround(FE_DOWNWARD);
    low = strtod(n->p, NULL); /* a delimiter follows, so that strtod ends at the same byte */
    fesetround(FE_UPWARD);
    high = strtod(n->p, NULL);
    fesetround(mode);
    if (low == high)
        return d;
    return d == high ? low : high;
}

static bool to_f32(const struct as_json_number *n, float *ret_f)
{
    double d = as_json_number_f64(n);
    uint64_t bits;

    memcpy(&bits, &d, 8);
    if (__builtin_expect((bits & 0x1fffffff) == 0x10000000 || fabs(d) < 0x1p-126, 0) && d != 0)
        d = break_rounding_tie(n, d);
    *ret_f = (float)d;
    return !isinf(*ret_f);
}

/* Rounds to a float of 16 bits with `precision` bits of mantissa and `least` as its smallest
 * exponent. False: it overflows. */
static bool to_16(const struct as_json_number *n, int precision, int least, uint16_t *ret_bits)
{
    double d = as_json_number_f64(n), r;
    uint32_t bits, infinity = precision == 11 ? 0x7c00 : 0x7f80;
    int e, q;

    if (isinf(d))
        return false;
    e = d == 0 ? least : AS_MAX(ilogb(d), least);
    q = e - (precision - 1);
    r = ldexp(fabs(d), -q); /* exact, because 2^q is a power of two */
    if (r - floor(r) == 0.5)
        r = ldexp(fabs(break_rounding_tie(n, d)), -q);
    /* if rounding carries out of the mantissa, the addition increments the exponent */
    bits = (uint32_t)rint(r) + ((uint32_t)(e - least) << (precision - 1));
    if (e > 128 || bits >= infinity)
        return false;
    *ret_bits = (uint16_t)(bits | (n->negative ? 0x8000u : 0));
    return true;
}

static inline bool integer_fits(enum as_dtype t, const struct as_json_number *n)
{
    uint32_t bits = 8 * (uint32_t)as_dtype_size(t);

    if (t >= AS_DT_INT8)
        return n->m <= (UINT64_MAX >> (65 - bits)) + n->negative;
    return n->m <= UINT64_MAX >> (64 - bits) && (!n->negative || !n->m);
}

/* --- errors --- */

static const char *accepted_kind(enum as_dtype t)
{
    switch ((int)t) {
    case AS_DT_BOOL:
        return "true and false";
    case AS_DT_BYTES:
        return "strings";
    case AS_DT_FP16:
    case AS_DT_BF16:
    case AS_DT_FP32:
    case AS_DT_FP64:
        return "numbers";
    default:
        return "integers";
    }
}

AS_PRINTF(2, 3) static int refuse(struct element_reader *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(r->e->why, sizeof(r->e->why), fmt, ap);
    va_end(ap);
    return AS_EINVALID;
}

#define NUMBER_SHOWN 40

static int refuse_number(struct element_reader *r, const struct as_json_number *n, const char *what)
{
    return refuse(r, "data[%llu]: %.*s %s %s", (unsigned long long)r->e->count,
                  (int)AS_MIN(n->end - n->p, (ptrdiff_t)NUMBER_SHOWN), n->p, what,
                  as_dtype_name(r->dtype));
}

/* Refuses the next token, which is no element of this datatype. AS_EPROTO: it is not JSON at all.
 */
static int refuse_token(struct element_reader *r)
{
    const char *kind;
    int err;

    switch (*as_json_peek(r->j)) {
    case '"':
        kind = "a string";
        break;
    case '[':
        kind = "an array among elements";
        break;
    case '{':
        kind = "an object";
        break;
    case 't':
    case 'f':
        kind = "a bool";
        break;
    case 'n':
        kind = "null";
        break;
    default:
        kind = "a number";
    }
    err = as_json_walk(r->j, AS_MAX_DIMS);
    return err ? err
               : refuse(r, "data[%llu] is %s, %s takes %s", (unsigned long long)r->e->count, kind,
                        as_dtype_name(r->dtype), accepted_kind(r->dtype));
}

/* NaN, Infinity and -Infinity are not JSON, but Python and Triton write them. */
static bool parse_nonfinite(const uint8_t *p, double *ret_d)
{
    static const struct {
        const char *word;
        double value;
    } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

    for (size_t i = 0; i < AS_COUNT(words); i++) {
        size_t n = strlen(words[i].word);

        /* this may read the padding after the text */
        if (!memcmp(p, words[i].word, n) && as_json_is_delimiter(p[n])) {
            *ret_d = words[i].value;
            return true;
        }
    }
    return false;
}

/* --- one element --- */

static int read_string_element(struct element_reader *r, bool store)
{
    struct as_str raw;
    uint8_t *to = r->out + r->e->bytes;
    size_t n;
    uint32_t len;

    if (!as_json_raw_string(r->j, &raw))
        return AS_EPROTO;
    AS_ASSERT(!store || r->room - r->e->bytes >= 4 + raw.n);
    n = raw.n;
    if (n && memchr(raw.p, '\\', n)) {
        if (!as_json_unescape(raw, store ? to + 4 : NULL, &n))
            return as_json_fail(r->j, "a bad escape in a string");
    } else if (store && n) {
        memcpy(to + 4, raw.p, n);
    }
    if (store) {
        len = (uint32_t)n;
        memcpy(to, &len, 4);
        r->e->bytes += 4 + n;
    }
    return 0;
}

static int read_nonfinite(struct element_reader *r, enum as_dtype t, uint8_t *to)
{
    uint16_t half;
    float f;
    double d;

    if (t < AS_DT_FP16 || !parse_nonfinite(as_json_peek(r->j), &d))
        return refuse_token(r);
    f = (float)d;
    half = t == AS_DT_FP16 ? 0x7c00 : 0x7f80;
    half = (uint16_t)(half | (isnan(d) ? (t == AS_DT_FP16 ? 0x200 : 0x40) : 0) |
                      (signbit(d) ? 0x8000 : 0));
    if (t == AS_DT_FP64)
        memcpy(to, &d, 8);
    else if (t == AS_DT_FP32)
        memcpy(to, &f, 4);
    else
        memcpy(to, &half, 2);
    return 0;
}

/* Reads the element at the next token and moves past it. `t` is a compile-time constant. */
static inline __attribute__((always_inline)) int read_element(struct element_reader *r,
                                                              enum as_dtype t)
{
    const size_t size = t == AS_DT_BYTES ? 0 : as_dtype_size(t);
    bool store = r->e->count < r->max;
    uint8_t scratch[8], *to = store ? r->out + r->e->count * size : scratch;
    struct as_json_number n;
    int err = 0;

    if (t == AS_DT_BYTES) {
        err = *as_json_peek(r->j) == '"' ? read_string_element(r, store) : refuse_token(r);
    } else if (t == AS_DT_BOOL) {
        uint8_t c = *as_json_peek(r->j);

        if (c != 't' && c != 'f')
            return refuse_token(r);
        *to = c == 't';
        err = as_json_walk(r->j, AS_MAX_DIMS);
        r->j->token -= !err;
    } else if (!as_json_scan_number(as_json_peek(r->j), &n)) {
        err = read_nonfinite(r, t, to);
    } else if (t == AS_DT_FP64) {
        double d = as_json_number_f64(&n);

        memcpy(to, &d, 8);
        if (isinf(d))
            return refuse_number(r, &n, "does not fit");
    } else if (t == AS_DT_FP32) {
        float f;

        if (!to_f32(&n, &f))
            return refuse_number(r, &n, "does not fit");
        memcpy(to, &f, 4);
    } else if (t == AS_DT_FP16 || t == AS_DT_BF16) {
        uint16_t half;

        if (!to_16(&n, t == AS_DT_FP16 ? 11 : 8, t == AS_DT_FP16 ? -14 : -126, &half))
            return refuse_number(r, &n, "does not fit");
        memcpy(to, &half, 2);
    } else {
        uint64_t v = n.negative ? -n.m : n.m;

        if (!n.integer)
            return refuse_number(r, &n, "is not an integer, which is required by");
        if (n.truncated || !integer_fits(t, &n))
            return refuse_number(r, &n, "does not fit");
        memcpy(to, &v, size);
    }
    if (err)
        return err;
    r->j->token++;
    r->e->count++;
    return 0;
}

static inline __attribute__((always_inline)) int read_row(struct element_reader *r, enum as_dtype t)
{
    int err;

    do
        err = read_element(r, t);
    while (!err && as_json_accept(r->j, ','));
    return err;
}

/* Reads the elements of one array, or a single value: a loop of its own for each datatype. */
static int read_elements(struct element_reader *r, bool alone)
{
    switch (r->dtype) {
#define CASE(T)                                                                                    \
    case AS_DT_##T:                                                                                \
        return alone ? read_element(r, AS_DT_##T) : read_row(r, AS_DT_##T);
        CASE(BOOL)
        CASE(UINT8)
        CASE(UINT16)
        CASE(UINT32)
        CASE(UINT64)
        CASE(INT8)
        CASE(INT16)
        CASE(INT32)
        CASE(INT64)
        CASE(FP16)
        CASE(FP32)
        CASE(FP64)
        CASE(BYTES)
        CASE(BF16)
#undef CASE
    case AS_DT_INVALID:
    case AS_DT_COUNT:
    default:
        AS_ASSERT(false);
        return AS_EINVALID;
    }
}

/* --- arrays --- */

static int refuse_uneven(struct element_reader *r)
{
    return refuse(r, "data is nested unevenly (at element %llu)", (unsigned long long)r->e->count);
}

/* Ends an array of this level (the outermost is 1), which must have as many entries as the others
 * of its level. */
static int close_array(struct element_reader *r, uint32_t level, uint64_t n)
{
    if (!as_json_accept(r->j, ']'))
        return as_json_fail(r->j, "expected ',' or ']'");
    if (r->known_levels & 1u << (level - 1) && r->e->shape[level - 1] != (int64_t)n)
        return refuse_uneven(r);
    r->known_levels |= 1u << (level - 1);
    r->e->shape[level - 1] = (int64_t)n;
    return 0;
}

static int read_array(struct element_reader *r, uint32_t level)
{
    uint64_t n = 0;
    int err = 0;
    uint8_t c;

    if (level > AS_MAX_DIMS)
        return refuse(r, "data is nested deeper than %d levels", AS_MAX_DIMS);
    r->e->ndim = AS_MAX(r->e->ndim, level);
    if (r->leaf_level && level > r->leaf_level)
        return refuse_uneven(r);
    r->j->token++;
    if (r->j->token >= r->j->n)
        return as_json_fail(r->j, "the text ends early");
    c = *as_json_peek(r->j);
    if (c == ']')
        return close_array(r, level, 0);
    if (c != '[') {
        if (r->e->ndim > level)
            return refuse_uneven(r);
        r->leaf_level = level;
        n = r->e->count;
        err = read_elements(r, false);
        return err ? err : close_array(r, level, r->e->count - n);
    }
    do {
        if (r->j->token >= r->j->n || *as_json_peek(r->j) != '[') {
            err = as_json_walk(r->j, AS_MAX_DIMS);
            return err ? err : refuse_uneven(r);
        }
        err = read_array(r, level + 1);
        n++;
    } while (!err && as_json_accept(r->j, ','));
    return err ? err : close_array(r, level, n);
}

int as_json_elements(struct as_json *j, struct as_json_value *v, enum as_dtype t, uint64_t max,
                     uint8_t *out, size_t room, struct as_json_elements *ret_e)
{
    struct element_reader r = {
        .j = j, .e = ret_e, .dtype = t, .out = out, .room = room, .max = max};
    int err;

    ret_e->count = 0;
    ret_e->bytes = 0;
    ret_e->ndim = 0;
    AS_ASSERT(t == AS_DT_BYTES || room / as_dtype_size(t) >= max);
    as_json_seek(j, v);
    err = v->type == AS_JSON_ARRAY ? read_array(&r, 1) : read_elements(&r, true);
    if (!err && t != AS_DT_BYTES)
        ret_e->bytes = (size_t)AS_MIN(ret_e->count, max) * as_dtype_size(t);
    return err;
}
