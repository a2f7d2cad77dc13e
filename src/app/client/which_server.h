/* app/client/which_server.h — which server of this machine a command means, decided once before it
 * begins.
 *
 * Blocking calls, for commands.
 */
#ifndef AS_APP_WHICH_H
#define AS_APP_WHICH_H

#include "conf/option.h"

/* The only server that the options can mean is put into them (--port and --runtime-dir), so that
 * all that follows is about that one. None: they stay as they are. Several: stderr names them,
 * unless is_quiet, and AS_EXIT_CODE_USAGE comes back; nothing is taken for the one that was meant.
 * Who asks by
 * --control or --url has said whom. *ret_kept is what the options point into then; the caller frees
 * it behind their last use. */
int as_which_server_resolve(struct as_option_set *opts, bool is_quiet, char **ret_kept);

#endif
