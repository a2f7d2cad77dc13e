/* app/controller/controller.h — the process that decides which replicas run.
 *
 * The supervisor starts it, and starts another one when it dies: all of its state is in the store
 * or is given to the next controller by the supervisor.
 */
#ifndef AS_APP_CONTROLLER_H
#define AS_APP_CONTROLLER_H

#include "conf/option/option.h"

#define AS_CONTROLLER_LISTENERS 4u

struct as_controller_fds {
    int app;                          /* what as_declared_write wrote */
    int control;                      /* SOCK_SEQPACKET to the supervisor (ctl/message/message.h) */
    int log;                          /* for log lines */
    int api[AS_CONTROLLER_LISTENERS]; /* listeners of the control API: edge/admin/control.h */
    uint32_t n_api;
};

/* opts: of AS_SCOPE_CONTROLLER; runtime-dir, port and, with an argument, python are set. Takes over
 * the descriptors. Runs until the supervisor sends DRAIN (exit code 0) or has ended; returns the
 * exit code. */
int as_controller_main(const struct as_option_set *opts, const struct as_controller_fds *fds);

#endif
