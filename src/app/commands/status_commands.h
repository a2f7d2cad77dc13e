/* app/commands/status_commands.h — `anyserve status` and `anyserve workers`: the state of a server.
 *
 * Prints the dispatcher's status page (status.sock). With --watch or --control it prints the state
 * of applications and deployments instead, from the controller's event stream.
 */
#ifndef AS_APP_STATUS_COMMANDS_H
#define AS_APP_STATUS_COMMANDS_H

#include "conf/option/option.h"

/* Return the exit code. --watch ends with 0 when it is interrupted, with 1 when the server ends. */
int as_status_main(struct as_option_set *opts);
int as_workers_main(struct as_option_set *opts);

#endif
