/* app/commands/doctor.h — `anyserve doctor`: checks whether this machine can run a server well, and
 * whether the server that runs is well.
 *
 * Changes nothing: what a check makes (a file, a socket) is removed again. Blocking calls.
 */
#ifndef AS_APP_DOCTOR_H
#define AS_APP_DOCTOR_H

#include "conf/option/option.h"

/* Returns the exit code: 1 if a check failed; 0 also with warnings. */
int as_doctor_main(struct as_option_set *opts);

#endif
