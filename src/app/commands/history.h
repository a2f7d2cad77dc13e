/* app/commands/history.h — `anyserve history`: prints the generations of a server as a table or as
 * JSON. */
#ifndef AS_APP_HISTORY_H
#define AS_APP_HISTORY_H

#include "conf/option/option.h"

int as_history_main(struct as_option_set *opts); /* returns the exit code */

#endif
