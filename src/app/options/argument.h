/* app/options/argument.h — checks the argument of a command: Python code or a deployment file.
 *
 * A wrong kind of argument is reported, together with the command that takes it, before a parser
 * reads it. Blocking calls, for commands.
 */
#ifndef AS_APP_ARGUMENT_H
#define AS_APP_ARGUMENT_H

#include "conf/option/option.h"
#include "conf/spec/spec.h"

/* For a command that takes code: FILE.py or MODULE, either with :ATTRIBUTE. Returns an exit code;
 * on failure stderr says what the argument is instead. A name that only Python can look up passes.
 */
int as_argument_check_code(const char *command, const char *target);
/* For a command that takes a deployment file of any name; "-" is stdin. Returns an exit code; on
 * failure stderr says what the argument is instead. */
int as_argument_check_file(const char *command, const char *path);
/* After errors in the contents of a file: if its name ends neither like YAML nor like JSON, appends
 * to `err` that it may not be a deployment file. */
void as_argument_add_hint(const char *path, struct as_buf *err);

/* Loads the deployment file that is the first argument; as_argument_check_file was called. Returns
 * an exit code; on failure `err` says what is wrong, with the file's name. */
int as_argument_load_file(const struct as_option_set *opts, struct as_spec **ret_s,
                          struct as_buf *err);

/* For a command whose first argument is code: the others are KEY=VALUE, for a function that builds
 * the application. Appends the variable by which the worker program gets them; nothing without any.
 * Returns an exit code, and `err` says what is wrong. */
int as_argument_put_variable(const struct as_option_set *opts, struct as_buf *ret_variable,
                             struct as_buf *err);

#endif
