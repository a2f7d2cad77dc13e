/* app/run.h — `anyserve run`: everything before the supervisor's loop, in order, with its messages.
 */
#ifndef AS_APP_RUN_H
#define AS_APP_RUN_H

#include "ctl/option.h"

/* opts: parsed for AS_SCOPE_RUN, one argument. Changes ports and paths in it to the final ones.
 * Returns the exit code. */
int as_run_main(struct as_option_set *opts);

#endif
