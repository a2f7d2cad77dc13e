/* app/server/start.h — `anyserve start [FILE]`: a server whose desired state is stored in
 * --state-dir.
 *
 * FILE becomes a new generation, unless it is equal to the newest one. Without FILE the newest
 * generation is served again. The file is read and its code described before anything is started.
 */
#ifndef AS_APP_START_H
#define AS_APP_START_H

#include "conf/option/option.h"

/* opts: parsed for AS_SCOPE_START. Returns the exit code. */
int as_start_main(struct as_option_set *opts);

#endif
