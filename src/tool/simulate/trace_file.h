/* tool/simulate/trace_file.h — reads the lines of a trace from a file, or from stdin.
 *
 * One line is in memory at a time, so a trace may be longer than memory. Blocking calls, for
 * commands.
 */
#ifndef AS_TOOL_SIMULATE_TRACE_FILE_H
#define AS_TOOL_SIMULATE_TRACE_FILE_H

#include "tool/simulate/trace.h"

struct as_trace_file;

/* "-" is stdin. AS_ENOTFOUND, AS_EDENIED, AS_EIO: `err` gets a line. */
int as_trace_file_open(struct as_trace_file **ret_f, const char *path, struct as_buf *err);
/* 1: a row, valid until the next call. 0: the end. AS_EINVALID: the trace is wrong, or has no row
 * at all; AS_EIO. `err` gets a line. */
int as_trace_file_next(struct as_trace_file *f, struct as_trace_row *ret_row, struct as_buf *err);
const struct as_trace *as_trace_file_trace(const struct as_trace_file *f);
void as_trace_file_close(struct as_trace_file *f);

#endif
