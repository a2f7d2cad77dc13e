/* app/server/early_dispatcher.h — a dispatcher without models, which answers clients while the code
 * is imported (seconds to minutes).
 *
 * Liveness is 200, readiness 503, and requests get UNAVAILABLE with a time to retry. It uses the
 * server's listeners. The server's own dispatcher starts beside it and replaces it as in an
 * upgrade, so that no connection is refused in between. If it cannot be started or dies, clients
 * wait in the listeners' backlog. Used on one thread, before the supervisor's loop runs.
 */
#ifndef AS_APP_EARLY_DISPATCHER_H
#define AS_APP_EARLY_DISPATCHER_H

#include "conf/option/option.h"
#include "ctl/supervise/handover.h"

struct as_early_dispatcher {
    int pid, pidfd, control; /* -1: none */
};

void as_early_dispatcher_init(struct as_early_dispatcher *e);
/* Starts it with the server's `listeners`, which stay the caller's. A failure is not reported. */
void as_early_dispatcher_start(struct as_early_dispatcher *e, const struct as_option_set *opts,
                               const struct as_handover *listeners);
/* Call it before the server's dispatcher starts: this one drains and ends;
 * one that cannot be told is killed. */
void as_early_dispatcher_yield(struct as_early_dispatcher *e);
/* Kills the process if it still runs. */
void as_early_dispatcher_fini(struct as_early_dispatcher *e);

#endif
