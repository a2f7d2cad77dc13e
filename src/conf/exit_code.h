/* conf/exit_code.h — what the exit codes of `anyserve` mean.
 *
 * The numbers follow sysexits.h where it has one. A worker uses the same ones to say why it cannot
 * start; those marked fatal end a server that has not been ready yet: trying again cannot help.
 */
#ifndef AS_CONF_EXIT_CODE_H
#define AS_CONF_EXIT_CODE_H

#include "base/defs.h"

/* name, code, fatal when a worker says it at start, text */
#define AS_EXIT_CODE_TABLE(X)                                                                      \
    X(OK, 0, false, "ended as asked")                                                              \
    X(FAILED, 1, false, "failed while running")                                                    \
    X(USAGE, 2, false, "wrong command line")                                                       \
    X(DEPLOY_FAILED, 3, false, "what was deployed has failed, or was taken back")                  \
    X(TIMEOUT, 4, false, "it takes longer than --timeout; what was begun goes on")                 \
    X(NOT_FOUND, 66, true, "file, module or attribute not found")                                  \
    X(INTERPRETER, 69, true, "the Python interpreter cannot be used")                              \
    X(RAISED, 70, true, "the model's code raised on start")                                        \
    X(SYSTEM, AS_EXIT_SYSTEM, false, "the system refused memory or something else that is needed") \
    X(BUSY, 75, false, "a port or a folder is taken by another server or program")                 \
    X(CONFIG, 78, true, "wrong configuration")

enum as_exit_code {
#define X(name, code, fatal, text) AS_EXIT_CODE_##name = code,
    AS_EXIT_CODE_TABLE(X)
#undef X
};

#define AS_EXIT_CODE_STATUS                                                                        \
    100 /* + n: a call ended with gRPC status n (1 … 16), in infer and bench */
#define AS_EXIT_CODE_SIGNAL 128 /* + n: ended by signal n before it was asked twice */

static inline bool as_exit_code_fatal(int code)
{
    switch (code) {
#define X(name, number, fatal, text)                                                               \
    case number:                                                                                   \
        return fatal;
        AS_EXIT_CODE_TABLE(X)
#undef X
    default:
        return false;
    }
}

#endif
