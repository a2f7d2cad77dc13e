#include "wire/triton/classify.h"

#define TEXT_MAX                                                                                   \
    64u /* length prefix, "-1.7976931348623157e+308:18446744073709551615" and a colon */

struct candidate { /* one of the k best so far */
    uint64_t index;
    uint64_t rank; /* the value, mapped to an integer with the same order */
};

/* --- values --- */

static double real_at(enum as_dtype t, const uint8_t *p)
{
    uint16_t h;
    float f;
    double d;

    switch (t) {
    case AS_DT_FP64:
        memcpy(&d, p, 8);
        return d;
    case AS_DT_FP32:
        memcpy(&f, p, 4);
        return (double)f;
    default: /* FP16, BF16 */
        memcpy(&h, p, 2);
        return (double)as_tensor_half(t, h);
    }
}

static bool is_real(enum as_dtype t)
{
    return t == AS_DT_FP16 || t == AS_DT_BF16 || t == AS_DT_FP32 || t == AS_DT_FP64;
}

static bool is_signed(enum as_dtype t)
{
    return t >= AS_DT_INT8 && t <= AS_DT_INT64;
}

/* The element as 64 bits, sign-extended. */
static uint64_t integer_at(enum as_dtype t, const uint8_t *p)
{
    unsigned size = (unsigned)as_dtype_size(t), shift = 64 - 8 * size;
    uint64_t v = 0;

    memcpy(&v, p, size);
    return is_signed(t) ? (uint64_t)((int64_t)(v << shift) >> shift) : v;
}

/* Maps a value to an integer that is larger for a better value: flips the sign bit, and of negative
 * reals all bits. NaN: 0. */
static uint64_t rank_at(enum as_dtype t, const uint8_t *p)
{
    const uint64_t top = (uint64_t)1 << 63;
    uint64_t v;
    double d;

    if (!is_real(t)) {
        v = integer_at(t, p);
        return is_signed(t) ? v ^ top : v;
    }
    d = real_at(t, p);
    if (d != d)
        return 0;
    if (d == 0)
        d = 0; /* -0 is equal to 0 */
    memcpy(&v, &d, 8);
    return v & top ? ~v : v | top;
}

/* The shortest %g text that reads back as the same value. */
static int print_real(char out[TEXT_MAX], enum as_dtype t, double d)
{
    int most = t == AS_DT_FP64 ? 17 : 9, n = 0;

    for (int digits = 1; digits <= most; digits++) {
        double back;

        n = snprintf(out, TEXT_MAX, "%.*g", digits, d);
        back = strtod(out, NULL);
        if (back == d || d != d || (t != AS_DT_FP64 && (float)back == (float)d))
            break;
    }
    return n;
}

static size_t print_class(char out[TEXT_MAX], enum as_dtype t, const uint8_t *p, uint64_t index)
{
    int n;

    if (is_real(t))
        n = print_real(out, t, real_at(t, p));
    else if (is_signed(t))
        n = snprintf(out, TEXT_MAX, "%lld", (long long)integer_at(t, p));
    else
        n = snprintf(out, TEXT_MAX, "%llu", (unsigned long long)integer_at(t, p));
    n += snprintf(out + n, TEXT_MAX - (size_t)n, ":%llu", (unsigned long long)index);
    return (size_t)n;
}

/* --- the k best --- */

static bool is_worse(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->index > b->index;
}

/* Restores a heap with the worst candidate at its top. */
static void sift_down(struct candidate *h, uint32_t n, uint32_t i)
{
    struct candidate moved = h[i];

    for (;;) {
        uint32_t c = 2 * i + 1;

        if (c >= n)
            break;
        if (c + 1 < n && is_worse(&h[c + 1], &h[c]))
            c++;
        if (!is_worse(&h[c], &moved))
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = moved;
}

/* The k best of n elements, best first; 0 < k <= n. */
static void select_best(struct candidate *h, uint32_t k, enum as_dtype t, const uint8_t *data,
                        uint64_t n)
{
    size_t size = as_dtype_size(t);

    for (uint32_t i = 0; i < k; i++)
        h[i] = (struct candidate){i, rank_at(t, data + i * size)};
    for (uint32_t i = k / 2; i-- > 0;)
        sift_down(h, k, i);
    for (uint64_t i = k; i < n; i++) {
        struct candidate new = {i, rank_at(t, data + i * size)};

        if (!is_worse(&h[0], &new))
            continue;
        h[0] = new;
        sift_down(h, k, 0);
    }
    for (uint32_t left = k; left > 1;) { /* heap sort: moves the worst to the end */
        struct candidate worst = h[0];

        h[0] = h[--left];
        h[left] = worst;
        sift_down(h, left, 0);
    }
}

static size_t longest_label(const struct as_str *labels, uint32_t n)
{
    size_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = AS_MAX(most, labels[i].n);
    return most;
}

/* Writes one element at p, after its length. Returns how many bytes it takes. */
static size_t put_class(uint8_t *p, enum as_dtype t, const uint8_t *value, uint64_t index,
                        struct as_str label)
{
    char text[TEXT_MAX];
    uint32_t n = (uint32_t)print_class(text, t, value, index), all = n;

    memcpy(p + 4, text, n);
    if (label.n) {
        p[4 + n] = ':';
        memcpy(p + 5 + n, label.p, label.n);
        all += 1 + (uint32_t)label.n;
    }
    memcpy(p, &all, 4);
    return 4 + all;
}

int as_classify(const struct as_tensor *t, const struct as_str *labels, uint32_t n_labels,
                uint32_t k, struct as_arena *a, struct as_tensor *ret_t)
{
    size_t size = as_dtype_size(t->dtype);
    uint64_t n = size ? t->nbytes / size : 0, batch = t->ndim > 1 ? (uint64_t)t->shape[0] : 1;
    uint64_t classes = batch ? n / batch : 0;
    size_t most = TEXT_MAX + longest_label(labels, n_labels);
    struct candidate *best;
    int64_t *shape;
    uint8_t *out;

    if (t->dtype == AS_DT_BYTES || t->dtype == AS_DT_BOOL)
        return AS_EINVALID;
    k = (uint32_t)AS_MIN((uint64_t)k, classes);
    if (k && batch > AS_MIN(AS_CLASSIFY_MAX, AS_CLASSIFY_BYTES / most) / k)
        return AS_ETOOBIG;
    best = as_arena_alloc(a, k * sizeof(*best) + 1, 8);
    shape = as_arena_alloc(a, 2 * sizeof(*shape), 8);
    out = as_arena_alloc(a, (size_t)batch * k * most + 1, 1);
    if (!best || !shape || !out)
        return AS_ENOMEM;
    shape[0] = (int64_t)batch;
    shape[t->ndim > 1] = k;
    *ret_t = (struct as_tensor){.name = t->name,
                                .dtype = AS_DT_BYTES,
                                .ndim = t->ndim > 1 ? 2 : 1,
                                .shape = shape,
                                .data = out};
    for (uint64_t b = 0; k && b < batch; b++) {
        const uint8_t *row = t->data + b * classes * size;

        select_best(best, k, t->dtype, row, classes);
        for (uint32_t i = 0; i < k; i++) {
            uint64_t at = best[i].index;

            ret_t->nbytes += put_class(out + ret_t->nbytes, t->dtype, row + at * size, at,
                                       at < n_labels ? labels[at] : (struct as_str){0});
        }
    }
    return 0;
}
