/* ctl/state/generations.h — the generations that are in use: number → specification.
 *
 * During an update replicas of several generations run side by side, and each is started,
 * configured and bounded by its own generation. A generation that is not in memory is loaded by
 * `load`, from the store. Thread: the owner's.
 */
#ifndef AS_CTL_GENERATIONS_H
#define AS_CTL_GENERATIONS_H

#include "conf/spec/spec.h"

/* 0 and a complete spec (as_spec_overlay), which the generations take over; else AS_E…: there is
 * none, which has been logged. */
typedef int as_generations_load_fn(void *ctx, uint64_t generation, struct as_spec **ret_s);

struct as_generations_entry {
    uint64_t generation;
    struct as_spec *spec;
};

struct as_generations {
    as_generations_load_fn *load; /* NULL: nothing is stored */
    void *ctx;
    struct as_generations_entry *entries;
    uint32_t n;
};

/* One deployment in a generation; both objects are valid as long as the generation is in use. */
struct as_generations_deployment {
    const struct as_spec_object *app, *deployment;
};

void as_generations_init(struct as_generations *g, as_generations_load_fn *load, void *ctx);
void as_generations_fini(struct as_generations *g);

/* Adds a generation; one that is there already is left as it is. Takes over `spec`. */
void as_generations_add(struct as_generations *g, uint64_t generation, struct as_spec *spec);
/* Loads it if needed. NULL: there is no such generation. */
const struct as_spec *as_generations_get(struct as_generations *g, uint64_t generation);
/* False: there is no such generation, or no such deployment in it. */
bool as_generations_find(struct as_generations *g, uint64_t generation, struct as_str deployment,
                         struct as_generations_deployment *ret_specs);
/* Frees the generations for which `needed` is false. */
void as_generations_prune(struct as_generations *g, bool (*needed)(void *arg, uint64_t generation),
                          void *arg);

#endif
