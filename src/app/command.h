/* app/command.h — the one table of commands.
 *
 * A row feeds parsing, usage, both helps and the completion of shells. The rows are in main.c.
 */
#ifndef AS_APP_COMMAND_H
#define AS_APP_COMMAND_H

#include "conf/option.h"

struct as_command {
    const char *name, *args, *doc; /* args: "DEPLOYMENT N", words with spaces between */
    uint32_t scope;                /* of its options; 0: it has none */
    uint32_t min_args, max_args;
    bool hidden;
    int (*run)(struct as_option_set *opts); /* the exit code */
};

extern const struct as_command as_commands[];
extern const uint32_t as_commands_n;

#endif
