#include "edge/infer/request_options.h"

#include "edge/exchange/urgency.h"

#define RESERVED_PREFIX "triton_" /* names that begin with it are reserved */

enum kind { PLAIN, PRIORITY, TIMEOUT, IGNORED, RESERVED };

static enum kind kind_of(struct as_str name)
{
    static const struct {
        const char *name;
        enum kind kind;
    } known[] = {
        {"priority", PRIORITY},
        {"timeout", TIMEOUT},
        {"headers", RESERVED},
        /* sent by some clients with every protocol; they mean something in another one only */
        {"binary_data_output", IGNORED},
        {"triton_enable_empty_final_response", IGNORED},
    };
    size_t n = sizeof(RESERVED_PREFIX) - 1;

    for (size_t i = 0; i < AS_COUNT(known); i++) {
        if (as_str_eq(name, as_str_of(known[i].name)))
            return known[i].kind;
    }
    return name.n >= n && memcmp(name.p, RESERVED_PREFIX, n) == 0 ? RESERVED : PLAIN;
}

static bool read_integer(struct as_exchange *x, const struct as_param *m, uint64_t *ret)
{
    if (m->type != AS_PARAM_UINT64 && (m->type != AS_PARAM_INT64 || (int64_t)m->u64 < 0)) {
        as_exchange_fail(x, AS_EINVALID, "parameter '%.*s' must be an integer >= 0",
                         AS_STR_FMT(m->name));
        return false;
    }
    *ret = m->u64;
    return true;
}

static bool set_priority(struct as_exchange *x, const struct as_param *m)
{
    uint64_t v;

    if (!read_integer(x, m, &v))
        return false;
    if (v)
        x->call.core.priority = as_urgency_priority(v);
    return true;
}

static bool set_timeout(struct as_exchange *x, const struct as_param *m)
{
    as_ns now = as_loop_now(x->edge->loop);
    uint64_t v;

    if (!read_integer(x, m, &v))
        return false;
    if (v && v < (AS_NEVER - now) / AS_US)
        x->call.core.deadline = AS_MIN(x->call.core.deadline, now + v * AS_US);
    return true;
}

static bool apply_option(struct as_exchange *x, const struct as_param *m, enum kind kind)
{
    switch (kind) {
    case PRIORITY:
        return set_priority(x, m);
    case TIMEOUT:
        return set_timeout(x, m);
    case RESERVED:
        as_exchange_fail(x, AS_EINVALID, "parameter '%.*s' is reserved", AS_STR_CUT(m->name, 64));
        return false;
    case IGNORED:
    case PLAIN:
    default:
        return true;
    }
}

bool as_request_options_apply(struct as_exchange *x)
{
    const struct as_param *all = x->infer.params;
    uint32_t n = 0, n_all = x->infer.n_params;
    struct as_param *left = as_exchange_alloc(x, n_all * sizeof(*left), 8, "the request");

    if (!left)
        return false;
    for (uint32_t i = 0; i < n_all; i++) {
        enum kind kind = kind_of(all[i].name);

        if (!apply_option(x, &all[i], kind))
            return false;
        if (kind == PLAIN)
            left[n++] = all[i];
    }
    x->call.payload.msg.params = left;
    x->call.payload.msg.n_params = n;
    return true;
}
