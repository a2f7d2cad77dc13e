/* app/await.h — what was begun on a server, waited for until it is reached, or has failed.
 *
 * By the server's events (app/follow.h): what happens meanwhile goes to stderr, a line for each
 * change. --timeout of the options is the longest wait. Blocking calls, for commands.
 */
#ifndef AS_APP_AWAIT_H
#define AS_APP_AWAIT_H

#include "base/defs.h"
#include "conf/option.h"
#include "tool/changes.h"

as_ns as_await_limit(const struct as_option_set *opts); /* --timeout; AS_NEVER: none */

/* Until the applications that change are RUNNING, and those that lose all their deployments are
 * gone. An exit code: OK; DEPLOY_FAILED, then stderr has the reason in full; TIMEOUT; or why the
 * server tells no more. */
int as_await_changes(const struct as_option_set *opts, const struct as_changes *c);
/* Until this one deployment is HEALTHY, whatever the others of its application are. Likewise. */
int as_await_deployment(const struct as_option_set *opts, const char *application,
                        const char *deployment);

#endif
