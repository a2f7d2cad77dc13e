#include "tool/tensor/input.h"

#include "tool/tensor/literal.h"
#include "tool/tensor/npy.h"
#include "tool/tensor/print.h"

#include <errno.h>

#define FILE_MAX ((size_t)INT32_MAX) /* the largest message */

enum form { BY_CONTENT, RAW, TEXT, NPY };

/* --- NAME:DTYPE:[SHAPE] --- */

static int split_shape(struct as_str s, struct as_input_form *f, struct as_buf *why)
{
    struct as_literal l = {.n = 0};
    struct as_buf text = {0};
    int rc, open = 0;

    rc = as_literal_read(AS_DT_INT64, s, &l, &text);
    if (rc == 0 && (l.ndim != 1 || l.n > AS_MAX_DIMS))
        rc = AS_EINVALID;
    for (uint64_t i = 0; rc == 0 && i < l.n; i++) {
        memcpy(&f->shape[i], l.data.p + 8 * i, 8);
        open += f->shape[i] == -1;
        if (f->shape[i] < -1 || open > 1)
            rc = AS_EINVALID;
    }
    if (rc)
        as_buf_printf(why,
                      "shape '%.*s' is not [N,N,…] with up to %d sizes, one of which may be -1",
                      AS_STR_CUT(s, 80), AS_MAX_DIMS);
    f->has_shape = true;
    f->ndim = (uint32_t)l.n;
    as_literal_fini(&l);
    as_buf_fini(&text);
    return rc;
}

static bool looks_like_dtype(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!(s.p[i] >= 'A' && s.p[i] <= 'Z') && !(i && s.p[i] >= '0' && s.p[i] <= '9'))
            return false;
    }
    return s.n > 0;
}

static int unknown_dtype(struct as_str s, struct as_buf *why)
{
    as_buf_printf(why, "unknown datatype '%.*s'; known are", AS_STR_CUT(s, 40));
    for (int t = AS_DT_BOOL; t < AS_DT_COUNT; t++)
        as_buf_printf(why, " %s", as_dtype_name((enum as_dtype)t));
    return AS_EINVALID;
}

int as_input_parse(const char *text, struct as_input_form *ret_f, struct as_buf *why)
{
    const char *eq = strchr(text, '='), *bracket, *colon;
    struct as_input_form f = {.dtype = AS_DT_INVALID};
    struct as_str left;

    if (!eq || eq == text) {
        as_buf_printf(why, "'%.80s' is not NAME=VALUE", text);
        return AS_EINVALID;
    }
    left = (struct as_str){text, (size_t)(eq - text)};
    f.value = as_str_of(eq + 1);
    bracket = left.p[left.n - 1] == ']' ? memmem(left.p, left.n, ":[", 2) : NULL;
    if (bracket) {
        struct as_str shape = {bracket + 1, (size_t)(left.p + left.n - bracket) - 1};
        int rc = split_shape(shape, &f, why);

        if (rc)
            return rc;
        left.n = (size_t)(bracket - left.p);
    }
    /* a name may contain colons ("serving:0"): only a word that looks like a datatype is one */
    colon = memrchr(left.p, ':', left.n);
    if (colon) {
        struct as_str word = {colon + 1, (size_t)(left.p + left.n - colon) - 1};

        f.dtype = as_dtype_of(word);
        if (f.dtype != AS_DT_INVALID)
            left.n = (size_t)(colon - left.p);
        else if (looks_like_dtype(word))
            return unknown_dtype(word, why);
    }
    if (f.has_shape && f.dtype == AS_DT_INVALID) {
        as_buf_printf(why, "'%.80s': a shape needs a datatype, NAME:DTYPE:[SHAPE]", text);
        return AS_EINVALID;
    }
    f.name = left;
    *ret_f = f;
    return 0;
}

/* The file of a value, and its format. p NULL: the value itself is the text. */
static struct as_str file_path(struct as_str value, enum form *ret_form)
{
    static const struct {
        const char *prefix;
        enum form form;
    } rows[] = {{"@raw:", RAW}, {"@text:", TEXT}, {"@npy:", NPY}, {"@", BY_CONTENT}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        size_t n = strlen(rows[i].prefix);

        if (value.n >= n && memcmp(value.p, rows[i].prefix, n) == 0) {
            *ret_form = rows[i].form;
            return (struct as_str){value.p + n, value.n - n};
        }
    }
    *ret_form = TEXT;
    return (struct as_str){NULL, 0};
}

static bool ends_in(struct as_str s, const char *end)
{
    size_t n = strlen(end);

    return s.n >= n && memcmp(s.p + s.n - n, end, n) == 0;
}

bool as_input_needs_model(const struct as_input_form *f)
{
    enum form form;
    struct as_str file = file_path(f->value, &form);

    if (f->dtype == AS_DT_INVALID)
        return !(file.p && (form == NPY || (form == BY_CONTENT && ends_in(file, ".npy"))));
    return false;
}

/* --- values --- */

static int read_all(struct as_str file, bool *stdin_used, struct as_buf *ret_b, struct as_buf *why)
{
    bool is_stdin = as_str_eq(file, AS_STR("-"));
    char *path = as_str_dup(file);
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    int rc = 0;

    if (is_stdin && *stdin_used) {
        as_buf_str(why, "standard input was already read for another input");
        rc = AS_EINVALID;
    }
    *stdin_used = *stdin_used || is_stdin;
    while (in && rc == 0) {
        size_t n = fread(as_buf_reserve(ret_b, 65536), 1, 65536, in);

        ret_b->n += n;
        if (n == 0)
            break;
        if (ret_b->n > FILE_MAX) {
            as_buf_printf(why, "%s has more than %zu bytes", path, FILE_MAX);
            rc = AS_EINVALID;
        }
    }
    if (rc == 0 && (!in || ferror(in))) {
        as_buf_printf(why, "cannot read %s: %s", path, strerror(errno));
        rc = AS_ENOTFOUND;
    }
    if (in && !is_stdin)
        fclose(in);
    free(path);
    return rc;
}

static enum form guess_format(struct as_str file, struct as_str content)
{
    if (as_npy_is(content))
        return NPY;
    if (as_str_eq(file, AS_STR("-")) || ends_in(file, ".txt") || ends_in(file, ".csv") ||
        ends_in(file, ".json"))
        return TEXT;
    return RAW;
}

static int refuse_count(uint64_t n, const int64_t *shape, uint32_t ndim, struct as_buf *why)
{
    as_buf_printf(why, "%llu value%s do%s not fit shape ", (unsigned long long)n, n == 1 ? "" : "s",
                  n == 1 ? "es" : "");
    as_print_shape(why, shape, ndim);
    return AS_EINVALID;
}

/* Sets the shape of n values; a size of -1 in `want` is computed. */
static int solve_shape(uint64_t n, const int64_t *want, uint32_t ndim, int64_t *ret_shape,
                       struct as_buf *why)
{
    uint32_t open = 0, at = 0;
    uint64_t fixed = 1;

    for (uint32_t i = 0; i < ndim; i++) {
        ret_shape[i] = want[i];
        if (want[i] < 0) {
            open++;
            at = i;
        } else if (__builtin_mul_overflow(fixed, (uint64_t)want[i], &fixed)) {
            return refuse_count(n, want, ndim, why);
        }
    }
    if (open > 1) {
        as_buf_str(why, "shape ");
        as_print_shape(why, want, ndim);
        as_buf_str(why,
                   " has several variable sizes: give the value with brackets, or the shape as in "
                   "NAME:DTYPE:[2,3]=…");
        return AS_EINVALID;
    }
    if (open == 0)
        return fixed == n ? 0 : refuse_count(n, want, ndim, why);
    if (fixed == 0 ? n != 0 : n % fixed != 0)
        return refuse_count(n, want, ndim, why);
    ret_shape[at] = fixed ? (int64_t)(n / fixed) : 0;
    return 0;
}

/* Checks that the shape of a value fits the declared one. */
static int check_shape(const struct as_input *in, const struct as_tensor_spec *spec,
                       struct as_buf *why)
{
    uint32_t ndim = in->tensor.ndim;
    bool fits = ndim == spec->ndim;

    if (spec->ndim == 0 || spec->ndim == AS_ANY_RANK) /* metadata do not distinguish these */
        return 0;
    for (uint32_t i = 0; fits && i < ndim; i++)
        fits = spec->shape[i] < 0 || spec->shape[i] == in->shape[i];
    if (fits)
        return 0;
    as_buf_str(why, "the value has shape ");
    as_print_shape(why, in->shape, ndim);
    as_buf_str(why, ", the model expects ");
    as_print_shape(why, spec->shape, spec->ndim);
    return AS_EINVALID;
}

/* Sets the shape of n values. own: the shape that the value has by its brackets or file, or NULL.
 */
static int set_shape(const struct as_input_form *f, const struct as_tensor_spec *spec, uint64_t n,
                     const int64_t *own, uint32_t own_ndim, struct as_input *in, struct as_buf *why)
{
    uint32_t ndim;

    if (f->has_shape) {
        in->tensor.ndim = f->ndim;
        return solve_shape(n, f->shape, f->ndim, in->shape, why);
    }
    if (own) {
        in->tensor.ndim = own_ndim;
        memcpy(in->shape, own, own_ndim * sizeof(*own));
        return spec && f->dtype == AS_DT_INVALID ? check_shape(in, spec, why) : 0;
    }
    ndim = spec && spec->ndim != AS_ANY_RANK ? spec->ndim : 0;
    if (ndim ==
        0) { /* a scalar, or unknown: a single value is a scalar, several are one dimension */
        in->tensor.ndim = n != 1;
        in->shape[0] = (int64_t)n;
        return 0;
    }
    in->tensor.ndim = ndim;
    return solve_shape(n, spec->shape, ndim, in->shape, why);
}

static int make_text(const struct as_input_form *f, const struct as_tensor_spec *spec,
                     struct as_str text, struct as_input *in, struct as_buf *why)
{
    struct as_literal l = {.n = 0};
    int rc = as_literal_read(in->tensor.dtype, text, &l, why);

    if (rc == 0)
        rc = set_shape(f, spec, l.n, l.lists ? l.shape : NULL, l.ndim, in, why);
    in->data = l.data; /* moves the literal's buffer */
    return rc;
}

static int make_raw(const struct as_input_form *f, const struct as_tensor_spec *spec,
                    struct as_buf *file, struct as_input *in, struct as_buf *why)
{
    size_t size = as_dtype_size(in->tensor.dtype);
    uint32_t len = (uint32_t)file->n;

    if (size == 0) {
        as_buf_add(&in->data, &len, 4);
        as_buf_add(&in->data, file->p, file->n);
        return set_shape(f, spec, 1, NULL, 0, in, why);
    }
    if (file->n % size) {
        as_buf_printf(why, "%zu bytes are not a whole number of %s values", file->n,
                      as_dtype_name(in->tensor.dtype));
        return AS_EINVALID;
    }
    in->data = *file;
    as_buf_init(file);
    return set_shape(f, spec, in->data.n / size, NULL, 0, in, why);
}

static int make_npy(const struct as_input_form *f, const struct as_tensor_spec *spec,
                    struct as_str file, struct as_input *in, struct as_buf *why)
{
    int64_t shape[AS_MAX_DIMS];
    enum as_dtype dtype, want = in->tensor.dtype;
    struct as_str data;
    uint32_t ndim;
    int rc = as_npy_read(file, &dtype, shape, &ndim, &data, why);

    if (rc)
        return rc;
    if (dtype == AS_DT_INVALID) /* two-byte voids: bfloat16 */
        dtype = AS_DT_BF16;
    if (want != AS_DT_INVALID && want != dtype) {
        as_buf_printf(why, "the file has datatype %s, expected %s", as_dtype_name(dtype),
                      as_dtype_name(want));
        return AS_EINVALID;
    }
    in->tensor.dtype = dtype;
    as_buf_add(&in->data, data.p, data.n);
    return set_shape(f, spec, data.n / as_dtype_size(dtype), shape, ndim, in, why);
}

static int need_dtype(const struct as_input *in, struct as_buf *why)
{
    if (in->tensor.dtype != AS_DT_INVALID)
        return 0;
    as_buf_str(why, "the model does not declare this input: give its datatype, NAME:DTYPE=VALUE "
                    "(for example x:FP32=1,2,3)");
    return AS_EINVALID;
}

static int make_file(const struct as_input_form *f, const struct as_tensor_spec *spec,
                     struct as_str file, enum form form, bool *stdin_used, struct as_input *in,
                     struct as_buf *why)
{
    struct as_str text;
    struct as_buf b = {0};
    int rc;

    rc = read_all(file, stdin_used, &b, why);
    text = b.n ? as_buf_slice(&b) : AS_STR("");
    if (form == BY_CONTENT)
        form = guess_format(file, text);
    if (rc == 0 && form != NPY)
        rc = need_dtype(in, why);
    if (rc == 0 && form == TEXT) {
        text.n -= text.n && text.p[text.n - 1] == '\n'; /* editors append a newline */
        rc = make_text(f, spec, text, in, why);
    } else if (rc == 0 && form == NPY) {
        rc = make_npy(f, spec, text, in, why);
    } else if (rc == 0) {
        rc = make_raw(f, spec, &b, in, why);
    }
    as_buf_fini(&b);
    return rc;
}

int as_input_make(const struct as_input_form *f, const struct as_tensor_spec *spec,
                  bool *stdin_used, struct as_input *in, struct as_buf *why)
{
    enum form form;
    struct as_str file = file_path(f->value, &form);
    struct as_buf reason = {0};
    int rc;

    in->tensor = (struct as_tensor){.name = f->name, .dtype = f->dtype, .shape = in->shape};
    if (in->tensor.dtype == AS_DT_INVALID && spec)
        in->tensor.dtype = spec->dtype;
    if (file.p) {
        rc = make_file(f, spec, file, form, stdin_used, in, &reason);
    } else {
        rc = need_dtype(in, &reason);
        if (rc == 0)
            rc = make_text(f, spec, f->value, in, &reason);
    }
    in->tensor.data = in->data.p;
    in->tensor.nbytes = in->data.n;
    if (rc)
        as_buf_printf(why, "input '%.*s': %.*s", AS_STR_FMT(f->name),
                      AS_STR_FMT(as_buf_slice(&reason)));
    as_buf_fini(&reason);
    return rc;
}

void as_input_fini(struct as_input *in)
{
    as_buf_fini(&in->data);
}
