/* app/commands/logs.h — `anyserve logs`: the newest output of a server's processes, out of its journal.
 *
 * The files of a server of this machine (ctl/output/journal.h) are read, nobody is asked: so it works
 * while the controller is dead, and for a server that was killed until the next one takes its
 * place.
 */
#ifndef AS_APP_LOGS_H
#define AS_APP_LOGS_H

#include "conf/option.h"

/* The exit code; 0 when --follow is interrupted, or the server has ended. */
int as_logs_main(struct as_option_set *opts);

#endif
