/* app/hint.h — for commands of other tools, the commands of anyserve that do the same. */
#ifndef AS_APP_HINT_H
#define AS_APP_HINT_H

#include "base/buf.h"

/* Appends a line "\n  anyserve status   …" for each command that does what `word` does in another
 * tool. False: `word` is not known. */
bool as_hint_write(const char *word, struct as_buf *out);

#endif
