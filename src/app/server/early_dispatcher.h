/* app/server/early_dispatcher.h — answers clients while the code that is to be served is imported:
 * seconds to minutes.
 *
 * A dispatcher that knows no models: live answers 200, ready 503, requests are UNAVAILABLE with a
 * time to try again. It has the server's listeners; the server's own dispatcher starts beside it,
 * and then it ends as one that is relieved, so that no connection is refused in between. What it
 * does not answer, because it cannot be started or has died, waits in the listeners' backlog. One
 * thread, before the supervisor's loop runs.
 */
#ifndef AS_APP_EARLY_H
#define AS_APP_EARLY_H

#include "conf/option.h"
#include "ctl/supervise/handover.h"

struct as_early_dispatcher {
    int pid, pidfd, control; /* -1: none */
};

void as_early_dispatcher_init(struct as_early_dispatcher *e);
/* `listeners`: of the server; they stay the caller's. */
void as_early_dispatcher_start(struct as_early_dispatcher *e, const struct as_option_set *opts,
                               const struct as_handover *listeners);
/* The server's dispatcher is about to start: it ends when its connections have ended. */
void as_early_dispatcher_yield(struct as_early_dispatcher *e);
void as_early_dispatcher_fini(
    struct as_early_dispatcher *e); /* it is killed if it is there still */

#endif
