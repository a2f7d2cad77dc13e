/* app/detach.h — a server that goes on in the background once it is ready. */
#ifndef AS_APP_DETACH_H
#define AS_APP_DETACH_H

#include "base/buf.h"

#define AS_DETACHED       (-1)
#define AS_DETACH_LOG     "server.log" /* in the state folder, what the server prints */
#define AS_DETACH_LOG_MAX (16u << 20)  /* bytes; a larger one is set aside as server.log.1 first */

/* Before anything else is made. In the new process, which has a session of its own and prints to
 * the log: 0. In the one that was called, which shows what the other prints until it is ready:
 * AS_DETACHED then, or the exit code with which the server has ended. A code and a text in `err`:
 * nothing was started. */
int as_detach(const char *folder, struct as_buf *err);

#endif
