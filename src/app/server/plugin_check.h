/* app/server/plugin_check.h — tries to load the routers of --router-plugin, before a port is bound.
 *
 * That runs code of the user, which the supervisor must not: a child process does it and ends. */
#ifndef AS_APP_PLUGIN_CHECK_H
#define AS_APP_PLUGIN_CHECK_H

#include "base/buf.h"
#include "conf/option/option.h"

/* Returns the exit code: AS_EXIT_CODE_OK, or AS_EXIT_CODE_CONFIG and what is wrong in err. To be
 * called while the process has one thread. */
int as_plugin_check(const struct as_option_set *opts, struct as_buf *err);

#endif
