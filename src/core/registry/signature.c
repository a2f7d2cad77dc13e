#include "core/registry/signature.h"

#include "base/err.h"
#include "base/utf8.h"
#include "core/registry/registry.h"

#include <stdarg.h>

static int by_name(const void *a, const void *b)
{
    struct as_str x = (*(const struct as_tensor_spec *const *)a)->name;
    struct as_str y = (*(const struct as_tensor_spec *const *)b)->name;

    if (x.n != y.n)
        return x.n < y.n ? -1 : 1;
    return memcmp(x.p, y.p, x.n);
}

/* Sorts them, because a worker may declare thousands. */
static bool has_duplicate_name(const struct as_tensor_spec *s, uint32_t n)
{
    const struct as_tensor_spec **at = as_xalloc(n * sizeof(const struct as_tensor_spec *));
    bool twice = false;

    for (uint32_t i = 0; i < n; i++)
        at[i] = &s[i];
    qsort(at, n, sizeof(const struct as_tensor_spec *), by_name);
    for (uint32_t i = 1; i < n && !twice; i++)
        twice = as_str_eq(at[i - 1]->name, at[i]->name);
    free(at);
    return twice;
}

static uint32_t dims_of(const struct as_tensor_spec *s)
{
    return s->ndim == AS_ANY_RANK ? 0 : s->ndim;
}

const char *as_signature_check(const struct as_tensor_spec *s, uint32_t n)
{
    if (n > AS_MODEL_TENSORS_MAX)
        return "signature with too many tensors";
    for (uint32_t i = 0; i < n; i++) {
        if (s[i].name.n == 0)
            return "signature with a tensor without a name";
        if (s[i].dtype <= AS_DT_INVALID || s[i].dtype >= AS_DT_COUNT)
            return "signature with an unknown datatype";
        if (dims_of(&s[i]) > AS_MAX_DIMS)
            return "signature with too many dimensions";
        for (uint32_t k = 0; k < dims_of(&s[i]); k++) {
            if (s[i].shape[k] < -1)
                return "signature with a size below -1";
        }
    }
    return n > 1 && has_duplicate_name(s, n) ? "signature with a name given twice" : NULL;
}

static bool same_labels(const struct as_tensor_spec *a, const struct as_tensor_spec *b)
{
    if (a->n_labels != b->n_labels)
        return false;
    for (uint32_t i = 0; i < a->n_labels; i++) {
        if (!as_str_eq(a->labels[i], b->labels[i]))
            return false;
    }
    return true;
}

bool as_signature_eq(const struct as_tensor_spec *a, const struct as_tensor_spec *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!as_str_eq(a[i].name, b[i].name) || a[i].dtype != b[i].dtype || a[i].ndim != b[i].ndim)
            return false;
        if (!same_labels(&a[i], &b[i]))
            return false;
        if (dims_of(&a[i]) && memcmp(a[i].shape, b[i].shape, a[i].ndim * sizeof(int64_t)) != 0)
            return false;
    }
    return true;
}

static size_t labels_size(const struct as_tensor_spec *s)
{
    size_t n = s->n_labels * sizeof(struct as_str);

    for (uint32_t i = 0; i < s->n_labels; i++)
        n += s->labels[i].n;
    return AS_ALIGN(n, 8);
}

static const struct as_str *copy_labels(const struct as_tensor_spec *s, uint8_t *at)
{
    struct as_str *copy = (struct as_str *)(void *)at;
    char *text = (char *)(copy + s->n_labels);

    for (uint32_t i = 0; i < s->n_labels; i++) {
        copy[i] = (struct as_str){text, s->labels[i].n};
        if (copy[i].n)
            memcpy(text, s->labels[i].p, copy[i].n);
        text += copy[i].n;
    }
    return copy;
}

size_t as_signature_size(const struct as_tensor_spec *s, uint32_t n)
{
    size_t size = n * sizeof(*s);

    for (uint32_t i = 0; i < n; i++)
        size += AS_ALIGN(s[i].name.n, 8) + dims_of(&s[i]) * sizeof(int64_t) + labels_size(&s[i]);
    return size;
}

struct as_tensor_spec *as_signature_copy(const struct as_tensor_spec *s, uint32_t n, uint8_t *at)
{
    struct as_tensor_spec *copy = (struct as_tensor_spec *)(void *)at;

    at += n * sizeof(*copy);
    for (uint32_t i = 0; i < n; i++) {
        size_t dims = dims_of(&s[i]) * sizeof(int64_t);

        copy[i] = s[i];
        copy[i].shape = (const int64_t *)(void *)at;
        if (dims)
            memcpy(at, s[i].shape, dims);
        at += dims;
        copy[i].name.p = (const char *)at;
        memcpy(at, s[i].name.p, s[i].name.n);
        at += AS_ALIGN(s[i].name.n, 8);
        copy[i].labels = copy_labels(&s[i], at);
        at += labels_size(&s[i]);
    }
    return copy;
}

/* --- tensors against a signature --- */

/* A line of text in the caller's buffer; text that does not fit is cut. */
struct line {
    char *p;
    size_t n, cap;
};

static void append(struct line *l, const char *fmt, ...) AS_PRINTF(2, 3);

static void append(struct line *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (!l->cap)
        return;
    va_start(ap, fmt);
    n = vsnprintf(l->p + l->n, l->cap - l->n, fmt, ap);
    va_end(ap);
    l->n = AS_MIN(l->n + (size_t)AS_MAX(n, 0), l->cap - 1);
}

#define SHOWN_NAME 100u /* bytes of a tensor's name in a message */
#define SHOWN_DIMS 16u

static void append_name(struct line *l, struct as_str name)
{
    struct as_str cut = as_utf8_cut(name, SHOWN_NAME);

    append(l, "%.*s%s", AS_STR_FMT(cut), cut.n < name.n ? "…" : "");
}

static void append_shape(struct line *l, const int64_t *shape, uint32_t ndim)
{
    append(l, "[");
    for (uint32_t i = 0; i < ndim && i < SHOWN_DIMS; i++)
        append(l, "%s%lld", i ? "," : "", (long long)shape[i]);
    append(l, "%s]", ndim > SHOWN_DIMS ? ",…" : "");
}

/* One side of a model, inputs or outputs. */
struct side {
    const struct as_model *model;
    const char *what; /* "input", "output" */
    const struct as_tensor_spec *specs;
    uint32_t n;
    int err; /* returned if a tensor does not fit */
};

static int append_unknown(const struct side *s, struct as_str name, struct line *l)
{
    append(l, "model '%.*s' has no %s '", AS_STR_FMT(s->model->name), s->what);
    append_name(l, name);
    append(l, "' (%ss: ", s->what);
    for (uint32_t i = 0; i < s->n; i++) {
        append(l, "%s", i ? ", " : "");
        append_name(l, s->specs[i].name);
    }
    append(l, "%s)", s->n ? "" : "none");
    return s->err;
}

static bool shape_fits(const struct as_tensor_spec *s, const struct as_tensor *t)
{
    if (s->ndim == AS_ANY_RANK)
        return true;
    if (s->ndim != t->ndim)
        return false;
    for (uint32_t i = 0; i < s->ndim; i++) {
        if (s->shape[i] != -1 && s->shape[i] != t->shape[i])
            return false;
    }
    return true;
}

static int check_tensor(const struct side *s, const struct as_tensor_spec *spec,
                        const struct as_tensor *t, struct line *l)
{
    if (spec->dtype == t->dtype && shape_fits(spec, t))
        return 0;
    append(l, "%s '", s->what);
    append_name(l, t->name);
    if (spec->dtype != t->dtype) {
        append(l, "': datatype %s, model '%.*s' expects %s", as_dtype_name(t->dtype),
               AS_STR_FMT(s->model->name), as_dtype_name(spec->dtype));
        return s->err;
    }
    append(l, "': shape ");
    append_shape(l, t->shape, t->ndim);
    append(l, ", model '%.*s' expects ", AS_STR_FMT(s->model->name));
    append_shape(l, spec->shape, spec->ndim);
    return s->err;
}

/* The index of the entry with that name, s->n if there is none. Usually tensors come in the
 * declared order, so the search starts at hint. */
static uint32_t entry_of(const struct side *s, struct as_str name, uint32_t hint)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = hint + i < s->n ? hint + i : hint + i - s->n;

        if (as_str_eq(s->specs[k].name, name))
            return k;
    }
    return s->n;
}

static int check_side(const struct side *s, const struct as_tensor *t, uint32_t n, struct line *l)
{
    uint64_t seen[AS_MODEL_TENSORS_MAX / 64];
    uint32_t next = 0;

    AS_ASSERT(s->n <= AS_MODEL_TENSORS_MAX);
    memset(seen, 0, (s->n + 63) / 64 * sizeof(seen[0]));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = entry_of(s, t[i].name, next);
        int err;

        if (k == s->n)
            return append_unknown(s, t[i].name, l);
        if (seen[k / 64] & (UINT64_C(1) << (k % 64))) {
            append(l, "%s '", s->what);
            append_name(l, t[i].name);
            append(l, "' is given twice");
            return s->err;
        }
        seen[k / 64] |= UINT64_C(1) << (k % 64);
        next = k + 1 < s->n ? k + 1 : 0;
        err = check_tensor(s, &s->specs[k], &t[i], l);
        if (err)
            return err;
    }
    for (uint32_t k = 0; n < s->n && k < s->n; k++) {
        if (seen[k / 64] & (UINT64_C(1) << (k % 64)))
            continue;
        append(l, "%s '", s->what);
        append_name(l, s->specs[k].name);
        append(l, "' of model '%.*s' is missing", AS_STR_FMT(s->model->name));
        return s->err;
    }
    return 0;
}

int as_model_check_inputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                          char *why, size_t cap)
{
    struct side s = {m, "input", m->inputs, m->n_inputs, AS_EINVALID};

    return m->has_inputs ? check_side(&s, t, n, &(struct line){why, 0, cap}) : 0;
}

int as_model_items(const struct as_model *m, const struct as_tensor *t, uint32_t n, char *why,
                   size_t cap, uint32_t *ret_items)
{
    struct line l = {why, 0, cap};
    const uint32_t max = m->batching.max_size;

    *ret_items = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].ndim && t[i].shape[0] >= 1 && t[i].shape[0] <= max &&
            t[i].shape[0] == t[0].shape[0])
            continue;
        append(&l, "input '");
        append_name(&l, t[i].name);
        if (!t[i].ndim)
            append(&l, "': shape [], model '%.*s' expects a first dimension that counts items",
                   AS_STR_FMT(m->name));
        else if (t[i].shape[0] < 1 || t[i].shape[0] > max)
            append(&l, "': %lld items, model '%.*s' takes 1 to %u (max_batch_size)",
                   (long long)t[i].shape[0], AS_STR_FMT(m->name), max);
        else
            append(&l, "': %lld items, and the first input has %lld", (long long)t[i].shape[0],
                   (long long)t[0].shape[0]);
        return AS_EINVALID;
    }
    if (n)
        *ret_items = (uint32_t)t[0].shape[0];
    return 0;
}

int as_model_check_outputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                           char *why, size_t cap)
{
    struct side s = {m, "output", m->outputs, m->n_outputs, AS_EHANDLER};

    return m->has_outputs ? check_side(&s, t, n, &(struct line){why, 0, cap}) : 0;
}
