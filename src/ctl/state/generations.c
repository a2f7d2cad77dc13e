#include "ctl/state/generations.h"

void as_catalog_init(struct as_catalog *c, as_catalog_load_fn *load, void *ctx)
{
    *c = (struct as_catalog){.load = load, .ctx = ctx};
}

void as_catalog_fini(struct as_catalog *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        as_spec_free(c->entries[i].spec);
    free(c->entries);
    *c = (struct as_catalog){0};
}

static const struct as_spec *known(const struct as_catalog *c, uint64_t generation)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->entries[i].generation == generation)
            return c->entries[i].spec;
    }
    return NULL;
}

void as_catalog_put(struct as_catalog *c, uint64_t generation, struct as_spec *spec)
{
    if (known(c, generation)) {
        as_spec_free(spec);
        return;
    }
    c->entries = as_xrealloc(c->entries, (c->n + 1) * sizeof(*c->entries));
    c->entries[c->n++] = (struct as_catalog_entry){generation, spec};
}

const struct as_spec *as_catalog_get(struct as_catalog *c, uint64_t generation)
{
    const struct as_spec *s = known(c, generation);
    struct as_spec *loaded;

    if (s || !c->load || c->load(c->ctx, generation, &loaded) < 0)
        return s;
    as_catalog_put(c, generation, loaded);
    return loaded;
}

bool as_catalog_find(struct as_catalog *c, uint64_t generation, struct as_str deployment,
                     struct as_catalog_page *ret_page)
{
    const struct as_spec *s = as_catalog_get(c, generation);
    uint32_t n = s ? as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS) : 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct as_spec_object *app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i),
                                    *d = as_spec_find(app, AS_SPEC_APPLICATION_DEPLOYMENTS,
                                                      deployment);

        if (d) {
            *ret_page = (struct as_catalog_page){app, d};
            return true;
        }
    }
    return false;
}

void as_catalog_keep(struct as_catalog *c, bool (*needed)(void *arg, uint64_t generation),
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
