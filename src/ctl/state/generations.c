#include "ctl/state/generations.h"

void as_generations_init(struct as_generations *c, as_generations_load_fn *load, void *ctx)
{
    *c = (struct as_generations){.load = load, .ctx = ctx};
}

void as_generations_fini(struct as_generations *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        as_spec_free(c->entries[i].spec);
    free(c->entries);
    *c = (struct as_generations){0};
}

static const struct as_spec *find_generation(const struct as_generations *c, uint64_t generation)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->entries[i].generation == generation)
            return c->entries[i].spec;
    }
    return NULL;
}

void as_generations_add(struct as_generations *c, uint64_t generation, struct as_spec *spec)
{
    if (find_generation(c, generation)) {
        as_spec_free(spec);
        return;
    }
    c->entries = as_xrealloc(c->entries, (c->n + 1) * sizeof(*c->entries));
    c->entries[c->n++] = (struct as_generations_entry){generation, spec};
}

const struct as_spec *as_generations_get(struct as_generations *c, uint64_t generation)
{
    const struct as_spec *s = find_generation(c, generation);
    struct as_spec *loaded;

    if (s || !c->load || c->load(c->ctx, generation, &loaded) < 0)
        return s;
    as_generations_add(c, generation, loaded);
    return loaded;
}

bool as_generations_find(struct as_generations *c, uint64_t generation, struct as_str deployment,
                         struct as_generations_deployment *ret_specs)
{
    const struct as_spec *s = as_generations_get(c, generation);
    uint32_t n = s ? as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i),
                                    *d = as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS,
                                                      deployment);

        if (d) {
            *ret_specs = (struct as_generations_deployment){app, d};
            return true;
        }
    }
    return false;
}

void as_generations_prune(struct as_generations *c, bool (*needed)(void *arg, uint64_t generation),
                          void *arg)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        if (needed(arg, c->entries[i].generation))
            c->entries[kept++] = c->entries[i];
        else
            as_spec_free(c->entries[i].spec);
    }
    c->n = kept;
}
