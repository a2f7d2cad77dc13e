/* app/server/detach.h — a server that goes on in the background once it is ready. */
#ifndef AS_APP_DETACH_H
#define AS_APP_DETACH_H

#include "conf/option.h"

#define AS_DETACHED (-1)

/* Before anything else is made. In the new process, which has a session of its own and prints to
 * the log: 0. In the one that was called, which shows what the other prints until it is ready:
 * AS_DETACHED then, or the exit code with which the server has ended. A code and a text in `err`:
 * nothing was started. */
int as_detach(const char *folder, const struct as_option_set *opts, struct as_buf *err);

#endif
