/* app/commands/logs.h — `anyserve logs`: prints the newest output of a server's processes.
 *
 * Reads the journal files of a server on this machine (ctl/output/journal.h) and sends no request,
 * so it works without a controller, and after a server was killed, until the next one replaces it.
 */
#ifndef AS_APP_LOGS_H
#define AS_APP_LOGS_H

#include "conf/option/option.h"

/* Returns the exit code; 0 when --follow is interrupted or the server ends. */
int as_logs_main(struct as_option_set *opts);

#endif
