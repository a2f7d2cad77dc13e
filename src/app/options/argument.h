/* app/options/argument.h — what a command was given: code, a deployment file, or something else.
 *
 * A mistake is told as what it is, with the command that takes it, before a parser meets it.
 * Blocking calls, for commands.
 */
#ifndef AS_APP_ARGUMENT_H
#define AS_APP_ARGUMENT_H

#include "base/buf.h"

/* For a command that serves or describes code: FILE.py, MODULE, either with :ATTRIBUTE. An exit
 * code; stderr says what else it is. What only Python can find is let through. */
int as_argument_check_code(const char *command, const char *target);
/* For one that takes a deployment file, of whatever name; "-" is stdin. Likewise. */
int as_argument_check_file(const char *command, const char *path);
/* Behind what is wrong with the contents of a file that is not called like one of YAML or JSON:
 * that it may be none. */
void as_argument_add_hint(const char *path, struct as_buf *err);

#endif
