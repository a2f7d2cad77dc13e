/* app/commands/control_commands.h — commands that change one deployment of a running server.
 *
 * They use its control API. Blocking calls. */
#ifndef AS_APP_CONTROL_COMMANDS_H
#define AS_APP_CONTROL_COMMANDS_H

#include "conf/option/option.h"

/* Arguments: [APPLICATION/]DEPLOYMENT, and for scale the number of replicas. Return the exit code.
 */
int as_scale_main(struct as_option_set *opts);
int as_restart_main(struct as_option_set *opts);
int as_rollback_main(struct as_option_set *opts);

#endif
