/* app/commands/await.h — waits until a change of what a server serves is healthy or has failed.
 *
 * Follows the server's events (app/client/event_stream.h) and prints a line to stderr for each
 * change of state. --timeout of the options is the longest wait. Blocking calls, for commands.
 */
#ifndef AS_APP_AWAIT_H
#define AS_APP_AWAIT_H

#include "base/defs.h"
#include "conf/option/option.h"
#include "tool/server/changes.h"

/* Waits until the applications that change are RUNNING, and those that lose all their deployments
 * are gone. Returns an exit code: OK; DEPLOY_FAILED, with the whole reason on stderr; TIMEOUT;
 * FAILED: another change has superseded this one, or the server does not send events any more;
 * stderr says which. */
int as_await_changes(const struct as_option_set *opts, const struct as_changes *c);
/* A request to the control API about one deployment. */
struct as_await_request {
    const char *application, *deployment;
    int64_t generation; /* the generation that the request made; 0: none */
    int64_t replicas;   /* the number of replicas that it set; -1: it set none */
};
/* The same for one deployment: waits until it is HEALTHY, whatever the state of the others of its
 * application. */
int as_await_deployment(const struct as_option_set *opts, const struct as_await_request *request);

#endif
