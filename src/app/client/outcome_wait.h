/* app/client/outcome_wait.h — asks a server for something by a signal and waits for the outcome,
 * which it writes into its runtime folder (ctl/state/outcome.h). Blocking calls, for commands.
 */
#ifndef AS_APP_OUTCOME_WAIT_H
#define AS_APP_OUTCOME_WAIT_H

#include "conf/option/option.h"

struct as_outcome_command {
    const char *done, *failed;
    const char *nothing; /* there was nothing to do */
    bool in_turn;        /* commands at the same time wait for each other */
};

/* Finds the server that the options select, sends it `signo` and waits, at most for --timeout, for
 * the outcome in the file `name`. Prints "DONE TEXT", NOTHING, or to stderr "anyserve: FAILED:
 * REASON". Returns an exit code; errors are printed to stderr. */
int as_outcome_wait_signal(const struct as_option_set *opts, int signo, const char *name,
                           const struct as_outcome_command *c);

#endif
