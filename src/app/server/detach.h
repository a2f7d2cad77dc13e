/* app/server/detach.h — `anyserve start --detach`: moves the server to the background. */
#ifndef AS_APP_DETACH_H
#define AS_APP_DETACH_H

#include "conf/option/option.h"

#define AS_DETACHED (-1)

/* Forks; call it before any descriptor or thread is made. Returns 0 in the new process, which has a
 * session of its own and prints to server.log in `folder`. The calling process copies that log to
 * stderr until the server is ready, and returns AS_DETACHED then, or the exit code if the server
 * ends before. An exit code with a text in `err`: nothing was started. */
int as_detach(const char *folder, const struct as_option_set *opts, struct as_buf *err);

#endif
