/* ctl/state/outcome.h — how a server tells a waiting command the outcome of what it asked for by a
 * signal: a file in the runtime folder, which the command has removed before.
 *
 * Its text begins with one of the words below. Blocking calls.
 */
#ifndef AS_CTL_OUTCOME_H
#define AS_CTL_OUTCOME_H

#include "base/str.h"

#define AS_OUTCOME_DONE    "done "    /* and what */
#define AS_OUTCOME_FAILED  "failed "  /* and why */
#define AS_OUTCOME_NOTHING "nothing " /* there was nothing to do */

/* Writes and renames, so that the command never reads half of it. A failure is not reported: the
 * log has the outcome, too. folder: the server's runtime folder. */
void as_outcome_write(const char *folder, const char *name, struct as_str text);

#endif
