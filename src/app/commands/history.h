/* app/commands/history.h — `anyserve history`: the generations of a server, for people and scripts. */
#ifndef AS_APP_HISTORY_H
#define AS_APP_HISTORY_H

#include "conf/option.h"

int as_history_main(struct as_option_set *opts);

#endif
