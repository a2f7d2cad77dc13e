/* app/controller/controller.h — the process that decides which replicas there are.
 *
 * Started by the supervisor only, again and again if need be: it keeps nothing that the supervisor
 * does not give back to the next one. Owns the descriptors.
 */
#ifndef AS_APP_CONTROLLER_H
#define AS_APP_CONTROLLER_H

#include "conf/option.h"

#define AS_CONTROLLER_LISTENERS 4u

struct as_controller_fds {
    int app;                          /* what as_declared_write wrote */
    int control;                      /* SOCK_SEQPACKET to the supervisor (ctl/message/message.h) */
    int log;                          /* for log lines */
    int api[AS_CONTROLLER_LISTENERS]; /* for who says what is to be served: edge/admin/control.h */
    uint32_t n_api;
};

/* opts: of AS_SCOPE_CONTROLLER; runtime-dir, port and, with an argument, python are set. Runs until
 * DRAIN (exit code 0) or until the supervisor has gone; returns the exit code. */
int as_controller_main(const struct as_option_set *opts, const struct as_controller_fds *fds);

#endif
