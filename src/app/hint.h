/* app/hint.h — commands of other tools, and ours that do the same. */
#ifndef AS_APP_HINT_H
#define AS_APP_HINT_H

#include "base/buf.h"

/* For a word that is none of our commands: a line for each that its user may want, "\n  anyserve
 * status   …". False: none is known. */
bool as_hint_write(const char *word, struct as_buf *out);

#endif
