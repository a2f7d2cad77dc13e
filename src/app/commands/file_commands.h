/* app/commands/file_commands.h — commands about deployment files that need no server: check, build,
 * schema. */
#ifndef AS_APP_FILE_COMMANDS_H
#define AS_APP_FILE_COMMANDS_H

#include "conf/option/option.h"

/* Each returns the exit code. */
int as_check_main(struct as_option_set *opts);  /* FILE: reads it and prints its errors */
int as_build_main(struct as_option_set *opts);  /* TARGET: writes the file for this code */
int as_schema_main(struct as_option_set *opts); /* prints the JSON Schema of a deployment file */
int as_page_main(struct as_option_set *opts);   /* prints docs/guide/deployment-file.md */

#endif
