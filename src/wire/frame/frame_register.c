/* REGISTER: one model with its signature. */
#include "base/err.h"
#include "wire/frame/frame_le.h"
#include "wire/name_check.h"

#define FIXED      40u /* bytes of the fixed part of the payload */
#define BATCHING   16u /* follows if there is batching; then come the preferred sizes */
#define SPEC_FIXED 8u
#define ANY_RANK   0xffu

#define RAGGED 1u

#define IDEMPOTENT  1u
#define HAS_INPUTS  2u
#define HAS_OUTPUTS 4u
#define DECOUPLED   8u
#define STREAMS_IN  16u
#define OPAQUE      32u
#define HTTP        64u

/* The size of all labels with their lengths; SIZE_MAX: too many or too long. */
static size_t labels_len(const struct as_tensor_spec *s)
{
    size_t n = 0;

    if (s->n_labels > AS_FRAME_LABELS)
        return SIZE_MAX;
    for (uint32_t i = 0; i < s->n_labels; i++) {
        if (s->labels[i].n > AS_FRAME_LABEL)
            return SIZE_MAX;
        n += 2 + s->labels[i].n;
    }
    return AS_ALIGN(n, 8);
}

static int specs_len(const struct as_tensor_spec *s, uint32_t n, size_t *total)
{
    if (n > AS_FRAME_TENSORS)
        return AS_ETOOBIG;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ndim = s[i].ndim == AS_ANY_RANK ? 0 : s[i].ndim;

        AS_ASSERT(ndim <= AS_MAX_DIMS);
        if (s[i].name.n > UINT16_MAX || labels_len(&s[i]) == SIZE_MAX)
            return AS_ETOOBIG;
        *total += SPEC_FIXED + 8 * (size_t)ndim + AS_ALIGN(s[i].name.n, 8) + labels_len(&s[i]);
    }
    return 0;
}

static uint8_t *put_labels(uint8_t *p, const struct as_tensor_spec *s)
{
    uint8_t *end = p + labels_len(s);

    for (uint32_t i = 0; i < s->n_labels; i++) {
        put16(p, (uint16_t)s->labels[i].n);
        if (s->labels[i].n)
            memcpy(p + 2, s->labels[i].p, s->labels[i].n);
        p += 2 + s->labels[i].n;
    }
    memset(p, 0, (size_t)(end - p));
    return end;
}

static uint8_t *put_specs(uint8_t *p, const struct as_tensor_spec *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ndim = s[i].ndim == AS_ANY_RANK ? 0 : s[i].ndim;
        size_t room = AS_ALIGN(s[i].name.n, 8);

        put16(p, (uint16_t)s[i].name.n);
        p[2] = (uint8_t)s[i].dtype;
        p[3] = s[i].ndim == AS_ANY_RANK ? (uint8_t)ANY_RANK : (uint8_t)ndim;
        put32(p + 4, s[i].n_labels);
        p += SPEC_FIXED;
        if (ndim)
            memcpy(p, s[i].shape, 8 * (size_t)ndim);
        p += 8 * (size_t)ndim;
        memset(p, 0, room);
        if (s[i].name.n)
            memcpy(p, s[i].name.p, s[i].name.n);
        p = put_labels(p + room, &s[i]);
    }
    return p;
}

static size_t batching_len(const struct as_frame_batching *b)
{
    return b->max_size ? BATCHING + AS_ALIGN(4 * (size_t)b->n_preferred, 8) : 0;
}

static uint8_t *put_batching(uint8_t *p, const struct as_frame_batching *b)
{
    if (!b->max_size)
        return p;
    AS_ASSERT(b->n_preferred <= AS_FRAME_PREFERRED);
    memset(p, 0, batching_len(b));
    put64(p, b->max_wait);
    put32(p + 8, b->ragged ? RAGGED : 0);
    put32(p + 12, b->n_preferred);
    for (uint32_t i = 0; i < b->n_preferred; i++)
        put32(p + BATCHING + 4 * (size_t)i, b->preferred[i]);
    return p + batching_len(b);
}

int as_frame_put_register(struct as_outq *q, const struct as_frame_register *r)
{
    const struct as_str text[] = {r->name, r->version, r->platform};
    size_t n = FIXED + batching_len(&r->batching);
    uint8_t *p;

    if (specs_len(r->inputs, r->n_inputs, &n) || specs_len(r->outputs, r->n_outputs, &n))
        return AS_ETOOBIG;
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        if (text[i].n > UINT16_MAX)
            return AS_ETOOBIG;
        n += text[i].n;
    }
    if (n > AS_FRAME_MAX)
        return AS_ETOOBIG;
    p = put_frame(q, AS_FRAME_REGISTER, 0, n);
    put32(p, r->model);
    put16(p + 4, (uint16_t)r->name.n);
    put16(p + 6, (uint16_t)r->version.n);
    put16(p + 8, (uint16_t)r->platform.n);
    put16(p + 10, (uint16_t)((r->idempotent ? IDEMPOTENT : 0) | (r->has_inputs ? HAS_INPUTS : 0) |
                             (r->has_outputs ? HAS_OUTPUTS : 0) | (r->decoupled ? DECOUPLED : 0) |
                             (r->streams_inputs ? STREAMS_IN : 0) | (r->opaque ? OPAQUE : 0) |
                             (r->http ? HTTP : 0)));
    put32(p + 12, r->max_ongoing);
    put32(p + 16, r->budget);
    put32(p + 20, r->batching.max_size);
    put64(p + 24, (uint64_t)r->max_queued);
    put32(p + 32, r->n_inputs);
    put32(p + 36, r->n_outputs);
    p = put_batching(p + FIXED, &r->batching);
    p = put_specs(p, r->inputs, r->n_inputs);
    p = put_specs(p, r->outputs, r->n_outputs);
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        if (text[i].n)
            memcpy(p, text[i].p, text[i].n);
        p += text[i].n;
    }
    return 0;
}

/* Reads the labels at p, at the end of an entry; *ret_len: their size. */
static int get_labels(const uint8_t *p, size_t n, struct as_tensor_spec *s, struct as_arena *a,
                      size_t *ret_len, const char **ret_why)
{
    struct as_str *labels;
    size_t at = 0;

    s->labels = NULL;
    *ret_len = 0;
    if (!s->n_labels)
        return 0;
    *ret_why = "signature: too many labels";
    if (s->n_labels > AS_FRAME_LABELS || s->n_labels > n / 2)
        return AS_EPROTO;
    labels = as_arena_alloc(a, s->n_labels * sizeof(*labels), _Alignof(struct as_str));
    if (!labels)
        return AS_ENOMEM;
    *ret_why = "signature: a label is too long, or not a line of UTF-8";
    for (uint32_t i = 0; i < s->n_labels; i++) {
        if (n - at < 2 || get16(p + at) > AS_FRAME_LABEL || n - at - 2 < get16(p + at))
            return AS_EPROTO;
        labels[i] = (struct as_str){(const char *)p + at + 2, get16(p + at)};
        if (!as_name_check_line(labels[i]))
            return AS_EPROTO;
        at += 2 + labels[i].n;
    }
    *ret_why = "signature: labels are not padded with zeros";
    for (*ret_len = AS_ALIGN(at, (size_t)8); at < *ret_len; at++) {
        if (at >= n || p[at])
            return AS_EPROTO;
    }
    s->labels = labels;
    return 0;
}

/* Reads one entry at p without its labels; returns its size in bytes, or 0 with a reason. */
static size_t get_spec(const uint8_t *p, size_t n, struct as_tensor_spec *s, const char **ret_why)
{
    size_t name, ndim, len;

    *ret_why = "signature: cut short";
    if (n < SPEC_FIXED)
        return 0;
    name = get16(p);
    ndim = p[3] == ANY_RANK ? 0 : p[3];
    len = SPEC_FIXED + 8 * ndim + AS_ALIGN(name, 8);
    if (n < len)
        return 0;
    s->dtype = (enum as_dtype)p[2];
    s->ndim = p[3] == ANY_RANK ? AS_ANY_RANK : (uint32_t)ndim;
    s->shape = (const int64_t *)(const void *)(p + SPEC_FIXED);
    s->name = (struct as_str){(const char *)p + SPEC_FIXED + 8 * ndim, name};
    *ret_why = "signature: unknown datatype";
    if (s->dtype == AS_DT_INVALID || s->dtype >= AS_DT_COUNT)
        return 0;
    *ret_why = "signature: bad shape";
    s->n_labels = get32(p + 4);
    if (ndim > AS_MAX_DIMS)
        return 0;
    for (size_t i = 0; i < ndim; i++) {
        if (s->shape[i] < -1)
            return 0;
    }
    *ret_why = "signature: a tensor name is empty or not UTF-8";
    return name && as_name_check_utf8(s->name) ? len : 0;
}

/* Reads n entries at *at, which advances. Only outputs may have labels. */
static int get_specs(const struct as_frame *f, size_t *at, uint32_t n, struct as_arena *a,
                     bool labelled, const struct as_tensor_spec **ret, const char **ret_why)
{
    struct as_tensor_spec *v;
    size_t labels;
    int err;

    *ret = NULL;
    *ret_why = "signature: too many tensors";
    if (n > AS_FRAME_TENSORS || n > (f->n - *at) / SPEC_FIXED)
        return AS_EPROTO;
    if (!n)
        return 0;
    v = as_arena_alloc(a, n * sizeof(*v), _Alignof(struct as_tensor_spec));
    if (!v)
        return AS_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = get_spec(f->p + *at, f->n - *at, &v[i], ret_why);

        if (!len)
            return AS_EPROTO;
        *at += len;
        *ret_why = "signature: labels on an input";
        if (v[i].n_labels && !labelled)
            return AS_EPROTO;
        err = get_labels(f->p + *at, f->n - *at, &v[i], a, &labels, ret_why);
        if (err)
            return err;
        *at += labels;
    }
    *ret_why = "signature: a tensor name is given twice";
    if (as_name_check_duplicate(v, sizeof(*v), n))
        return AS_EPROTO;
    *ret = v;
    return 0;
}

static int get_fixed(const struct as_frame *f, struct as_frame_register *r, const char **ret_why)
{
    const uint8_t *p = f->p;
    uint16_t flags;

    *ret_why = "REGISTER: the fixed part is cut short or malformed";
    if (f->n < FIXED)
        return AS_EPROTO;
    flags = get16(p + 10);
    r->model = get32(p);
    r->idempotent = flags & IDEMPOTENT;
    r->has_inputs = flags & HAS_INPUTS;
    r->has_outputs = flags & HAS_OUTPUTS;
    r->decoupled = flags & DECOUPLED;
    r->streams_inputs = flags & STREAMS_IN;
    r->opaque = flags & OPAQUE;
    r->http = flags & HTTP;
    r->max_ongoing = get32(p + 12);
    r->budget = get32(p + 16);
    r->batching.max_size = get32(p + 20);
    r->max_queued = (int64_t)get64(p + 24);
    r->n_inputs = get32(p + 32);
    r->n_outputs = get32(p + 36);
    if (flags & ~(IDEMPOTENT | HAS_INPUTS | HAS_OUTPUTS | DECOUPLED | STREAMS_IN | OPAQUE | HTTP))
        return AS_EPROTO;
    *ret_why = "REGISTER: a stream of inputs needs a stream of answers";
    if (r->streams_inputs && !r->decoupled)
        return AS_EPROTO;
    *ret_why = "REGISTER: a target of calls has neither a signature, nor batching, nor streams";
    if (r->opaque && (r->has_inputs || r->has_outputs || r->batching.max_size || r->decoupled))
        return AS_EPROTO;
    *ret_why = "REGISTER: requests of HTTP need a target of calls";
    if (r->http && !r->opaque)
        return AS_EPROTO;
    *ret_why = "REGISTER: tensors on a side without a signature";
    if ((r->n_inputs && !r->has_inputs) || (r->n_outputs && !r->has_outputs))
        return AS_EPROTO;
    *ret_why = "REGISTER: max_ongoing or budget is not within 1…65535";
    if (r->max_ongoing < 1 || r->max_ongoing > 65535 || r->budget < 1 || r->budget > 65535)
        return AS_EPROTO;
    *ret_why = "REGISTER: max_queued is below -1";
    return r->max_queued >= -1 ? 0 : AS_EPROTO;
}

/* Reads the batching options, if there are any; *at advances. */
static int get_batching(const struct as_frame *f, size_t *at, struct as_frame_batching *b,
                        const char **ret_why)
{
    const uint8_t *p = f->p + *at;
    uint32_t flags;

    if (!b->max_size)
        return 0;
    *ret_why = "REGISTER: batching is cut short";
    if (f->n - *at < BATCHING)
        return AS_EPROTO;
    b->max_wait = get64(p);
    flags = get32(p + 8);
    b->ragged = flags & RAGGED;
    b->n_preferred = get32(p + 12);
    if (b->n_preferred <= AS_FRAME_PREFERRED && f->n - *at < batching_len(b))
        return AS_EPROTO;
    *ret_why = "REGISTER: the batching options are malformed";
    if (flags & ~RAGGED || b->n_preferred > AS_FRAME_PREFERRED)
        return AS_EPROTO;
    for (uint32_t i = 0; i < b->n_preferred; i++)
        b->preferred[i] = get32(p + BATCHING + 4 * (size_t)i);
    if (b->n_preferred & 1 && get32(p + BATCHING + 4 * (size_t)b->n_preferred))
        return AS_EPROTO;
    *at += batching_len(b);
    return 0;
}

int as_frame_get_register(const struct as_frame *f, struct as_arena *a,
                          struct as_frame_register *ret_r, const char **ret_why)
{
    struct as_frame_register r = {0};
    struct as_str *text[] = {&r.name, &r.version, &r.platform};
    size_t at = FIXED;
    int err = get_fixed(f, &r, ret_why);

    if (!err)
        err = get_batching(f, &at, &r.batching, ret_why);
    if (!err)
        err = get_specs(f, &at, r.n_inputs, a, false, &r.inputs, ret_why);
    if (!err)
        err = get_specs(f, &at, r.n_outputs, a, true, &r.outputs, ret_why);
    if (err)
        return err;
    *ret_why = "REGISTER: names do not fill the frame";
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        size_t len = get16(f->p + 4 + 2 * i);

        if (len > f->n - at)
            return AS_EPROTO;
        *text[i] = (struct as_str){(const char *)f->p + at, len};
        at += len;
    }
    if (at != f->n)
        return AS_EPROTO;
    *ret_why = "REGISTER: a name is not UTF-8";
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        if (!as_name_check_utf8(*text[i]))
            return AS_EPROTO;
    }
    *ret_r = r;
    return 0;
}
