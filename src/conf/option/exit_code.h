/* conf/option/exit_code.h — the exit codes of `anyserve`.
 *
 * The numbers are those of sysexits.h where it has one. A worker that cannot start uses the same
 * codes. A fatal one ends a server that has not been ready yet, since another try cannot help.
 */
#ifndef AS_CONF_EXIT_CODE_H
#define AS_CONF_EXIT_CODE_H

#include "base/defs.h"

/* name, code, fatal when a worker exits with it at start, text */
#define AS_EXIT_CODE_TABLE(X)                                                                      \
    X(OK, 0, false, "success")                                                                     \
    X(FAILED, 1, false, "failed while running")                                                    \
    X(USAGE, 2, false, "wrong command line")                                                       \
    X(DEPLOY_FAILED, 3, false, "the deployment failed, or was rolled back")                        \
    X(TIMEOUT, 4, false, "not done within --timeout; the operation continues")                     \
    X(NOT_FOUND, 66, true, "file, module or attribute not found")                                  \
    X(INTERPRETER, 69, true, "the Python interpreter cannot be used")                              \
    X(RAISED, 70, true, "the model's code raised an exception at start")                           \
    X(SYSTEM, AS_EXIT_SYSTEM, false, "the system refused memory or something else that is needed") \
    X(BUSY, 75, false, "a port or a folder is in use by another server or program")                \
    X(CONFIG, 78, true, "wrong configuration")

enum as_exit_code {
#define X(name, code, fatal, text) AS_EXIT_CODE_##name = code,
    AS_EXIT_CODE_TABLE(X)
#undef X
};

#define AS_EXIT_CODE_STATUS                                                                        \
    100 /* + n: a call ended with gRPC status n (1 … 16), in infer and bench */
#define AS_EXIT_CODE_SIGNAL 128 /* + n: ended by signal n while starting, or by a second signal */

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
