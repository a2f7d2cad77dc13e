#include "link/call.h"

#include <string.h>

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
