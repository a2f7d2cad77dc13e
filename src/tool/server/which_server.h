/* tool/server/which_server.h — which server on this machine the options of a command select.
 *
 * Blocking calls, for commands.
 */
#ifndef AS_TOOL_WHICH_SERVER_H
#define AS_TOOL_WHICH_SERVER_H

#include "conf/option/option.h"
#include "io/process/runtime.h"

/* Done once, before the command begins. If exactly one running server matches the options, sets
 * --port and --runtime-dir to it, so that the rest of the command is about that server. The options
 * then point into *ret_text, which the caller frees after their last use. If none matches, the
 * options stay as they are. If several match, stderr lists them, unless is_quiet, and the result is
 * AS_EXIT_CODE_USAGE. Options that name the server themselves stay as they are, too: --control, and
 * --url or --port of infer and bench. */
int as_which_server_resolve(struct as_option_set *opts, bool is_quiet, char **ret_text);

/* as_runtime_find by --runtime-dir and --port. */
void as_which_server_find(struct as_runtime_search *f, const struct as_option_set *opts);
/* Returns the port of the server that the options select, and its --runtime-dir, which the caller
 * frees. The server need not run. */
uint16_t as_which_server_locate(const struct as_option_set *opts, char **ret_base);
/* Appends a line for each of its processes that is stopped (io/process/server_processes.h). */
void as_which_server_put_stopped(const struct as_option_set *opts, struct as_buf *out);

#endif
