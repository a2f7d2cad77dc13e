/* Finds the copies of code that a server still needs, and removes the others. */
#include "app/controller/control_api.h"

#include <stdlib.h>

static void add_codes(struct as_code_store_names *names, const struct as_spec *s)
{
    for (uint32_t i = 0; i < as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS); i++)
        as_code_store_names_add(names,
                                as_spec_str(as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i),
                                            AS_SPEC_APPLICATION_CODE));
}

struct generations {
    uint64_t *all;
    uint32_t n;
};

static void add_generation(void *arg, uint64_t generation)
{
    struct generations *g = arg;

    g->all = as_xrealloc(g->all, (g->n + 1) * sizeof(*g->all));
    g->all[g->n++] = generation;
}

static int add_healthy(struct as_control_api *o, struct as_code_store_names *names,
                       struct as_buf *err)
{
    struct generations g = {0};
    struct as_spec *s;
    int rc =
        o->desired.store ? as_store_each_healthy(o->desired.store, add_generation, &g, err) : 0;

    for (uint32_t i = 0; rc == 0 && i < g.n; i++) {
        rc = as_desired_state_load(&o->desired, g.all[i], &s, err);
        if (rc == 0) {
            add_codes(names, s);
            as_spec_free(s);
        }
    }
    free(g.all);
    return rc;
}

void as_control_api_sweep_code(struct as_control_api *o)
{
    const struct as_generations *c = as_reconciler_generations(o->reconciler);
    struct as_code_store_names names = {0};
    struct as_buf err = {0};
    char text[512];

    o->has_swept = true;
    if (o->job || (!o->sweep_needed && c->n == o->n_generations_swept))
        return; /* a running job needs copies that no generation names yet */
    o->sweep_needed = false;
    o->n_generations_swept = c->n;
    add_codes(&names, o->desired.spec);
    for (uint32_t i = 0; i < c->n; i++)
        add_codes(&names, c->entries[i].spec);
    if (add_healthy(o, &names, &err) == 0)
        as_code_sweeper_sweep(&o->sweeper, &names);
    else
        as_log_event(o->log, AS_LOG_ERROR, "state_unreadable",
                     "action=\"all copies of code are kept\" reason=%s",
                     as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    as_code_store_names_fini(&names);
    as_buf_fini(&err);
}
