/* app/controller.h — the process that decides which replicas there are.
 *
 * Started by the supervisor only, again and again if need be: it keeps nothing that the supervisor
 * does not give back to the next one. Owns both descriptors.
 */
#ifndef AS_APP_CONTROLLER_H
#define AS_APP_CONTROLLER_H

#include "ctl/option.h"

/* opts: of AS_SCOPE_CONTROLLER; runtime-dir, port and, with an argument, python are set. app: what
 * as_app_write wrote. control: SOCK_SEQPACKET to the supervisor (ctl/message.h). Runs until DRAIN
 * (exit code 0) or until the supervisor has gone; returns the exit code. */
int as_controller_main(const struct as_option_set *opts, int app, int control);

#endif
