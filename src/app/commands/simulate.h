/* app/commands/simulate.h — `anyserve simulate`: tries a deployment under virtual time. */
#ifndef AS_APP_SIMULATE_H
#define AS_APP_SIMULATE_H

#include "conf/option/option.h"

/* Returns an exit code. Writes the result to stdout, errors to stderr, and a figure with --plot. */
int as_simulate_main(struct as_option_set *opts);

#endif
