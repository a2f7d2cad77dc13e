/* app/commands/deploy_commands.h — commands for the whole of what a server serves: deploy, delete,
 * config. */
#ifndef AS_APP_DEPLOY_COMMANDS_H
#define AS_APP_DEPLOY_COMMANDS_H

#include "conf/option/option.h"

/* Each returns the exit code. */
int as_deploy_main(struct as_option_set *opts); /* FILE */
int as_delete_main(struct as_option_set *opts); /* APPLICATION */
int as_config_main(struct as_option_set *opts); /* prints the deployment file that is served */

#endif
