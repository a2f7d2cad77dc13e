/* ctl/supervise/spares.h — worker processes that have loaded their code and wait to become a
 * replica.
 *
 * A deployment may want some (warm_spares). They are started like its replicas, but for what is one
 * replica's own (token, name, context: `own` items of ctl/message/spawn), which is written to the
 * standard input of the spare that takes a place. A spare is for one recipe: a replica whose
 * process needs anything else is started as usual, and spares whose recipe no place has are ended.
 *
 * One is started when a replica of its recipe has become READY: never beside a replica's own start,
 * and not again and again when it ends by itself. Nobody else knows of them: they have no rank, no
 * name and no link. Thread: the loop's.
 */
#ifndef AS_CTL_SPARES_H
#define AS_CTL_SPARES_H

#include "ctl/output/console.h"
#include "ctl/supervise/launch.h"

struct as_spares;

/* on_end: one is gone; deferred to nobody, as_spares_any tells whether it was the last. */
void as_spares_new(struct as_spares **ret_s, struct as_launcher *launcher,
                   struct as_console *console, void (*on_end)(void *ctx), void *ctx);
void as_spares_free(struct as_spares *all); /* without a process */

/* A spare for what this SPAWN says takes the place now; NULL: there is none. The caller's from then
 * on, with ops and ctx. */
struct as_process *as_spares_acquire(struct as_spares *all, struct as_str deployment,
                                     struct as_str spawn, const struct as_process_ops *ops,
                                     void *ctx);
/* A replica that was started so is READY: as many spares as the text wants. */
void as_spares_refill(struct as_spares *all, struct as_str deployment, struct as_str spawn);
/* Ends those that nobody wants any more. */
void as_spares_sweep(struct as_spares *all,
                     bool (*wanted)(void *ctx, struct as_str deployment, struct as_str shared),
                     void *ctx);
void as_spares_stop(struct as_spares *all); /* ends all, and starts no more */
bool as_spares_any(const struct as_spares *all);
bool as_spares_owns_pid(const struct as_spares *all, pid_t pid);

/* Over an exec (ctl/message/reexec_state.h): the next image ends them. */
void as_spares_save(const struct as_spares *all, struct as_reexec_writer *c);
void as_spares_restore(struct as_spares *all, struct as_reexec_reader *c);

#endif
