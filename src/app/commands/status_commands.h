/* app/commands/status_commands.h — `anyserve status` and `anyserve workers`: what a running server does.
 *
 * The page of its dispatcher (status.sock), whole; with --watch, or of a server elsewhere, what is
 * served and how that is, by the events of its controller.
 */
#ifndef AS_APP_STATUS_H
#define AS_APP_STATUS_H

#include "conf/option.h"

/* The exit code of each. --watch ends with 0 when it is interrupted, with 1 when the server has
 * gone. */
int as_status_main(struct as_option_set *opts);
int as_workers_main(struct as_option_set *opts);

#endif
