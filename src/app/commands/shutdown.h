/* app/commands/shutdown.h — `anyserve shutdown`: a server of this machine drains and ends. */
#ifndef AS_APP_SHUTDOWN_H
#define AS_APP_SHUTDOWN_H

#include "conf/option.h"

int as_shutdown_main(struct as_option_set *opts); /* the exit code; 0: it has gone */

#endif
