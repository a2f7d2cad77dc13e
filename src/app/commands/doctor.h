/* app/commands/doctor.h — `anyserve doctor`: can this machine run a server well, and does the one that runs?
 *
 * Looks only: what it makes to find out (a file, a control group, a socket) is gone when it ends.
 */
#ifndef AS_APP_DOCTOR_H
#define AS_APP_DOCTOR_H

#include "conf/option.h"

/* 0; 1: a check failed. Warnings are no failure. */
int as_doctor_main(struct as_option_set *opts);

#endif
