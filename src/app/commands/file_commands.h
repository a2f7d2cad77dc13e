/* app/commands/file_commands.h — the commands about deployment files that need no server: check, build, schema. */
#ifndef AS_APP_DECLARE_H
#define AS_APP_DECLARE_H

#include "conf/option.h"

/* All return the exit code. */
int as_check_main(struct as_option_set *opts);  /* FILE: reads it and tells what is wrong */
int as_build_main(struct as_option_set *opts);  /* TARGET: writes the file that its code means */
int as_schema_main(struct as_option_set *opts); /* JSON Schema of a file, to stdout */
int as_page_main(struct as_option_set *opts);   /* docs/guide/deployment-file.md, to stdout */

#endif
