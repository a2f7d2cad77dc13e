/* tool/call/infer_command.h — `anyserve infer`: one ModelInfer call, its answer for people or as
 * JSON. */
#ifndef AS_TOOL_INFER_H
#define AS_TOOL_INFER_H

#include "conf/option.h"

/* opts: parsed for AS_SCOPE_INFER, one argument, the model. Returns the exit code: 0 answered;
 * 2 an input or option is wrong; 66 a file cannot be read; 1 the answer cannot be read;
 * AS_EXIT_CODE_STATUS + n the call ended with gRPC status n (14 too when nobody answers). */
int as_infer_command_main(struct as_option_set *opts);

#endif
