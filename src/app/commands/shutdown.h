/* app/commands/shutdown.h — `anyserve shutdown`: drains and ends a server on this machine. */
#ifndef AS_APP_SHUTDOWN_H
#define AS_APP_SHUTDOWN_H

#include "conf/option/option.h"

int as_reload_main(struct as_option_set *opts);   /* --runtime-dir, --port */
int as_shutdown_main(struct as_option_set *opts); /* returns the exit code; 0: it has ended */

#endif
