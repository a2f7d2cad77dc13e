/* app/server/start.h — `anyserve start [FILE]`: a server whose desired state is kept in --state-dir.
 *
 * With a FILE that is a new generation, unless it says what is served already; without, what was
 * served last is served again. The file is read, and its code asked what it declares, before
 * anything is started.
 */
#ifndef AS_APP_START_H
#define AS_APP_START_H

#include "conf/option.h"

/* opts: parsed for AS_SCOPE_START. Returns the exit code. */
int as_start_main(struct as_option_set *opts);

#endif
