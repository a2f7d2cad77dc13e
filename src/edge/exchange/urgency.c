#include "edge/exchange/urgency.h"

#define DIGITS 9u /* of a number; more are refused */

uint8_t as_urgency_priority(uint64_t said)
{
    return said ? (uint8_t)(AS_MIN(said, (uint64_t)AS_PRIORITIES) - 1) : AS_PRIORITIES / 2;
}

/* A field with a whole number; 0: there is none. False: the request was failed. */
static bool read_number(struct as_exchange *x, struct as_str name, uint64_t *ret_v)
{
    struct as_str text = as_http_head_find(x->head, name);

    *ret_v = 0;
    if (!text.n || (text.n <= DIGITS && !as_str_u64(text, ret_v)))
        return true;
    as_exchange_fail(x, AS_EINVALID,
                     "the header '%.*s' must be a whole number of at most %u digits",
                     AS_STR_FMT(name), DIGITS);
    return false;
}

bool as_urgency_read(struct as_exchange *x, struct as_request *q)
{
    const struct as_edge_conf *conf = &x->edge->conf;
    uint64_t v;

    if (!x->head)
        return true;
    if (!read_number(x, AS_STR("anyserve-priority"), &v))
        return false;
    q->priority = as_urgency_priority(v);
    if (x->key && x->key->n_tenant)
        q->tenant = as_fleet_tenant_key(x->edge->client.fleet, as_key_tenant(x->key));
    else if (conf->tenant_header.n)
        q->tenant = as_fleet_tenant_key(x->edge->client.fleet,
                                        as_http_head_find(x->head, conf->tenant_header));
    if (!conf->cost_header.n)
        return true;
    if (!read_number(x, conf->cost_header, &v))
        return false;
    q->cost = (uint32_t)AS_MAX(v, 1);
    return true;
}
