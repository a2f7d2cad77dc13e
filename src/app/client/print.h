/* app/client/print.h — what commands print: results to stdout, errors to stderr. Blocking calls. */
#ifndef AS_APP_PRINT_H
#define AS_APP_PRINT_H

#include "base/buf.h"

/* Prints "anyserve: TEXT" as a line to stderr, if there is a text, and empties it. Returns `code`.
 */
int as_print_error(struct as_buf *text, int code);
/* The same for a text that says itself what it is about, such as "FILE:LINE:COLUMN: …", and may
 * have several lines. */
int as_print_plain_error(struct as_buf *text, int code);
/* Prints the text to stdout, and empties it. Returns an exit code: it is a failure of a command if
 * its result cannot be written, as to a full disk or a closed pipe. */
int as_print_result(struct as_buf *text);

#endif
