/* app/completion.h — `anyserve completion bash|zsh|fish`: completion for shells.
 *
 * The command prints a script that is generated from the tables of commands and options. The script
 * calls the hidden `anyserve complete` for names of deployments, applications and replicas.
 */
#ifndef AS_APP_COMPLETION_H
#define AS_APP_COMPLETION_H

#include "conf/option/option.h"

int as_completion_main(struct as_option_set *opts); /* SHELL; returns the exit code */
/* Argument "DEPLOYMENT", "APPLICATION" or "REPLICA": prints these names of the server that the
 * options select, one per line. Without a server it prints none, and stderr says so. Returns the
 * exit code. */
int as_complete_main(struct as_option_set *opts);

#endif
