/* app/commands/await.h — what was begun on a server, waited for until it is reached, or has failed.
 *
 * By the server's events (app/client/event_stream.h): what happens meanwhile goes to stderr, a line
 * for each change. --timeout of the options is the longest wait. Blocking calls, for commands.
 */
#ifndef AS_APP_AWAIT_H
#define AS_APP_AWAIT_H

#include "base/defs.h"
#include "conf/option.h"
#include "tool/server/changes.h"

/* Until the applications that change are RUNNING, and those that lose all their deployments are
 * gone. An exit code: OK; DEPLOY_FAILED, then stderr has the reason in full; TIMEOUT; FAILED:
 * another change has taken the place of this one, or the server tells no more, stderr says which.
 */
int as_await_changes(const struct as_option_set *opts, const struct as_changes *c);
/* What was asked of one deployment. */
struct as_await_request {
    const char *application, *deployment;
    int64_t generation; /* that the order has made; 0: none */
    int64_t replicas;   /* that it has asked for; -1: it was about something else */
};
/* Until this one deployment is HEALTHY, whatever the others of its application are. Likewise. */
int as_await_deployment(const struct as_option_set *opts, const struct as_await_request *order);

#endif
