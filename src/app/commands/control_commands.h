/* app/commands/control_commands.h — commands that change what a running server serves, by its control socket. */
#ifndef AS_APP_CONTROL_H
#define AS_APP_CONTROL_H

#include "conf/option.h"

/* Arguments: "[APPLICATION/]DEPLOYMENT", for scale the number of replicas. The exit code. */
int as_scale_main(struct as_option_set *opts);
int as_restart_main(struct as_option_set *opts);
int as_rollback_main(struct as_option_set *opts);

#endif
