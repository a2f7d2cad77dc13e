/* ctl/supervise/spares.h — warm spares: worker processes that have loaded their code and wait to
 * become a replica.
 *
 * A deployment may have some (warm_spares). A spare is started by the SPAWN text of a replica
 * without its own items (token, name, context: ctl/message/spawn), which are written to the spare's
 * standard input when it becomes the replica. So a spare fits only replicas whose SPAWN text is the
 * same but for those items; other replicas are started as usual. Spares that fit no replica are
 * ended.
 *
 * A spare is started when a replica that it fits has become READY: never beside a replica's own
 * start, and not again and again when spares end by themselves. Spares have no rank, no name and no
 * link; dispatcher and controller do not know of them. Thread: the loop's.
 */
#ifndef AS_CTL_SPARES_H
#define AS_CTL_SPARES_H

#include "ctl/output/console.h"
#include "ctl/supervise/launch.h"

struct as_spares;

/* on_end: a spare has ended; called directly, not deferred. as_spares_any tells whether it was the
 * last one. */
void as_spares_new(struct as_spares **ret_s, struct as_launcher *launcher,
                   struct as_console *console, void (*on_end)(void *ctx), void *ctx);
void as_spares_free(struct as_spares *all); /* without a process */

/* Turns a spare that fits the text `spawn` into the replica: its process becomes the caller's, with
 * ops and ctx. NULL: no spare fits. */
struct as_process *as_spares_acquire(struct as_spares *all, struct as_str deployment,
                                     struct as_str spawn, const struct as_process_ops *ops,
                                     void *ctx);
/* A replica that was started by `spawn` is READY: starts spares until there are as many as the text
 * says. */
void as_spares_refill(struct as_spares *all, struct as_str deployment, struct as_str spawn);
/* Ends those for which `wanted` is false. */
void as_spares_sweep(struct as_spares *all,
                     bool (*wanted)(void *ctx, struct as_str deployment, struct as_str shared),
                     void *ctx);
void as_spares_stop(struct as_spares *all); /* ends all, and starts no more */
bool as_spares_any(const struct as_spares *all);
bool as_spares_owns_pid(const struct as_spares *all, pid_t pid);

/* For an upgrade's exec (ctl/message/reexec_state.h): the next image ends them. */
void as_spares_save(const struct as_spares *all, As__Supervisor *state);
void as_spares_restore(struct as_spares *all, struct as_reexec_reader *in);

#endif
