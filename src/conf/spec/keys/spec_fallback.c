/* conf/spec/keys/spec_fallback.c — checks that each deployment's fallback exists, and that no chain
 * of fallbacks is a circle. */
#include "base/suggest.h"
#include "conf/spec/spec_internal.h"
#include "core/registry/traffic.h"

struct node { /* a deployment */
    struct as_str application, name;
    const struct as_spec_object *deployment;
};

struct chains {
    struct as_spec_reader *r;
    struct node *all; /* sorted */
    uint32_t n;
};

static int compare_texts(struct as_str a, struct as_str b)
{
    size_t n = AS_MIN(a.n, b.n);
    int order = n ? memcmp(a.p, b.p, n) : 0;

    return order ? order : a.n < b.n ? -1 : a.n > b.n;
}

static int compare_nodes(const void *x, const void *y)
{
    const struct node *a = x, *b = y;
    int order = compare_texts(a->name, b->name);

    return order ? order : compare_texts(a->application, b->application);
}

static const char *fallback_of(const struct node *d)
{
    return as_spec_str(d->deployment, AS_SPEC_DEPLOYMENT_FALLBACK);
}

/* The deployment to which the fallback of d refers. */
static const struct node *find_fallback(const struct chains *c, const struct node *d)
{
    struct as_id id;
    struct as_str s = as_id_resolve(&id, d->application, as_str_of(fallback_of(d)));
    struct node key = {.application = as_id_application(s), .name = as_id_name(s)};
    uint32_t from = 0, to = c->n;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        int order = compare_nodes(&c->all[mid], &key);

        if (order == 0)
            return &c->all[mid];
        if (order < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return NULL;
}

static void report_unknown(const struct chains *c, const struct node *d)
{
    const struct as_spec_value *v = as_spec_value(d->deployment, AS_SPEC_DEPLOYMENT_FALLBACK);
    struct as_suggest near = {.key = as_str_of(v->s)};
    struct as_str best;

    for (uint32_t i = 0; i < c->n; i++) {
        if (&c->all[i] != d && as_str_eq(c->all[i].application, d->application))
            as_suggest_offer(&near, c->all[i].name);
    }
    best = as_suggest_best(&near);
    as_spec_error(c->r->errors, v->line, v->column,
                  "fallback: of deployment '%.*s': there is no deployment '%s'%s%.*s%s",
                  AS_STR_FMT(d->name), v->s, best.p ? "; did you mean " : "", AS_STR_FMT(best),
                  best.p ? "?" : "");
}

/* Follows the chain of fallbacks of `d`. A circle is reported once, for the member whose name comes
 * first. */
static void check_chain(const struct chains *c, const struct node *d)
{
    const struct as_spec_value *v = as_spec_value(d->deployment, AS_SPEC_DEPLOYMENT_FALLBACK);
    const struct node *seen[AS_TRAFFIC_HOPS] = {d}, *at = d;
    bool first = true, over = false;
    struct as_buf chain = {0};

    as_buf_add(&chain, d->name.p, d->name.n);
    for (uint32_t i = 0; !over && at && fallback_of(at); i++) {
        if (i == AS_TRAFFIC_HOPS) {
            as_spec_error(c->r->errors, v->line, v->column,
                          "fallback: a chain of more than %u deployments: %.*s, …", AS_TRAFFIC_HOPS,
                          AS_STR_FMT(as_buf_slice(&chain)));
            break;
        }
        as_buf_printf(&chain, " → %s", fallback_of(at));
        at = find_fallback(c, at);
        if (at == d && first)
            as_spec_error(c->r->errors, v->line, v->column,
                          "fallback: the deployments form a circle: %.*s",
                          AS_STR_FMT(as_buf_slice(&chain)));
        first = first && at && compare_nodes(d, at) < 0;
        for (uint32_t k = 0; k <= i; k++)
            over = over || seen[k] == at;
        if (i + 1 < AS_TRAFFIC_HOPS)
            seen[i + 1] = at;
    }
    as_buf_fini(&chain);
}

void as_spec_check_fallbacks(struct as_spec_reader *r, const struct as_spec_object *file,
                             bool whole)
{
    struct chains c = {.r = r};

    for (struct as_spec_walk w = {0}; as_spec_next(file, &w);) {
        if (!w.deployment->v[0].s)
            continue;
        if (!(c.n & (c.n - 1))) /* full: the capacity is the next power of two */
            c.all = as_xrealloc(c.all, AS_MAX(1u, 2 * c.n) * sizeof(*c.all));
        c.all[c.n++] =
            (struct node){as_str_of(w.app->v[0].s), as_str_of(w.deployment->v[0].s), w.deployment};
    }
    if (c.n > 1)
        qsort(c.all, c.n, sizeof(*c.all), compare_nodes);
    for (uint32_t i = 0; i < c.n; i++) {
        if (!fallback_of(&c.all[i]))
            continue;
        check_chain(&c, &c.all[i]);
        if (whole && !find_fallback(&c, &c.all[i]))
            report_unknown(&c, &c.all[i]);
    }
    free(c.all);
}

int as_spec_check_whole(const struct as_spec *s, uint32_t lines, struct as_buf *err)
{
    struct as_spec_errors e = {.out = err, .name = s->name, .max = lines};
    struct as_spec_reader r = {.errors = &e};

    as_spec_check_fallbacks(&r, s->file, true);
    as_spec_check_merged(&r, s->file);
    return as_spec_errors_end(&e);
}
