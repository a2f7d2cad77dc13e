#include "core/registry/routes.h"

#include "base/buf.h"

#include <stdatomic.h>
#include <string.h>

struct as_routes {
    atomic_uint refs;
    uint32_t n;
    struct as_route rows[]; /* longest prefix first; behind them their texts */
};

static struct as_routes *alloc_routes(uint32_t n, size_t text)
{
    struct as_routes *g = as_xalloc(sizeof(*g) + n * sizeof(g->rows[0]) + text);

    atomic_init(&g->refs, 1);
    g->n = n;
    return g;
}

struct as_routes *as_routes_new(void)
{
    return alloc_routes(0, 0);
}

struct as_routes *as_routes_ref(struct as_routes *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void as_routes_unref(struct as_routes *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < g->n; i++)
        as_counts_unref(g->rows[i].counts);
    free(g);
}

static bool is_prefix(struct as_str s)
{
    if (!s.n || s.n > AS_ROUTE_PREFIX_MAX || s.p[0] != '/')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if ((uint8_t)s.p[i] < 0x20 || (uint8_t)s.p[i] == 0x7f)
            return false;
    }
    return true;
}

static bool goes_first(const struct as_route *a, const struct as_route *b)
{
    if (a->prefix.n != b->prefix.n)
        return a->prefix.n > b->prefix.n;
    return memcmp(a->prefix.p, b->prefix.p, a->prefix.n) < 0;
}

static struct as_str copy_text(char **to, struct as_str s)
{
    struct as_str copy = {*to, s.n};

    memcpy(*to, s.p, s.n);
    *to += s.n;
    return copy;
}

/* The rows of g that stay, and `added` if it has a prefix; sorted. */
static struct as_routes *copy_routes(const struct as_routes *g, const struct as_route *added)
{
    bool adds = added->prefix.n > 0;
    size_t text = adds ? added->prefix.n + added->deployment.n : 0;
    struct as_routes *to;
    uint32_t n = adds, at = 0;
    char *p;

    for (uint32_t i = 0; i < g->n; i++) {
        text += g->rows[i].prefix.n + g->rows[i].deployment.n;
        n++;
    }
    to = alloc_routes(n, text);
    p = (char *)&to->rows[n];
    for (uint32_t i = 0; i < g->n || adds;) {
        bool first = adds && (i == g->n || goes_first(added, &g->rows[i]));
        const struct as_route *from = first ? added : &g->rows[i++];

        adds = adds && !first;
        if (from != added && (as_str_eq(from->deployment, added->deployment) ||
                              as_str_eq(from->prefix, added->prefix)))
            continue;
        to->rows[at] = (struct as_route){.prefix = copy_text(&p, from->prefix),
                                         .deployment = copy_text(&p, from->deployment),
                                         .counts = from->counts ? as_counts_ref(from->counts)
                                                                : as_counts_new(AS_COUNTS_ROUTE),
                                         .number = AS_ROUTE_UNKNOWN};
        to->rows[at].root = to->rows[at].prefix.n > 1 ? to->rows[at].prefix : (struct as_str){0};
        at++;
    }
    to->n = at;
    return to;
}

struct as_routes *as_routes_set(struct as_routes *g, struct as_str deployment, struct as_str prefix)
{
    struct as_route added = {.prefix = prefix, .deployment = deployment};
    bool has = false;

    while (added.prefix.n > 1 && added.prefix.p[added.prefix.n - 1] == '/')
        added.prefix.n--;
    if (prefix.n && !is_prefix(added.prefix))
        return NULL;
    for (uint32_t i = 0; i < g->n; i++) {
        if (!as_str_eq(g->rows[i].deployment, deployment))
            continue;
        if (as_str_eq(g->rows[i].prefix, added.prefix))
            return as_routes_ref(g);
        has = true;
    }
    if (!has && !prefix.n)
        return as_routes_ref(g);
    if (!has && g->n == AS_ROUTES_MAX)
        return NULL;
    return copy_routes(g, &added);
}

static bool matches(struct as_str prefix, struct as_str path)
{
    if (prefix.n == 1)
        return path.n && path.p[0] == '/';
    return path.n >= prefix.n && memcmp(path.p, prefix.p, prefix.n) == 0 &&
           (path.n == prefix.n || path.p[prefix.n] == '/');
}

struct as_route *as_routes_find(const struct as_routes *g, struct as_str path)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (matches(g->rows[i].prefix, path))
            return (struct as_route *)(uintptr_t)&g->rows[i];
    }
    return NULL;
}

uint32_t as_routes_count(const struct as_routes *g)
{
    return g->n;
}

const struct as_route *as_routes_at(const struct as_routes *g, uint32_t i)
{
    return &g->rows[i];
}
