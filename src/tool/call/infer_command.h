/* tool/call/infer_command.h — `anyserve infer`: calls a model and prints the response as text or as
 * JSON. */
#ifndef AS_TOOL_INFER_COMMAND_H
#define AS_TOOL_INFER_COMMAND_H

#include "conf/option/option.h"

/* opts: parsed for AS_SCOPE_INFER, with one argument, the model. Returns the exit code: 0: ok; 1:
 * the response cannot be parsed; 2: an input or option is wrong; 66: a file cannot be read;
 * AS_EXIT_CODE_STATUS + n: the call ended with gRPC status n (14 also if the server cannot be
 * reached). */
int as_infer_command_main(struct as_option_set *opts);

#endif
