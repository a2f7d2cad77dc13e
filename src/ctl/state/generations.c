#include "ctl/state/generations.h"

void as_generations_init(struct as_generations *g, as_generations_load_fn *load, void *ctx)
{
    *g = (struct as_generations){.load = load, .ctx = ctx};
}

void as_generations_fini(struct as_generations *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        as_spec_free(g->entries[i].spec);
    free(g->entries);
    *g = (struct as_generations){0};
}

static const struct as_spec *find_generation(const struct as_generations *g, uint64_t generation)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (g->entries[i].generation == generation)
            return g->entries[i].spec;
    }
    return NULL;
}

void as_generations_add(struct as_generations *g, uint64_t generation, struct as_spec *spec)
{
    if (find_generation(g, generation)) {
        as_spec_free(spec);
        return;
    }
    g->entries = as_xrealloc(g->entries, (g->n + 1) * sizeof(*g->entries));
    g->entries[g->n++] = (struct as_generations_entry){generation, spec};
}

const struct as_spec *as_generations_get(struct as_generations *g, uint64_t generation)
{
    const struct as_spec *s = find_generation(g, generation);
    struct as_spec *loaded;

    if (s || !g->load || g->load(g->ctx, generation, &loaded) < 0)
        return s;
    as_generations_add(g, generation, loaded);
    return loaded;
}

bool as_generations_find(struct as_generations *g, uint64_t generation, struct as_str deployment,
                         struct as_generations_deployment *ret_specs)
{
    const struct as_spec *s = as_generations_get(g, generation);
    struct as_spec_walk w;

    if (!s || !as_spec_find_deployment(s->file, deployment, &w))
        return false;
    *ret_specs = (struct as_generations_deployment){w.app, w.deployment};
    return true;
}

void as_generations_prune(struct as_generations *g, bool (*needed)(void *arg, uint64_t generation),
                          void *arg)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        if (needed(arg, g->entries[i].generation))
            g->entries[kept++] = g->entries[i];
        else
            as_spec_free(g->entries[i].spec);
    }
    g->n = kept;
}
