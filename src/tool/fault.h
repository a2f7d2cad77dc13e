/* tool/fault.h — prints the error of a failed command, as a line or as JSON. Pure. */
#ifndef AS_TOOL_FAULT_H
#define AS_TOOL_FAULT_H

#include "base/buf.h"

/* "anyserve COMMAND: NOT_FOUND: text", or {"error":{"code":…,"exit_code":…,"message":…}}; code is
 * the name of the gRPC status if the exit code stands for one, else USAGE, FILE or FAILED. */
void as_fault_write(struct as_buf *b, const char *command, int code, struct as_str text, bool json);

#endif
