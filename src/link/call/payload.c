#include "link/call/payload.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#define SAMPLE_PIECES 16u  /* pieces of a tensor that a sample reads … */
#define SAMPLE_PIECE  64u  /* … and the bytes of each: about 1 KiB per tensor */
#define MESSAGE_COST  256u /* what one message costs beside its bytes, in bytes */

/* Multiply and fold, as wyhash does; enough for the few words of a batch key. It is keyed, so that
 * a client cannot choose collisions; as_payload_can_batch tells colliding messages apart. */
static uint64_t mix(uint64_t h, uint64_t v)
{
    __uint128_t m = (__uint128_t)(h ^ v) * UINT64_C(0x9fb21c651e98df25);

    return (uint64_t)m ^ (uint64_t)(m >> 64) ^ UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t mix_str(uint64_t h, struct as_str s)
{
    size_t at = 0;

    h = mix(h, s.n);
    for (; s.n - at >= 8; at += 8) {
        uint64_t v;

        memcpy(&v, s.p + at, 8);
        h = mix(h, v);
    }
    if (at < s.n) {
        uint64_t v = 0;

        memcpy(&v, s.p + at, s.n - at);
        h = mix(h, v);
    }
    return h;
}

/* What the hashes read: the tensors, or the body of a call as one tensor of bytes; of a request of
 * HTTP its method, path, query and the part of its body that was collected. */
struct tensors {
    struct as_tensor bytes[4];
    const struct as_tensor *at;
    uint32_t n;
};

static void add_bytes(struct tensors *t, struct as_str s)
{
    t->bytes[t->n++] = (struct as_tensor){.data = (const uint8_t *)s.p, .nbytes = s.n};
}

static void tensors_of(const struct as_payload *p, struct tensors *ret_t)
{
    ret_t->at = p->msg.tensors;
    ret_t->n = p->msg.n_tensors;
    if (p->kind == AS_FRAME_CALL || p->kind == AS_FRAME_HTTP) {
        const struct as_frame_http_open *h = p->kind == AS_FRAME_HTTP ? p->http : NULL;

        ret_t->at = ret_t->bytes;
        ret_t->n = 0;
        add_bytes(ret_t, p->body);
        /* a body that is whole has the method in its bytes */
        if (p->kind == AS_FRAME_CALL && p->pieces)
            ret_t->bytes[0].name = p->pieces->method;
        if (h) {
            add_bytes(ret_t, h->method);
            add_bytes(ret_t, h->path);
            add_bytes(ret_t, h->query);
        }
    }
}

/* The value of a parameter that is not a string, as bits. */
static uint64_t param_bits(const struct as_param *p)
{
    uint64_t v = 0;

    if (p->type == AS_PARAM_BOOL)
        return p->b;
    memcpy(&v, &p->u64, sizeof(v));
    return v;
}

/* Each field is hashed with its length, so that two fields cannot be read as one. */
static void hash_bytes(XXH3_state_t *h, const void *p, uint64_t n)
{
    XXH3_128bits_update(h, &n, sizeof(n));
    if (n)
        XXH3_128bits_update(h, p, n);
}

static void hash_param(XXH3_state_t *h, const struct as_param *p)
{
    uint64_t v[2] = {p->type, p->type == AS_PARAM_STRING ? 0 : param_bits(p)};

    hash_bytes(h, p->name.p, p->name.n);
    hash_bytes(h, v, sizeof(v));
    if (p->type == AS_PARAM_STRING)
        hash_bytes(h, p->str.p, p->str.n);
}

static XXH128_hash_t hash_tensor_params(const struct as_tensor_params *p, uint64_t seed)
{
    XXH3_state_t h;

    XXH3_INITSTATE(&h);
    XXH3_128bits_reset_withSeed(&h, seed);
    for (uint32_t i = 0; i < p->n; i++) {
        hash_bytes(&h, &p->at[i].tensor, sizeof(p->at[i].tensor));
        hash_param(&h, &p->at[i].param);
    }
    return XXH3_128bits_digest(&h);
}

uint64_t as_payload_batch_key(const struct as_payload *p, uint64_t seed)
{
    const struct as_msg *msg = &p->msg;
    bool ragged = p->batching == AS_PAYLOAD_RAGGED;
    uint64_t h = mix(seed, msg->n_tensors);

    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];

        h = mix_str(mix(h, t->dtype | (uint64_t)t->ndim << 8), t->name);
        for (uint32_t k = 1; !ragged && k < t->ndim; k++)
            h = mix(h, (uint64_t)t->shape[k]);
    }
    h = mix(h, msg->n_params);
    for (uint32_t i = 0; i < msg->n_params; i++) {
        const struct as_param *v = &msg->params[i];

        h = mix_str(mix(h, v->type), v->name);
        h = v->type == AS_PARAM_STRING ? mix_str(h, v->str) : mix(h, param_bits(v));
    }
    return p->tensor_params.n ? h ^ hash_tensor_params(&p->tensor_params, seed).low64 : h;
}

uint64_t as_payload_size(const struct as_payload *p)
{
    uint64_t size = 0;
    struct tensors t;

    if (p->kind == AS_FRAME_CALL || p->kind == AS_FRAME_HTTP)
        return p->body.n;
    tensors_of(p, &t);
    for (uint32_t i = 0; i < t.n; i++)
        size += t.at[i].nbytes;
    return size;
}

static XXH3_state_t *state_of(struct as_payload_hasher *h)
{
    static_assert(sizeof(h->state) >= sizeof(XXH3_state_t) + _Alignof(XXH3_state_t) - 1,
                  "fits at any alignment");
    return (XXH3_state_t *)AS_ALIGN((uintptr_t)h->state, _Alignof(XXH3_state_t));
}

static void hash_params(XXH3_state_t *h, const struct as_msg *msg)
{
    for (uint32_t i = 0; i < msg->n_params; i++)
        hash_param(h, &msg->params[i]);
}

/* Everything about a tensor except its bytes. */
static void hash_tensor_head(XXH3_state_t *h, const struct as_tensor *t)
{
    uint32_t dtype = t->dtype;
    uint64_t n = t->nbytes;

    hash_bytes(h, t->name.p, t->name.n);
    hash_bytes(h, &dtype, sizeof(dtype));
    hash_bytes(h, t->shape, t->ndim * sizeof(t->shape[0]));
    XXH3_128bits_update(h, &n, sizeof(n));
}

/* One piece from each of SAMPLE_PIECES equal parts of the tensor. */
static void hash_tensor_sample(XXH3_state_t *h, const struct as_tensor *t, uint64_t seed)
{
    size_t part = t->nbytes / SAMPLE_PIECES;

    if (t->nbytes <= SAMPLE_PIECES * (size_t)SAMPLE_PIECE) {
        XXH3_128bits_update(h, t->data, t->nbytes);
        return;
    }
    for (uint32_t i = 0; i < SAMPLE_PIECES; i++) {
        size_t at = i * part + mix(seed, i) % (part - SAMPLE_PIECE + 1);

        XXH3_128bits_update(h, t->data + at, SAMPLE_PIECE);
    }
}

uint64_t as_payload_sample(const struct as_payload *p, uint64_t seed)
{
    struct tensors t;
    XXH3_state_t h;
    uint64_t v;

    XXH3_INITSTATE(&h);
    XXH3_128bits_reset_withSeed(&h, seed);
    tensors_of(p, &t);
    for (uint32_t i = 0; i < t.n; i++) {
        hash_tensor_head(&h, &t.at[i]);
        hash_tensor_sample(&h, &t.at[i], seed);
    }
    hash_params(&h, &p->msg);
    v = XXH3_128bits_digest(&h).low64;
    return p->tensor_params.n ? v ^ hash_tensor_params(&p->tensor_params, seed).low64 : v;
}

/* Hashes at most *bytes of one tensor. True: the tensor is complete. */
static bool hash_tensor_portion(struct as_payload_hasher *h, const struct as_tensor *t,
                                uint64_t *bytes)
{
    size_t n = (size_t)AS_MIN(t->nbytes - h->at, *bytes);

    if (t->nbytes && !n) /* else its head would be hashed twice */
        return false;
    if (!h->at)
        hash_tensor_head(state_of(h), t);
    if (n)
        XXH3_128bits_update(state_of(h), t->data + h->at, n);
    h->at += n;
    *bytes -= n;
    if (h->at < t->nbytes)
        return false;
    h->tensor++;
    h->at = 0;
    return true;
}

bool as_payload_fingerprint(struct as_payload_hasher *h, const struct as_payload *p, uint64_t seed,
                            bool first, uint64_t *bytes, struct as_fingerprint *ret_p)
{
    XXH128_hash_t v, own = {0};
    struct tensors t;

    tensors_of(p, &t);
    if (first) {
        h->tensor = 0;
        h->at = 0;
        XXH3_INITSTATE(state_of(h));
        XXH3_128bits_reset_withSeed(state_of(h), seed);
        *bytes -= AS_MIN(*bytes, MESSAGE_COST);
    }
    while (h->tensor < t.n) {
        if (!hash_tensor_portion(h, &t.at[h->tensor], bytes))
            return false;
    }
    hash_params(state_of(h), &p->msg);
    v = XXH3_128bits_digest(state_of(h));
    if (p->tensor_params.n)
        own = hash_tensor_params(&p->tensor_params, seed);
    ret_p->hi = v.high64 ^ own.high64;
    ret_p->lo = v.low64 ^ own.low64;
    return true;
}

static bool tensors_can_batch(const struct as_tensor *a, const struct as_tensor *b, bool ragged)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim || !as_str_eq(a->name, b->name))
        return false;
    return ragged || a->ndim < 2 ||
           memcmp(a->shape + 1, b->shape + 1, (a->ndim - 1) * sizeof(int64_t)) == 0;
}

static bool params_equal(const struct as_param *a, const struct as_param *b)
{
    if (a->type != b->type || !as_str_eq(a->name, b->name))
        return false;
    return a->type == AS_PARAM_STRING ? as_str_eq(a->str, b->str) : param_bits(a) == param_bits(b);
}

static bool tensor_params_equal(const struct as_tensor_params *a, const struct as_tensor_params *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->at[i].tensor != b->at[i].tensor || !params_equal(&a->at[i].param, &b->at[i].param))
            return false;
    }
    return true;
}

bool as_payload_can_batch(const struct as_payload *x, const struct as_payload *y)
{
    const struct as_msg *a = &x->msg, *b = &y->msg;

    if (x->kind > AS_FRAME_TENSOR || y->kind > AS_FRAME_TENSOR || a->n_tensors != b->n_tensors ||
        a->n_params != b->n_params)
        return false;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        if (!tensors_can_batch(&a->tensors[i], &b->tensors[i], x->batching == AS_PAYLOAD_RAGGED))
            return false;
    }
    for (uint32_t i = 0; i < a->n_params; i++) {
        if (!params_equal(&a->params[i], &b->params[i]))
            return false;
    }
    return tensor_params_equal(&x->tensor_params, &y->tensor_params);
}
