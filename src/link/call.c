#include "link/call.h"

#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

/* A few words each, and none of the tensors' bytes: no need for a library's hash. Multiply and fold
 * (as wyhash does), keyed, so that a client cannot choose what collides; what does is told apart by
 * as_call_alike. */
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

/* The value of a parameter that is no string, as bits. */
static uint64_t bits_of(const struct as_param *p)
{
    uint64_t v = 0;

    if (p->type == AS_PARAM_BOOL)
        return p->b;
    memcpy(&v, &p->u64, sizeof(v));
    return v;
}

uint64_t as_call_kind(const struct as_msg *msg, bool ragged, uint64_t seed)
{
    uint64_t h = mix(seed, msg->n_tensors);

    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];

        h = mix_str(mix(h, t->dtype | (uint64_t)t->ndim << 8), t->name);
        for (uint32_t k = 1; !ragged && k < t->ndim; k++)
            h = mix(h, (uint64_t)t->shape[k]);
    }
    h = mix(h, msg->n_params);
    for (uint32_t i = 0; i < msg->n_params; i++) {
        const struct as_param *p = &msg->params[i];

        h = mix_str(mix(h, p->type), p->name);
        h = p->type == AS_PARAM_STRING ? mix_str(h, p->str) : mix(h, bits_of(p));
    }
    return h;
}

/* Fields are hashed with their lengths, so that none runs into the next. */
static void put(XXH3_state_t *h, const void *p, uint64_t n)
{
    XXH3_128bits_update(h, &n, sizeof(n));
    if (n)
        XXH3_128bits_update(h, p, n);
}

static void put_param(XXH3_state_t *h, const struct as_param *p)
{
    uint64_t v[2] = {p->type, p->type == AS_PARAM_STRING ? 0 : bits_of(p)};

    put(h, p->name.p, p->name.n);
    put(h, v, sizeof(v));
    if (p->type == AS_PARAM_STRING)
        put(h, p->str.p, p->str.n);
}

uint64_t as_call_print(const struct as_msg *msg, uint64_t seed, struct as_print *ret_p)
{
    uint64_t size = 0;
    XXH3_state_t h;
    XXH128_hash_t v;

    for (uint32_t i = 0; i < msg->n_tensors; i++)
        size += msg->tensors[i].nbytes;
    if (!ret_p)
        return size;
    XXH3_INITSTATE(&h);
    XXH3_128bits_reset_withSeed(&h, seed);
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        uint32_t dtype = t->dtype;

        put(&h, t->name.p, t->name.n);
        put(&h, &dtype, sizeof(dtype));
        put(&h, t->shape, t->ndim * sizeof(t->shape[0]));
        put(&h, t->data, t->nbytes);
    }
    for (uint32_t i = 0; i < msg->n_params; i++)
        put_param(&h, &msg->params[i]);
    v = XXH3_128bits_digest(&h);
    ret_p->hi = v.high64;
    ret_p->lo = v.low64;
    return size;
}

static bool tensors_alike(const struct as_tensor *a, const struct as_tensor *b, bool ragged)
{
    if (a->dtype != b->dtype || a->ndim != b->ndim || !as_str_eq(a->name, b->name))
        return false;
    return ragged || a->ndim < 2 ||
           memcmp(a->shape + 1, b->shape + 1, (a->ndim - 1) * sizeof(int64_t)) == 0;
}

static bool params_alike(const struct as_param *a, const struct as_param *b)
{
    if (a->type != b->type || !as_str_eq(a->name, b->name))
        return false;
    return a->type == AS_PARAM_STRING ? as_str_eq(a->str, b->str) : bits_of(a) == bits_of(b);
}

bool as_call_alike(const struct as_msg *a, const struct as_msg *b, bool ragged)
{
    if (a->n_tensors != b->n_tensors || a->n_params != b->n_params)
        return false;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        if (!tensors_alike(&a->tensors[i], &b->tensors[i], ragged))
            return false;
    }
    for (uint32_t i = 0; i < a->n_params; i++) {
        if (!params_alike(&a->params[i], &b->params[i]))
            return false;
    }
    return true;
}
