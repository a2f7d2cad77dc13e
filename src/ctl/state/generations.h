/* ctl/state/generations.h — the generations that somebody still needs: number → what was to be
 * served then.
 *
 * Replicas of several generations run side by side during an update, and each is started, told and
 * bounded as its own generation says. What is not here is asked for where it is kept
 * (ctl/state/store). Thread: the owner's.
 */
#ifndef AS_CTL_GENERATIONS_H
#define AS_CTL_GENERATIONS_H

#include "conf/spec.h"

/* 0 and a whole spec (as_spec_overlay), which becomes the catalog's; else AS_E…: there is none, as
 * has been logged. */
typedef int as_generations_load_fn(void *ctx, uint64_t generation, struct as_spec **ret_s);

struct as_generations_entry {
    uint64_t generation;
    struct as_spec *spec;
};

struct as_generations {
    as_generations_load_fn *load; /* NULL: nothing is kept elsewhere */
    void *ctx;
    struct as_generations_entry *entries;
    uint32_t n;
};

/* One deployment as a generation has it; both objects live as long as the generation is kept. */
struct as_generations_deployment {
    const struct as_spec_object *app, *deployment;
};

void as_generations_init(struct as_generations *c, as_generations_load_fn *load, void *ctx);
void as_generations_fini(struct as_generations *c);

/* A new one, or one that is there already, which is then left as it is. `spec` is taken over. */
void as_generations_add(struct as_generations *c, uint64_t generation, struct as_spec *spec);
/* NULL: neither here nor elsewhere. */
const struct as_spec *as_generations_get(struct as_generations *c, uint64_t generation);
/* False: there is no such generation, or no such deployment in it. */
bool as_generations_find(struct as_generations *c, uint64_t generation, struct as_str deployment,
                         struct as_generations_deployment *ret_specs);
/* Lets go of those that nobody needs. */
void as_generations_prune(struct as_generations *c, bool (*needed)(void *arg, uint64_t generation),
                          void *arg);

#endif
