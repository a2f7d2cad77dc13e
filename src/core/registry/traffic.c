#include "core/registry/traffic.h"

/* Versions of one name that are examined. Further versions get no canary, mirror or fallback
 * traffic. */
#define VERSIONS_MAX 256u

uint32_t as_traffic_point(struct as_str model, struct as_str id, uint32_t *turn)
{
    uint64_t h;

    if (!id.n) {
        /* multiples of the golden ratio: each falls into one of the largest gaps between the others
         */
        *turn += 0x9e3779b9u;
        return (uint32_t)(((uint64_t)*turn * AS_TRAFFIC_ALL) >> 32);
    }
    h = (as_str_hash(id) ^ as_str_hash(model) * 0x9fb21c651e98df25u) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 31)) * 0x94d049bb133111ebu;
    return (uint32_t)((h >> 32) * AS_TRAFFIC_ALL >> 32);
}

static bool same_kind(const struct as_model *a, const struct as_model *b)
{
    return a->decoupled == b->decoupled && a->streams_inputs == b->streams_inputs;
}

const struct as_model *as_traffic_canary(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point,
                                         bool (*serves)(void *arg, const struct as_model *m),
                                         void *arg)
{
    const struct as_model *all[VERSIONS_MAX];
    uint32_t n = as_registry_versions(g, m->name, all, VERSIONS_MAX);

    for (uint32_t i = 0; i < AS_MIN(n, VERSIONS_MAX); i++) {
        const struct as_model *c = all[i];

        if (!c->traffic.is_canary || c == m)
            continue;
        if (point < c->traffic.canary)
            return same_kind(c, m) && serves(arg, c) ? c : NULL;
        point -= c->traffic.canary;
    }
    return NULL;
}

const struct as_model *as_traffic_mirror(const struct as_registry *g, const struct as_model *m,
                                         uint32_t point, const struct as_model *after)
{
    const struct as_model *all[VERSIONS_MAX];
    uint32_t n = as_registry_versions(g, m->name, all, VERSIONS_MAX);

    for (uint32_t i = 0; i < AS_MIN(n, VERSIONS_MAX); i++) {
        const struct as_model *c = all[i];

        if (after) {
            if (c == after)
                after = NULL;
            continue;
        }
        if (point < c->traffic.mirror && c->deployment != m->deployment && same_kind(c, m))
            return c;
    }
    return NULL;
}

/* The version of m's name that the given deployment serves (of several, its default one); NULL:
 * none. */
static const struct as_model *served_by(const struct as_registry *g, const struct as_model *m,
                                        struct as_str deployment)
{
    const struct as_model *all[VERSIONS_MAX], *best = NULL;
    uint32_t n = as_registry_versions(g, m->name, all, VERSIONS_MAX);

    for (uint32_t i = 0; i < AS_MIN(n, VERSIONS_MAX); i++) {
        if (!as_str_eq(all[i]->served_by, deployment) || !same_kind(all[i], m))
            continue;
        if (!best || as_registry_is_integer(all[i]->version) ||
            !as_registry_is_integer(best->version))
            best = all[i];
    }
    return best;
}

const struct as_model *as_traffic_fallback(const struct as_registry *g,
                                           const struct as_model *first, uint32_t n)
{
    const struct as_model *seen[AS_TRAFFIC_HOPS + 1], *at = first;

    for (uint32_t i = 0; i < n; i++) {
        if (i == AS_TRAFFIC_HOPS || !at->traffic.fallback.n)
            return NULL;
        seen[i] = at;
        at = served_by(g, at, at->traffic.fallback);
        for (uint32_t k = 0; at && k <= i; k++)
            at = seen[k]->deployment == at->deployment ? NULL : at;
        if (!at)
            return NULL;
    }
    return at;
}
