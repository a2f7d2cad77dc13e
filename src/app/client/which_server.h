/* app/client/which_server.h — selects the server on this machine that a command is for.
 *
 * Done once, before the command begins. Blocking calls, for commands.
 */
#ifndef AS_APP_WHICH_SERVER_H
#define AS_APP_WHICH_SERVER_H

#include "conf/option.h"

/* If exactly one running server matches the options, sets --port and --runtime-dir to it, so that
 * the rest of the command is about that server. The options then point into *ret_text, which the
 * caller frees after their last use. If none matches, the options stay as they are. If several
 * match, stderr lists them, unless is_quiet, and the result is AS_EXIT_CODE_USAGE. Options that
 * name the server themselves stay as they are, too: --control, and --url or --port of infer and
 * bench. */
int as_which_server_resolve(struct as_option_set *opts, bool is_quiet, char **ret_text);

#endif
