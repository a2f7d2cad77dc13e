/* Finds the copies of code and the pickled code that a server still needs, and removes the others.
 */
#include "app/controller/control_api.h"

#include <stdlib.h>

struct needed {
    struct as_code_store_names copies;
    struct as_pickle_store_names pickles;
};

static void add_codes(struct needed *needed, const struct as_spec *s)
{
    for (uint32_t i = 0; i < as_spec_count(s->file, AS_SPEC_FILE_APPLICATIONS); i++) {
        const char *code = as_spec_str(as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, i),
                                       AS_SPEC_APPLICATION_CODE);

        as_code_store_names_add(&needed->copies, code);
        if (as_pickle_store_is_pickle(code))
            as_pickle_store_names_add(&needed->pickles, as_pickle_store_name(code));
    }
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

static int add_healthy(struct as_control_api *o, struct needed *needed, struct as_buf *err)
{
    struct generations g = {0};
    struct as_spec *s;
    int rc =
        o->desired.store ? as_store_each_healthy(o->desired.store, add_generation, &g, err) : 0;

    for (uint32_t i = 0; rc == 0 && i < g.n; i++) {
        rc = as_desired_state_load(&o->desired, g.all[i], &s, err);
        if (rc == 0) {
            add_codes(needed, s);
            as_spec_free(s);
        }
    }
    free(g.all);
    return rc;
}

/* Uploads that a generation has named by now are kept by that alone; the others stay. */
static void sweep_pickles(struct as_control_api *o, struct as_pickle_store_names *needed)
{
    struct as_buf err = {0};
    char text[512];

    for (uint32_t i = o->uploads.n; i-- > 0;) {
        struct as_str hex = as_str_of(o->uploads.all[i]);

        if (as_pickle_store_names_have(needed, hex))
            as_pickle_store_names_remove(&o->uploads, i);
        else
            as_pickle_store_names_add(needed, hex);
    }
    if (as_pickle_store_sweep(o->deploy_conf.code, needed, &err) < 0)
        as_log_event(o->log, AS_LOG_WARN, "code_not_removed", "reason=%s",
                     as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    as_buf_fini(&err);
}

void as_control_api_expect_pickle(void *ctx, struct as_str name)
{
    struct as_control_api *o = ctx;

    for (uint32_t i = o->uploads.n; i-- > 0;) {
        if (as_str_eq(as_str_of(o->uploads.all[i]), name))
            as_pickle_store_names_remove(&o->uploads, i); /* it becomes the newest */
    }
    as_pickle_store_names_add(&o->uploads, name);
    if (o->uploads.n > o->max_uploads) { /* the file goes with the next sweep */
        as_pickle_store_names_remove(&o->uploads, 0);
        o->sweep_needed = true;
    }
}

int as_control_api_store_pickle(void *ctx, struct as_str name, struct as_str content,
                                struct as_buf *err)
{
    return as_pickle_store_put(((struct as_control_api *)ctx)->deploy_conf.code, name, content,
                               err);
}

void as_control_api_sweep_code(struct as_control_api *o)
{
    const struct as_generations *c = as_reconciler_generations(o->reconciler);
    struct needed needed = {0};
    struct as_buf err = {0};
    char text[512];

    o->has_swept = true;
    if (o->job || (!o->sweep_needed && c->n == o->n_generations_swept))
        return; /* a running job needs copies that no generation names yet */
    o->sweep_needed = false;
    o->n_generations_swept = c->n;
    add_codes(&needed, o->desired.spec);
    for (uint32_t i = 0; i < c->n; i++)
        add_codes(&needed, c->entries[i].spec);
    if (add_healthy(o, &needed, &err) == 0) {
        as_code_sweeper_sweep(&o->sweeper, &needed.copies);
        sweep_pickles(o, &needed.pickles);
    } else {
        as_log_event(o->log, AS_LOG_ERROR, "state_unreadable",
                     "action=\"all copies of code are kept\" reason=%s",
                     as_log_quote(text, sizeof(text), as_buf_slice(&err)));
    }
    as_code_store_names_fini(&needed.copies);
    as_pickle_store_names_fini(&needed.pickles);
    as_buf_fini(&err);
}
