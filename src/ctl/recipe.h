/* ctl/recipe.h — what a worker of an application is started with: program, arguments, environment.
 *
 * The text of SPAWN, made by the controller. Pure.
 */
#ifndef AS_CTL_RECIPE_H
#define AS_CTL_RECIPE_H

#include "base/buf.h"

struct as_recipe { /* strings are the caller's, and outlive it */
    const char *python, *target;
    const char *link; /* path of the dispatcher's unix socket */
    bool debug_errors;
    uint32_t stream_inputs; /* what a worker is told of streams of inputs, link/worker.h */
    uint64_t stream_input_bytes;
    bool batch; /* workers run as SCHED_BATCH, see io/proc */
};

/* Appends to `text`, which ctl/spawn reads. */
void as_recipe_write(const struct as_recipe *r, const char *deployment, const char *replica,
                     const char *token, struct as_buf *text);

/* Behind it: what the replica is told of itself (docs/PROTOCOL.md, section 10). */
void as_recipe_put_context(struct as_buf *text, const char *deployment, const char *replica,
                           uint32_t rank, uint32_t world_size);

#endif
