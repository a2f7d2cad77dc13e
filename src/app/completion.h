/* app/completion.h — `anyserve completion bash|zsh|fish`: what a shell completes.
 *
 * A script for the shell, printed from the tables of commands and options, so that it knows what
 * this program knows. Names of what a server serves are asked of it, by `anyserve complete`.
 */
#ifndef AS_APP_COMPLETION_H
#define AS_APP_COMPLETION_H

#include "conf/option.h"

int as_completion_main(struct as_option_set *opts); /* SHELL; the exit code */
/* WHAT: "DEPLOYMENT", "APPLICATION" or "REPLICA": names of the server that the options mean, one a
 * line; none where there is no server, which stderr says. */
int as_complete_main(struct as_option_set *opts);

#endif
