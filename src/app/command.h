/* app/command.h — the table of commands, defined in main.c.
 *
 * A row feeds the parser, the usage line, both help texts and the shell completion.
 */
#ifndef AS_APP_COMMAND_H
#define AS_APP_COMMAND_H

#include "conf/option/option.h"

struct as_command {
    const char *name, *args, *doc; /* args: placeholders separated by spaces: "DEPLOYMENT N" */
    uint32_t scope;                /* AS_SCOPE_… of its options; 0: the command has no options */
    uint32_t min_args, max_args;
    bool hidden;                            /* not in the help, not completed */
    int (*run)(struct as_option_set *opts); /* returns the exit code */
};

extern const struct as_command as_commands[];
extern const uint32_t as_commands_n;

#endif
